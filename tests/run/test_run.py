"""A run as a whole: creating, opening, copying, and what is its own: methods, networks, surrogates."""

import shutil

import numpy as np
import pytest
import torch

from mrafno.data.pool import draw
from mrafno.errors import (
    AcquisitionError,
    LedgerError,
    LedgerLockedError,
    RunError,
    SimulationError,
    TaskError,
)
from mrafno.run import Run
from mrafno.run.methods import METHODS, Method
from mrafno.storage.ledger import Ledger
from mrafno.surrogate import Ensemble, input_channels
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.spec import SurrogateSpec
from mrafno.tasks import get_task
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


# Beginning.


def test_a_run_is_not_begun_twice_in_a_folder(tmp_path):
    with runs.create(tmp_path / "run") as run:
        before = runs.ledger_bytes(run)
    with Run.open(tmp_path / "run") as run:
        assert repr(run) == f"<Run {tmp_path / 'run'}: tiny, {run.state.method}, seed 0, step 0, cost 0>"
    with pytest.raises(LedgerError, match=r"exists already. Go on with it .*, or choose another folder"):
        runs.create(tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"method": "mra-uhut"}, AcquisitionError, r"unknown method 'mra-uhut'. Did you mean 'mra-uhat'"),
        ({"inital": 3}, RunError, "unknown setting 'inital'. Did you mean 'initial'"),
        ({"alpha": -1}, RunError, "alpha"),
        ({"seed": -1}, RunError, "seed must be a whole number, 0 or more, got -1"),
        ({"seed": 0.5}, RunError, "got 0.5"),
        ({"seed": True}, RunError, "got True"),
        ({"test": 40}, RunError, "40 candidates are too few"),
    ],
)
def test_what_is_wrong_leaves_no_run_behind(tmp_path, settings, error, says):
    with pytest.raises(error, match=says):
        runs.create(tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_run_that_could_not_keep_its_inputs_is_let_go_and_keeps_them_when_it_is_opened(tmp_path, monkeypatch):
    """As when it is killed, or the disk is full, between its first two events."""
    with monkeypatch.context() as patched:

        def full(*_):
            raise LedgerError("no space")

        patched.setattr(Ledger, "write_array", full)
        with pytest.raises(LedgerError, match="no space"):
            runs.create(tmp_path / "run")
    with pytest.raises(TaskError, match="its inputs are missing"):
        Run.open(tmp_path / "run")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        np.testing.assert_array_equal(run.inputs.pool, draw(run.task, run.recorder.sizes, 0).pool)
        assert len(run.ask(1)) == 1
    with Run.open(tmp_path / "run") as run:
        assert [event.kind for event in run.ledger.events] == ["created", "inputs", "asked"]


# Opening.


def test_reading_works_while_another_writes_and_writing_does_not(run):
    [query] = run.ask(1)
    reader = Run.open(run.ledger.folder, write=False)
    assert reader.state == run.state
    before = runs.files(run.ledger.folder)
    for refused in (lambda: reader.ask(1), lambda: reader.tell(query.id, query.f), lambda: reader.fail(query.id, "")):
        with pytest.raises(LedgerError, match="not open for writing"):
            refused()
    assert runs.files(run.ledger.folder) == before
    with pytest.raises(LedgerLockedError, match="is being written by this very process"):
        Run.open(run.ledger.folder)
    runs.answer(run, [query])
    reader.close()


def test_a_run_that_is_closed_can_be_opened_by_the_next(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        run.ask(1)
    with pytest.raises(LedgerError, match="was closed"):
        run.ask(1)
    with Run.open(tmp_path / "run") as again:
        assert again.state == run.state


def test_another_task_is_refused_and_nothing_stays_locked(tmp_path):
    runs.create(tmp_path / "run").close()
    for other in (runs.tiny(costs=(1.0, 6.0)), runs.tiny3(), get_task("burgers")):
        with pytest.raises(TaskError, match="not the task that the run began with"):
            Run.open(tmp_path / "run", other)
    Run.open(tmp_path / "run", runs.tiny()).close()


def test_no_run_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(LedgerError, match=r"ledger.jsonl is missing. Give the folder of a run"):
        Run.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_ones_own_task_is_not_needed_for_asking_and_telling(tmp_path):
    shutil.copytree(runs._template("mra-uhat", "{}"), tmp_path / "with")
    shutil.copytree(runs._template("mra-uhat", "{}"), tmp_path / "without")
    with Run.open(tmp_path / "with", runs.tiny()) as known, Run.open(tmp_path / "without") as unknown:
        for _ in range(3):
            for run in (known, unknown):
                for query in run.ask(2):
                    run.tell(query.id, runs.smooth(query.f, query.level))
        assert runs.decisions(known.state) == runs.decisions(unknown.state)
        assert runs.weights(known) == runs.weights(unknown)
        before = runs.ledger_bytes(unknown)
        with pytest.raises(SimulationError, match=r"tiny: this run does not know its simulator. Open it with the task"):
            unknown.advance(total_steps=9)
        # No query was failed for that.
        assert runs.ledger_bytes(unknown) == before


def test_a_built_in_task_comes_back_by_its_name(tmp_path):
    task = runs.tiny_burgers()
    with runs.create(tmp_path / "run", "random-mix", task) as run:
        runs.set_up(run)
        assert run.state.inputs is None
    with Run.open(tmp_path / "run") as again:
        assert again.task.identity == task.identity
        np.testing.assert_array_equal(again.inputs.pool, run.inputs.pool)
        runs.answer(again, again.ask(2))


def test_a_copy_elsewhere_goes_on_to_the_same_end(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        runs.answer(run, run.ask(2)[:1])  # one is running still
    shutil.copytree(tmp_path / "run", tmp_path / "far" / "away")
    ends = []
    for folder in (tmp_path / "run", tmp_path / "far" / "away"):
        with Run.open(folder, runs.tiny()) as run:
            run.advance(total_steps=6)
            ends.append((runs.decisions(run.state), runs.weights(run)))
        shutil.rmtree(tmp_path / "run", ignore_errors=True)  # nothing of it is needed
    assert ends[0] == ends[1]


# Steps, and what advancing returns.


def test_steps_count_from_now_and_total_steps_from_the_beginning(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        assert run.advance(steps=2).steps == 2
        assert run.advance(steps=2).steps == 4
        assert run.advance(total_steps=5).steps == 5
        assert run.advance(total_steps=5).reason == "finished 5 steps"
        assert run.state.step == 5
        with pytest.raises(RunError, match="give steps, which counts from now, or total_steps"):
            run.advance(steps=1, total_steps=2)
        for wrong in (2.5, "4", True, -1):
            with pytest.raises(RunError, match="steps must be a whole number, 0 or more"):
                run.advance(steps=wrong)


# A method of one's own.


class Spread:
    """Largest ensemble spread at the finest level, per cost."""

    name = "spread"

    def __init__(self, power=1.0):
        self.power = power

    def score(self, context, chosen):
        spread = context.predict(level=-1).std.mean(axis=(1, 2)) ** self.power
        return spread[:, None] / np.asarray(context.costs)


class Alternate:
    """The levels in turn."""

    name = "alternate"

    def gains(self, context, chosen):
        number = len(context.observed) + len(chosen)
        return [float(level == number % context.levels) for level in range(context.levels)]


def own_method(power=1.0):
    return Method(acquisition=Spread(power), mesh_rule=Alternate(), name="mine")


def test_a_method_from_outside_chooses_and_is_resumed(tmp_path):
    with runs.create(tmp_path / "one", own_method()) as run:
        run.advance(steps=4)
        whole = runs.choices(run.state)
        assert [level for _, level in whole] == [0, 1, 0, 1]
        assert run.state.method == "mine"
    with runs.create(tmp_path / "two", own_method()) as run:
        run.advance(steps=2)
    with Run.open(tmp_path / "two", runs.tiny(), method=own_method()) as run:
        run.advance(steps=2)
        assert runs.choices(run.state) == whole


def test_another_method_than_the_runs_own_is_refused(tmp_path):
    with runs.create(tmp_path / "run", own_method()) as run:
        runs.set_up(run)
        [query] = run.ask(1)
    with pytest.raises(RunError, match=r"the run was created with: acquisition was .*'power': 1.0.*2.0"):
        Run.open(tmp_path / "run", method=own_method(2.0))
    # Without it the run can be told and read, but nothing can be chosen.
    with Run.open(tmp_path / "run") as run:
        run.tell(query.id, runs.smooth(query.f, query.level))
        with pytest.raises(RunError, match=r"its method 'mine' is not built in. Give it again"):
            run.ask(1)
    with pytest.raises(RunError, match="'mra-u' is the name of a built-in method"):
        runs.create(tmp_path / "other", Method(acquisition=Spread(), name="mra-u"))
    with pytest.raises(RunError, match=r"method must be a name or a mrafno.Method, got Spread"):
        runs.create(tmp_path / "other", Spread())


def test_a_built_in_method_needs_no_object_and_takes_no_other(tmp_path):
    with runs.create(tmp_path / "run", "random-low"):
        pass
    with pytest.raises(RunError, match="its method is random-low, which is built in"):
        Run.open(tmp_path / "run", method=own_method())
    Run.open(tmp_path / "run", method=METHODS["random-low"]).close()


# A network, training settings and a surrogate of one's own.


class Convolutions(torch.nn.Sequential):
    def __init__(self, domain):
        channels = input_channels(domain)
        super().__init__(
            torch.nn.Conv1d(channels, 8, 5, padding="same"),
            torch.nn.GELU(),
            torch.nn.Conv1d(8, domain.out_channels, 5, padding="same"),
        )


def with_surrogate(**spec):
    return Method(acquisition=Spread(), surrogate=SurrogateSpec(**spec), name="mine")


def test_a_network_from_outside_is_trained_as_an_ensemble_and_resumed(tmp_path):
    method = with_surrogate(network=Convolutions, training={"iterations": 3})
    with runs.create(tmp_path / "run", method, members=3) as run:
        run.advance(steps=2)
        assert run.surrogate.members == 3
        f = run.inputs.pool[:2]
        expected = run.surrogate.predict(f).mean
        assert run.surrogate.features(f).shape[0] == 2
    with Run.open(tmp_path / "run", runs.tiny(), method=method) as run:
        np.testing.assert_array_equal(run.surrogate.predict(f).mean, expected)
        assert run.advance(steps=1).steps == 3
    with pytest.raises(RunError, match="not the one that the run was created with: surrogate"):
        Run.open(tmp_path / "run", method=with_surrogate(training={"iterations": 3}))


def test_training_and_network_settings_reach_the_surrogate(tmp_path):
    with runs.create(tmp_path / "run", training={"rate": 2e-3}, network={"width": 6, "layers": 2}) as run:
        assert run.surrogate.training.rate == 2e-3
        assert (run.surrogate.network_settings.width, run.surrogate.network_settings.layers) == (6, 2)
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert run.surrogate.network_settings.width == 6


class Pessimist(Ensemble):
    """An ensemble whose noise is doubled."""

    name = "pessimist"

    def predict(self, *arguments, **options):
        prediction = super().predict(*arguments, **options)
        return Prediction(prediction.samples, prediction.log_var + np.log(4.0))


def test_a_surrogate_class_from_outside_is_used_and_resumed(tmp_path):
    method = with_surrogate(inference=Pessimist)
    with runs.create(tmp_path / "run", method) as run:
        run.advance(steps=1)
        assert type(run.surrogate) is Pessimist
        f = run.inputs.pool[:2]
        expected = run.surrogate.predict(f).std
    with Run.open(tmp_path / "run", runs.tiny(), method=method) as run:
        np.testing.assert_array_equal(run.surrogate.predict(f).std, expected)
        assert type(run.surrogate) is Pessimist


# What people see in a notebook or a terminal.


def test_a_run_prints_and_has_an_html_view(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        assert repr(run) == f"<Run {tmp_path / 'run'}: tiny, mra-uhat, seed 0, step 0, cost 38>"
        page = run._repr_html_()
        assert "<table>" in page
        assert "mra-uhat" in page


def test_it_logs_through_logging(tmp_path, caplog):
    caplog.set_level("INFO", logger="mrafno")
    with runs.create(tmp_path / "run") as run:
        run.advance(steps=1)
    said = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("created ") for text in said)
    assert any(text.startswith("fit 1 (scratch) on 6 examples took") for text in said)
    assert any("relative L2 error" in text for text in said)
