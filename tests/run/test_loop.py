"""The loop: what ends it, what it measures, batches, workers, failures, and Ctrl-C."""

import math
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mrafno.errors import FailuresError, RunError, SimulationError
from mrafno.run import Run
from mrafno.run.trainer import Trainer
from mrafno.simulation import spool as simulations_on_disk
from mrafno.simulation.executors import InProcess, process_pool
from mrafno.simulation.worker import simulate
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Decisions and weights of a run of six steps that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with runs.advanced(folder, 6) as run:
        return runs.decisions(run.state), runs.weights(run), run.state


def measured(run):
    return [evaluation.step for evaluation in run.state.evaluations]


# How it ends.


def test_it_ends_after_so_many_steps_in_all(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        assert run.advance(total_steps=2).reason == "finished 2 steps"
        assert run.advance(total_steps=2).reason == "finished 2 steps"
        assert (run.state.step, run.state.activity()) == (2, "finished 2 steps")
        assert run.advance(total_steps=3).reason == "finished 3 steps"
        assert run.advance(total_steps=1).reason == "nothing to do: 3 steps are done"
        assert run.state.activity() == "finished 3 steps"
        assert run.state.step == 3
        with pytest.raises(RunError, match="total_steps must be a whole number, 0 or more, got -1"):
            run.advance(total_steps=-1)


def test_no_steps_are_the_first_examples_and_their_measurement(tmp_path):
    with runs.advanced(tmp_path / "run", 0) as run:
        assert run.state.counts(2, "told") == [3, 3]
        assert measured(run) == [0]
        assert run.state.stopped == "finished 0 steps"


@pytest.mark.parametrize(("count", "before"), [("total", 38.0), ("training", 18.0), ("chosen", 0.0)])
@pytest.mark.parametrize("rest", [0.5, 7.0, 12.0])
def test_it_ends_when_nothing_fits_the_budget(tmp_path, rest, count, before):
    budget = before + rest
    with runs.ready(tmp_path / "run") as run:
        assert run.advance(budget=budget, count=count).reason == f"used up the budget of {budget:g}"
        assert budget - 1 < run.spent.counted(count) <= budget
        assert rest - 1 < run.state.cost <= rest
        assert measured(run)[-1] == run.state.step
        assert run.state.not_trained_on == []


@pytest.mark.parametrize("goal", [{"budget": 7.0, "count": "chosen"}, {"steps": 20}, {"steps": 20, "target": 1e9}])
@pytest.mark.parametrize("update_every", [1, 2])
def test_every_end_is_a_fit_on_all_examples_that_is_evaluated(tmp_path, goal, update_every):
    """Also where updates have been trained on every example before it is known to be the last."""
    settings = {"update_every": update_every, "evaluate": 1, "pool": 8, "initial": 50, "refit_growth": 1.0}
    with runs.create(tmp_path / "run", task=runs.tiny(n=130), **settings) as run:
        reason = run.advance(**goal).reason
        assert reason.startswith(("used up the budget", "asked for the whole pool", "reached the target"))
        assert run.state.not_trained_on == []
        assert [t.kind for t in run.state.trainings[-2:]] == ["update", "refit"]
        last = run.state.evaluations[-1]
        assert (last.step, last.metrics) == (run.state.step, run.metrics(run.surrogate).as_json())
        weights = runs.weights(run)
    with Run.open(tmp_path / "run", runs.tiny(n=130)) as run:
        assert run.advance(**goal).reason == reason
        assert runs.weights(run) == weights


def test_who_has_no_estimate_of_its_error_takes_no_target(tmp_path):
    with (
        runs.create(tmp_path / "run", "mr-dropout") as run,
        pytest.raises(RunError, match="Leave target out, or choose inference ensemble instead of dropout"),
    ):
        run.advance(total_steps=3, target=0.1)


def test_it_ends_with_the_pool(tmp_path):
    with runs.ready(tmp_path / "run", pool=5, batch=3) as run:
        assert run.advance(total_steps=9).reason == "asked for the whole pool"
        assert sorted(row for row, _ in runs.choices(run.state)) == list(range(5))
        assert measured(run)[-1] == 5
        assert run.advance(total_steps=9, budget=1e9).reason == "asked for the whole pool"


def test_a_pool_whose_rest_fails_is_used_up_too(tmp_path):
    """What failed too often is not there any more, whatever is left of the budget."""
    with runs.ready(tmp_path / "run", task=runs.tiny(runs.broken), pool=2, retries=0) as run:
        assert run.advance(total_steps=9, budget=1e9).reason == "asked for the whole pool"
        assert [q.status for q in run.state.of_kind("pool")] == ["failed", "failed"]


def test_it_ends_at_the_target(tmp_path):
    """When it is sure of it: when the upper ends of two estimates say so, not the estimates themselves."""
    with runs.create(tmp_path / "run", task=runs.tiny(n=130), initial=50, test=0, refit_growth=0) as run:
        reason = run.advance(total_steps=9, target=1e9).reason
        estimate, bound = run.state.estimate, run.state.bound
        assert reason == f"reached the target: estimated error {estimate:.3g}, at most {bound:.3g}"
        assert run.state.step == 1
        assert bound == max(t.estimate.high for t in run.state.trainings)
        assert estimate < run.estimate().high <= bound
        # Lucky enough by the estimate, and yet it goes on.
        run.advance(total_steps=2, target=(estimate + bound) / 2)
        assert run.state.step == 2


def test_errors_that_nobody_left_out_do_not_end_a_run(tmp_path):
    """Two first examples on the finest mesh: at most one of them is out of a network's fold."""
    with runs.ready(tmp_path / "run", "random-low", initial=2, test=0, refit_growth=0) as run:
        assert run.advance(total_steps=4, target=1e9).reason == "finished 4 steps"
        assert (run.state.estimate, run.state.bound) == (None, None)


def test_an_abandoned_choice_is_replaced(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        run.abandon(run.ask(1)[0].id, "never")
        assert run.advance(total_steps=3).reason == "finished 3 steps"
        assert len(run.state.of_kind("pool")) == 4


# Measuring.


def test_it_measures_every_so_many_steps_and_at_the_end(tmp_path):
    with runs.ready(tmp_path / "run", evaluate=3) as run:
        run.advance(total_steps=5)
        assert measured(run) == [0, 3, 5]
        run.advance(total_steps=6)
        assert measured(run) == [0, 3, 5, 6]
        for evaluation in run.state.evaluations:
            told = run.state.of_kind("pool")[: evaluation.step]
            assert evaluation.cost == math.fsum(q.cost for q in told)


def test_batches_do_not_step_over_measurements(tmp_path):
    with runs.ready(tmp_path / "run", evaluate=4, batch=3) as run:
        run.advance(total_steps=12)
        # 4 lies in the batch that ends at 6, 8 in the one that ends at 9.
        assert measured(run) == [0, 6, 9, 12]


def test_without_test_examples_nothing_is_measured_and_the_last_ones_are_learnt(tmp_path):
    with runs.ready(tmp_path / "run", test=0, refit_growth=1.0) as run:
        run.advance(total_steps=4)
        assert measured(run) == []
        assert run.state.trainings[-1].step == 4
        assert len(run.state.trainings) < 5
        assert run.evaluate() is None


def test_learning_waits_until_there_is_enough_new(tmp_path):
    task = runs.tiny(costs=(1.0, 1.0))
    with runs.advanced(tmp_path / "run", 12, task=task, settings={"evaluate": 12, "refit_growth": 0.3}) as run:
        # 6 examples, then at least 30 % more each time, and all at the end.
        assert [t.step for t in run.state.trainings] == [0, 2, 5, 9, 12]


def test_who_watches_changes_nothing(tmp_path, whole):
    heard = []
    with runs.advanced(tmp_path / "run", 6, watch=lambda phase, done=None: heard.append((phase, done))) as run:
        assert runs.decisions(run.state) == whole[0]
        assert runs.weights(run) == whole[1]
    assert {phase for phase, _ in heard} == {"simulating", "training", "choosing"}
    shares = [done for phase, done in heard if phase == "training"]
    assert min(shares) == shares[0] == 0.0  # a fit is announced before it starts
    assert max(shares) == shares[-1] == 1.0


# Batches and workers.


def test_a_run_in_pieces_is_a_run_in_one(tmp_path):
    """Where the pieces end at measurements, and it learns from every example: the last one of a piece always is."""
    with runs.advanced(tmp_path / "whole", 4, settings={"refit_growth": 0}) as run:
        whole = runs.decisions(run.state), runs.weights(run)
    for steps in (0, 2, 4):
        create = partial(runs.create, tmp_path / "run", refit_growth=0)
        with create() if not steps else Run.open(tmp_path / "run", runs.tiny()) as run:
            run.advance(total_steps=steps)
    assert (runs.decisions(run.state), runs.weights(run)) == whole


class Backwards(ThreadPoolExecutor):
    """Gives the results of a batch from the last to the first."""

    def submit(self, fn, /, *args, **kwargs):
        self.count = getattr(self, "count", 0) + 1
        time.sleep(0.01)
        return super().submit(late, 0.2 / self.count, fn, *args, **kwargs)


def late(seconds, fn, /, *args, **kwargs):
    time.sleep(seconds)
    return fn(*args, **kwargs)


def test_batches_do_not_depend_on_the_order_of_their_results(tmp_path):
    found = []
    for name, executor in (("here", None), ("in process", InProcess()), ("backwards", Backwards(8))):
        with runs.advanced(tmp_path / name, 7, settings={"batch": 3}, executor=executor) as run:
            found.append((runs.decisions(run.state), runs.weights(run), run.state.as_json()["steps"]))
            assert not list((tmp_path / name).glob("spool/q*"))
    without = [([{**step, "seconds": 0} for step in steps], *rest) for *rest, steps in found]
    assert without[0] == without[1] == without[2]
    # Three at a time, and the last one alone.
    asked = [len(e.data["queries"]) for e in run.ledger.events if e.kind == "asked"]
    assert asked == [10, 3, 3, 1]


def test_a_pool_of_processes_makes_the_same_decisions(tmp_path):
    found = []
    for name, executor in (("here", None), ("pool", partial(process_pool, 2))):
        with runs.advanced(tmp_path / name, 6, settings={"batch": 3}, executor=executor) as run:
            found.append((runs.decisions(run.state), runs.weights(run)))
    assert found[0] == found[1]


class Counting(ThreadPoolExecutor):
    """Knows how many run at a time; every third one takes longer."""

    def __init__(self):
        super().__init__(8)
        self.running = self.most = self.count = 0

    def submit(self, fn, /, *args, **kwargs):
        self.running += 1
        self.count += 1
        self.most = max(self.most, self.running)
        future = super().submit(late, 0.06 if self.count % 3 else 0.01, fn, *args, **kwargs)
        future.add_done_callback(self.done)
        return future

    def done(self, future: Future) -> None:
        self.running -= 1


@pytest.mark.parametrize("workers", [2, 3])
def test_asynchronous_runs_keep_so_many_under_way(tmp_path, workers):
    executor = Counting()
    with runs.create(tmp_path / "run") as run:
        ask, pending = run.ask, []
        run.ask = lambda n, **how: pending.append((n, len(run.state.running))) or ask(n, **how)
        reason = run.advance(total_steps=9, executor=executor, workers=workers, asynchronous=True).reason
        assert reason == "finished 9 steps"
        assert executor.most == workers
        assert all(n + running <= workers for n, running in pending)
        # It did not wait for one before it asked for the next.
        assert max(running for _, running in pending[-9:]) == workers - 1
        queries = run.state.of_kind("pool")
        assert len({q.row for q in queries}) == len(queries) == 9
        # Nothing was chosen, or measured, before all first examples were there.
        first = min(q.asked for q in queries)
        assert all(q.answered <= first for q in run.state.queries.values() if q.kind != "pool")
        # A measurement waits for the fit that is going on, and more may be observed by then.
        steps = measured(run)
        assert steps == sorted(set(steps))
        assert (steps[0], steps[-1]) == (0, 9)
        assert all(any(due <= step < due + 2 + workers for step in steps) for due in (2, 4, 6, 8))
        for step in run.state.as_json()["steps"]:
            cost = {e.step: e.cost for e in run.state.evaluations}.get(step["step"])
            assert cost is None or cost == step["accumulated_cost"]


def test_asynchronous_runs_go_on_while_the_surrogate_is_trained(tmp_path, monkeypatch):
    fit, meanwhile = Trainer._fit, []

    def slow(self, surrogate, ids, kind, watch):
        if watch is not None and self.meanwhile is not None:
            before = self.state.step
            for _ in range(15):
                time.sleep(0.02)
                watch(0.0, math.nan, math.nan)
            meanwhile.append(self.state.step - before)
        return fit(self, surrogate, ids, kind, watch)

    monkeypatch.setattr(Trainer, "_fit", slow)
    executor = Counting()
    with runs.ready(tmp_path / "run") as run:
        assert run.advance(total_steps=9, executor=executor, workers=2, asynchronous=True).reason == "finished 9 steps"
        # Both workers were given something to do again.
        assert max(meanwhile) >= 3
        assert executor.most == 2
        queries = run.state.of_kind("pool")
        assert len({q.row for q in queries}) == len(queries) == 9
        # What came during a fit is trained on by a later one.
        assert sorted(run.state.trained_on) == sorted(q.id for q in run.state.queries.values() if q.kind != "test")
        weights = runs.weights(run)
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "run" / "surrogate")
    with Run.open(tmp_path / "run") as run:
        assert runs.weights(run) == weights


def test_asynchronous_runs_in_this_process_wait_for_the_fit(tmp_path, whole):
    with runs.ready(tmp_path / "run") as run:
        run.advance(total_steps=6, asynchronous=True)
        assert runs.decisions(run.state) == whole[0]


def test_asynchronous_runs_never_exceed_the_budget(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        run.advance(budget=51.0, executor=Counting(), workers=3, asynchronous=True)
        assert 50 < run.spent.total <= 51
        assert run.state.running == []


def test_no_lease_ends_what_this_process_simulates(tmp_path):
    with runs.ready(tmp_path / "run", lease=0.02) as run:
        run.advance(total_steps=5, executor=Counting(), workers=2, asynchronous=True)
        assert [q.status for q in run.state.of_kind("pool")] == ["told"] * 5


def test_what_finished_without_a_driver_is_collected(tmp_path, whole):
    """Also what was taken back meanwhile, if nobody else was asked for it."""
    folder = tmp_path / "run"
    with runs.create(folder, lease=0.05) as run:
        queries = run.ask(1000)
        (folder / "spool").mkdir()
        for query in queries[:5]:
            simulate(run.task, query, spool=folder / "spool")
        runs.answer(run, queries[5:])
        time.sleep(0.06)
        run.session.expire()
    with Run.open(folder, runs.tiny(runs.broken)) as run:
        assert {run.state.queries[q.id].status for q in queries[:5]} == {"expired"}
        run.advance(total_steps=0)
        assert {q.status for q in run.state.queries.values()} == {"told"}
        assert run.state.trainings[0].loss == whole[2].trainings[0].loss
    assert list((folder / "spool").iterdir()) == []


def test_spooled_results_of_settled_queries_are_cleared_and_foreign_ones_are_named(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with runs.ready(folder) as run:
        settled, failed, waiting = run.ask(3)
        (folder / "spool").mkdir()
        foreign = replace(waiting, id="q000099")
        for query in (settled, failed, waiting, foreign):
            simulate(run.task, query, spool=folder / "spool")
        run.tell(settled.id, runs.smooth(settled.f, settled.level))
        run.fail(failed.id, "no")
        read = []
        known = simulations_on_disk._read
        monkeypatch.setattr(simulations_on_disk, "_read", lambda *of: read.append(of[1]) or known(*of))
        runs.loop_of(run)._collect_spooled()
        assert read == [waiting.id]
        assert [run.state.queries[q.id].status for q in (settled, failed, waiting)] == ["told", "failed", "told"]
        assert {p.name for p in (folder / "spool").iterdir()} == {f"q000099.{end}" for end in ("json", "lock", "npy")}
        assert "q000099.json answers a query that was not asked" in run.ledger.damage[-1]


# Built-in tasks, whose first examples are kept for other runs.


class Solver(runs.Burgers):
    """Counts what it solves, and can be made to fail."""

    def __init__(self, fail=(), interrupt_at=None):
        super().__init__(resolutions=((9,), (17,)), viscosity=0.05)
        self.solved, self.fail, self.interrupt_at = [], fail, interrupt_at

    def _solve(self, f, level):
        for one in f:
            if len(self.solved) == self.interrupt_at:
                self.interrupt_at = None
                raise KeyboardInterrupt
            if runs.digest(one, level) in self.fail:
                raise SimulationError("burgers: no convergence")
            self.solved.append(runs.digest(one, level))
        return super()._solve(f, level)


def test_first_examples_that_were_finished_are_not_simulated_again(tmp_path):
    """Neither after an interruption nor in another run."""
    task = Solver(interrupt_at=8)
    with runs.create(tmp_path / "run", task=task) as run, pytest.raises(KeyboardInterrupt):
        run.advance(total_steps=1)
    with Run.open(tmp_path / "run", task) as run:
        run.advance(total_steps=1)
        steps = run.state.as_json()["steps"]
    # One chunk may be lost with the interruption: it holds seconds of work at most.
    assert len(task.solved) <= 11 + 4
    other = Solver()
    with runs.create(tmp_path / "other", task=other) as run:
        run.advance(total_steps=1)
        assert [s["candidate"] for s in run.state.as_json()["steps"]] == [s["candidate"] for s in steps]
    assert len(other.solved) == 1


def test_a_first_example_that_fails_is_a_failed_query(tmp_path):
    known = Solver()
    with runs.create(tmp_path / "known", task=known) as run:
        initial = [q for q in run.ask(1000) if q.level == 0]
    task = Solver(fail={runs.digest(initial[1].f, 0)})
    with runs.create(tmp_path / "run", task=task) as run:
        assert run.advance(total_steps=1).reason == "finished 1 step"
        failed = [q for q in run.state.queries.values() if q.status == "failed"]
        assert [q.row for q in failed] == [1, 1]
        assert failed[0].reason == "burgers: no convergence"
        # A candidate took its place.
        assert (sum(run.state.counts(2, "told")), run.state.step) == (7, 1)
        assert [q.level for q in run.state.of_kind("initial", "told") if q.from_pool] == [0]
    assert len(task.solved) == len(set(task.solved))


# Failures.


def test_simulations_that_fail_are_failed_with_reasons_and_the_run_goes_on(tmp_path):
    with runs.create(tmp_path / "run", task=runs.tiny(runs.sick), initial=4, test=6, pool=20) as run:
        assert run.advance(total_steps=8, max_failure_rate=0.9).reason == "finished 8 steps"
        failed = [q for q in run.state.queries.values() if q.status == "failed"]
        reasons = " ".join(q.reason for q in failed)
        for says in ("raised ArithmeticError", "no convergence", "NaN or infinite", "returned shape", "real numbers"):
            assert says in reasons
        # Each input was tried twice, and no more.
        for kind in ("initial", "pool", "test"):
            rows = [q.row for q in failed if q.kind == kind and not q.from_pool]
            assert all(rows.count(row) == 2 for row in rows)
        assert [q.step for q in run.state.of_kind("pool", "told")] == list(range(1, 9))


@pytest.mark.parametrize("executor", [None, partial(ThreadPoolExecutor, 2)])
def test_too_many_failures_end_the_run_and_a_mended_simulator_goes_on(tmp_path, executor):
    folder = tmp_path / "run"
    with runs.create(folder) as run:
        runs.answer(run, run.ask(3))
    with Run.open(folder, runs.tiny(runs.broken)) as run:
        says = r"5 simulations failed, 100 % of all, more than 50 %. The last reason: tiny: .*nothing works on level 1"
        with pytest.raises(FailuresError, match=says + r".*Everything is kept: correct the simulator and resume"):
            run.advance(total_steps=2, executor=executor)
        assert len(run.state.of_kind("initial", "told")) == 3
        assert "5 simulations failed" in run.state.activity()
        if executor is None:
            for _ in range(3):  # somebody is stubborn
                with pytest.raises(FailuresError):
                    run.advance(total_steps=2)
    with Run.open(folder, runs.tiny()) as run:
        assert run.advance(total_steps=2).reason == "finished 2 steps"
        assert run.state.counts(2, "told") == [3 + runs_at(run, 0), 3 + runs_at(run, 1)]
        assert len(run.state.of_kind("test", "told")) == 4


def runs_at(run, level):
    return sum(q.level == level for q in run.state.of_kind("pool", "told"))


def test_without_initial_examples_there_is_no_run_until_the_simulator_is_mended(tmp_path):
    with runs.create(tmp_path / "run", task=runs.tiny(fine_fails), retries=0, test=0) as run:
        with pytest.raises(FailuresError, match="simulations failed"):
            run.advance(total_steps=2)
        assert [q.status for q in run.state.of_kind("initial") if q.level == 0] == ["told"] * 3
        assert "told" not in {q.status for q in run.state.of_kind("initial") if q.level == 1}
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert run.advance(total_steps=2).reason == "finished 2 steps"
        # Those that failed before are tried again before candidates in their place.
        assert not all(q.from_pool for q in run.state.of_kind("initial", "told") if q.level == 1)


def fine_fails(f, level):
    return runs.smooth(f, level) if level == 0 else runs.broken(f, level)


def test_the_failure_rate_has_a_limit_of_its_own(tmp_path):
    with runs.ready(tmp_path / "run", task=runs.tiny(runs.broken)) as run:
        with pytest.raises(FailuresError):
            run.advance(total_steps=9, max_failure_rate=0.99)
        before = len(run.state.queries)
        # Whoever is always patient tries all of the pool.
        assert run.advance(total_steps=9, max_failure_rate=1.0).reason == "asked for the whole pool"
        assert len(run.state.queries) - before == 24


@pytest.mark.parametrize(
    ("solve", "how", "says"),
    [
        (runs.hangs, {"limit": 2.0}, "took longer than 2 s and was ended"),
        (runs.leaves, {"isolate": True}, "ended with exit code 3 before it gave an output"),
        (runs.gluttonous, {"memory": 500_000_000}, "MemoryError"),
    ],
)
def test_a_simulator_that_hangs_leaves_or_eats_memory_is_a_failed_query(tmp_path, solve, how, says):
    with runs.ready(tmp_path / "run", task=runs.tiny(solve), retries=0) as run:
        first = np.array([f[0, 0] for f in run.inputs.pool])
        bad, good = int(np.argmax(first > 0.5)), int(np.argmax(first < 0.5))
        run.session._ask(
            [{"kind": "pool", "level": 0, "row": row, "step": step} for step, row in ((1, bad), (2, good))]
        )
        assert run.advance(total_steps=1, **how).reason == "finished 1 step"
        failed, told = run.state.of_kind("pool")
        assert (failed.status, told.status) == ("failed", "told")
        assert says in failed.reason


# Ctrl-C.


@pytest.mark.parametrize("phase", ["simulating", "training", "choosing"])
def test_ctrl_c_stops_and_the_run_goes_on_as_if_nothing_had_happened(tmp_path, whole, phase):
    count = 0

    def interrupt(now, done=None):
        nonlocal count
        count += now == phase
        if now == phase and count == 2:
            raise KeyboardInterrupt

    with runs.create(tmp_path / "run") as run:
        with pytest.raises(KeyboardInterrupt):
            run.advance(total_steps=6, watch=interrupt)
        assert run.state.activity() == "interrupted"
        assert run.ledger.events[-1].data == {"reason": "interrupted"}
        shutil.copytree(tmp_path / "run", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
        # In the same process, as in a notebook.
        assert run.advance(total_steps=6).reason == "finished 6 steps"
        assert runs.decisions(run.state) == whole[0]
        assert runs.weights(run) == whole[1]
    with Run.open(tmp_path / "copy", runs.tiny()) as run:
        run.advance(total_steps=6)
        assert runs.decisions(run.state) == whole[0]
        assert runs.weights(run) == whole[1]


def interrupts(f, level):
    """Ctrl-C in the middle of the eighth simulation."""
    interrupts.count += 1
    if interrupts.count == 8:
        raise KeyboardInterrupt
    return runs.smooth(f, level)


def test_ctrl_c_during_a_simulation_keeps_those_before_it(tmp_path, whole):
    interrupts.count = 0
    with runs.create(tmp_path / "run", task=runs.tiny(interrupts)) as run:
        with pytest.raises(KeyboardInterrupt):
            run.advance(total_steps=6)
        told = [q.id for q in run.state.queries.values() if q.status == "told"]
        assert told == [f"q{n:06d}" for n in range(7)]
        run.advance(total_steps=6)
        assert interrupts.count == 8 + 9
        assert runs.decisions(run.state) == whole[0]
        assert runs.weights(run) == whole[1]
