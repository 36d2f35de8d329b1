"""After any single damage a check finds it, a repair makes the run open, and nothing undamaged is lost."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mrafno.acquisition.base import Choice
from mrafno.errors import LedgerError, RunError, TaskError
from mrafno.export.predict import predict_file
from mrafno.run import Run, RunReader, telling
from mrafno.run.check import check_run
from mrafno.run.repair import repair_run
from mrafno.simulation.query import Query
from mrafno.simulation.worker import simulate
from tests import runs
from tests.run.test_tables import lacking

EARLIER = Path(__file__).parents[1] / "data" / "v0.2"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run with everything in its directory: told and running queries, inbox, spool, handed-out inputs, checkpoint."""
    folder = tmp_path_factory.mktemp("original") / "run"
    with runs.ready(folder) as run:
        run.advance(steps=2)
        spooled, waiting, handed = run.ask(3)
        (folder / "spool").mkdir(exist_ok=True)
        simulate(run.task, spooled, spool=folder / "spool")
        telling.tell(folder, waiting.id, run.task.solve(waiting.f[None], waiting.level)[0])
        (folder / "asked").mkdir()
        np.save(folder / "asked" / f"{handed.id}.npy", handed.f)
        run.save()
    (folder / "task.source.json").write_text('{"task": null, "folder": null}')
    return folder


@pytest.fixture
def folder(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def contents(folder):
    """Everything that was told, bit for bit."""
    reader = RunReader(folder)
    told = [query for query in reader.state.queries.values() if query.status == "told"]
    return {q.id: (reader.input(q).tobytes(), reader.output(q).tobytes(), q.cost) for q in told}


def flip(path, rng):
    content = bytearray(path.read_bytes())
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def opens(folder):
    """The run opens, is intact, and goes on."""
    assert check_run(folder).intact, check_run(folder).damage
    with Run.open(folder, runs.tiny()) as run:
        run.advance(steps=1)
        assert run.state.running == []
    assert check_run(folder).intact
    return RunReader(folder).state


def test_an_intact_run_of_any_version_is_found_intact(folder, tmp_path):
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    found = check_run(folder)
    assert found.intact, found.damage
    assert {what for what, number in found.checked.items() if number} == {
        "ledger", "inputs", "arrays", "checkpoint", "inbox", "spool", "asked", "call",
    }  # fmt: skip
    assert repair_run(folder).kept is None
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before
    for earlier in sorted(path.parent for path in EARLIER.glob("*/ledger.jsonl")):
        shutil.copytree(earlier, tmp_path / earlier.name)
        assert check_run(tmp_path / earlier.name).intact


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
@pytest.mark.parametrize(
    "file",
    ["ledger.jsonl", "ledger.copy.jsonl", "arrays/inputs.npy", "arrays/000000.pack", "surrogate/surrogate.json",
     "surrogate/weights-*", "inbox/*.msg", "spool/*.npy", "spool/*.json", "asked/*.npy"],
)  # fmt: skip
def test_any_damaged_file(folder, original, file, how, record_property):
    record_property("damaged files", 1)
    [path] = [path for path in folder.glob(file) if path.is_file()]
    rng = np.random.default_rng(sum(map(ord, file + how)))
    before = contents(original)
    if how == "flip":
        flip(path, rng)
    elif how == "cut":
        os.truncate(path, int(rng.integers(path.stat().st_size)))
    else:
        path.unlink()
    # Nothing says that there was a message or a result; the end of the copy is missing after a crash of the machine.
    unseen = how == "remove" and file.startswith(("inbox", "asked", "ledger.copy", "spool/*.json"))
    found = check_run(folder)
    assert found.intact == (unseen or (file, how) == ("ledger.copy.jsonl", "cut")), found.damage
    undamaged = {one.query for one in found.damage if one.part == "output"}
    done = repair_run(folder, runs.tiny())
    # Nothing undamaged is lost: the same bits, at the same costs.
    assert contents(folder) == {id: values for id, values in before.items() if id not in undamaged}
    assert set(done.again) == undamaged
    state = opens(folder)
    # What was lost was simulated again, under its own name.
    for id in undamaged:
        assert (contents(folder)[id][1], state.queries[id].status) == (before[id][1], "told")
    if not found.intact:
        [event] = [event for event in RunReader(folder).ledger.events if event.kind == "repaired"]
        assert len(event.data["damage"]) == len(found.damage)
        assert done.kept == folder / event.data["kept"]
        assert files(done.kept) or how == "remove"


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_something_else_in_place_of_any_file(folder, kind):
    """It is found, nothing waits for a pipe, no link is followed, and the run opens after a repair."""
    needless = ("status.json", "fits.jsonl", "spool/q000012.lock")  # nothing depends on these
    for name in sorted(set(files(folder)) - {*needless}):
        place = folder.with_name(name.replace("/", "-"))
        subprocess.run(["cp", "-a", folder, place], check=True)
        path = place / name
        path.unlink()
        {"pipe": os.mkfifo, "folder": os.mkdir, "link": partial(os.symlink, place / "fits.jsonl")}[kind](path)
        assert not check_run(place).intact, name
        repair_run(place, runs.tiny())
        assert check_run(place).intact, name
        Run.open(place, runs.tiny()).close()


@pytest.mark.parametrize("line", range(0, 24, 3))
@pytest.mark.parametrize("copy", [True, False])
def test_any_damaged_line(folder, original, line, copy, record_property):
    """With the copy it is restored to the last bit; without, what it recorded is lost, and nothing else."""
    record_property("damaged lines", 1)
    path = folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    before, whole = contents(original), path.read_bytes()
    number = line % len(lines)
    lines[number] = lines[number][:20] + b"#" + lines[number][21:]
    path.write_bytes(b"".join(lines))
    damaged = path.read_bytes()
    if not copy:
        (folder / "ledger.copy.jsonl").unlink()
    found = check_run(folder)
    assert f"ledger.jsonl, line {number + 1}" in [one.place for one in found.damage]
    if number == 0 and not copy:
        with pytest.raises(LedgerError, match=r"the first event, which describes the run, is lost.*from a copy"):
            repair_run(folder)
        assert path.read_bytes() == damaged
        return
    done = repair_run(folder, runs.tiny())
    assert (done.kept / "ledger.jsonl").read_bytes() == damaged
    if copy:
        assert path.read_bytes().startswith(whole)
        assert contents(folder) == before
    else:
        lost = before.keys() - contents(folder).keys()
        assert {id: values for id, values in before.items() if id not in lost} == contents(folder)
        kind = RunReader(original).ledger.events[number].kind
        assert kind in ("asked", "told") or not lost
        assert kind != "told" or len(lost) == 1
    state = opens(folder)
    assert state.next_query >= len(state.queries)
    assert [event.kind for event in RunReader(folder).ledger.events].count("repaired") == 1


def test_an_output_can_also_be_told_again(folder):
    state = RunReader(folder).state
    query = state.of_kind("pool", "told")[0]
    output = RunReader(folder).output(query)
    damage_array(folder, query.output)
    assert repair_run(folder).again == (query.id,)
    assert RunReader(folder).state.queries[query.id].standing == "not answered"
    assert telling.tell(folder, query.id, output, cost=2.5).recorded
    again = RunReader(folder)
    assert (again.state.queries[query.id].status, again.state.queries[query.id].cost) == ("told", 2.5)
    assert query.id not in again.state.trained_on
    opens(folder)
    assert query.id in RunReader(folder).state.trained_on


def damage_array(folder, array):
    path = folder / array.file
    content = bytearray(path.read_bytes())
    content[(array.offset or 0) + 130] ^= 8
    path.write_bytes(content)


def test_damaged_inputs_are_made_again_bit_for_bit(folder, original):
    before = contents(original)
    for query in list(RunReader(folder).state.queries.values())[::2]:
        damage_array(folder, query.input)
    found = check_run(folder)
    assert len(found.damage) == len(found.of("arrays")) > 5
    done = repair_run(folder)
    assert len(done.restored) == len(found.damage)
    assert (done.again, done.unusable) == ((), ())
    assert contents(folder) == before


def test_inputs_of_a_task_of_ones_own_are_drawn_again_from_the_same_task_only(folder):
    damage_array(folder, RunReader(folder).state.inputs)
    with pytest.raises(LedgerError, match=r"inputs.npy is damaged.*mrafno repair"):
        Run.open(folder)
    done = repair_run(folder)
    assert done.inputs
    with pytest.raises(TaskError, match="its inputs are not those that the run began with"):
        Run.open(folder, runs.tiny(n=39))
    opens(folder)


def test_runs_with_two_files_per_query_are_repaired_too(tmp_path):
    folder = Path(shutil.copytree(EARLIER / "burgers", tmp_path / "run"))
    told = [q for q in RunReader(folder).state.queries.values() if q.status == "told"]
    first, second = told[0], told[-1]
    damage_array(folder, first.output)
    (folder / second.input.file).unlink()
    done = repair_run(folder)
    assert (done.again, done.restored) == ((first.id,), (f"the input of {second.id}",))
    assert (done.kept / f"{first.id}-output.npy").exists()
    with Run.open(folder) as run:
        assert [query.id for query in run.state.running] == [first.id]
        runs.answer(run, [run.query(run.state.queries[first.id])])
    assert check_run(folder).intact


def test_predictions_need_an_intact_checkpoint_and_nothing_else(folder, tmp_path):
    f = RunReader(folder).tests()[0]
    np.save(tmp_path / "f.npy", f)
    before = predict_file(folder, tmp_path / "f.npy", tmp_path / "before.npz")
    (folder / "ledger.jsonl").write_bytes(b"x\n")
    shutil.rmtree(folder / "arrays")
    after = predict_file(folder, tmp_path / "f.npy", tmp_path / "after.npz")
    assert [text for text in after["warnings"] if text not in before["warnings"]] == [
        "the run's ledger is damaged, so its measured error is not known: see `mrafno check`."
    ]
    for name in ("mean", "std"):
        np.testing.assert_array_equal(np.load(tmp_path / "before.npz")[name], np.load(tmp_path / "after.npz")[name])
    (folder / "ledger.jsonl").unlink()
    predict_file(folder, tmp_path / "f.npy", tmp_path / "again.npz")


def test_cached_simulations_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))
    with runs.create(tmp_path / "run", task=runs.tiny_burgers(), pool=4, test=0) as run:
        run.advance(steps=0)
    cached = sorted((tmp_path / "cache").rglob("*.npz"))
    found = check_run(tmp_path / "run")
    assert (found.checked["cache"], found.damage) == (len(cached), [])
    cached[0].write_bytes(cached[0].read_bytes()[:-9])
    [damage] = check_run(tmp_path / "run").damage
    assert (damage.what, damage.path) == ("cache", cached[0])
    repair_run(tmp_path / "run")
    assert not cached[0].exists()
    assert check_run(tmp_path / "run").intact


def test_a_run_that_is_held_is_checked_and_not_repaired(folder):
    with Run.open(folder, runs.tiny()):
        assert check_run(folder).intact
        damage_array(folder, RunReader(folder).state.of_kind("test", "told")[0].output)
        assert not check_run(folder).intact
        with pytest.raises(LedgerError, match="is being written by"):
            repair_run(folder)


@pytest.mark.parametrize("moment", [0.05, 0.2, 0.5])
def test_a_repair_that_is_killed_is_begun_again(folder, original, moment):
    before = contents(original)
    (folder / "ledger.jsonl").write_bytes((folder / "ledger.jsonl").read_bytes().replace(b"told", b"tald", 1))
    for query in list(RunReader(original).state.queries.values())[::2]:
        damage_array(folder, query.input)
    code = f"import sys, os; os.write(1, b'!'); from mrafno.run.repair import repair_run; repair_run({str(folder)!r})"
    command = [sys.executable, "-c", f"import mrafno.run.repair; {code}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    child.stdout.read(1)
    try:
        child.wait(moment)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    repair_run(folder)
    assert contents(folder) == before
    opens(folder)


def replaced(run):
    """Let an initial simulation fail until a candidate takes the place of its input; returns its query."""
    while True:
        for query in run.ask(1000):
            if query.candidate is not None:
                return query
            if (query.level, run.state.queries[query.id].row) == (0, 0):
                run.fail(query.id, "no convergence")
            else:
                runs.answer(run, [query])


def test_the_input_of_an_initial_example_that_a_candidate_replaced_is_made_again_from_the_candidates(tmp_path):
    folder = tmp_path / "run"
    with runs.create(folder) as run:
        query = replaced(run)
        record = run.state.queries[query.id]
        assert (record.kind, record.from_pool) == ("initial", True)
        # The initial inputs have a row of this number too.
        assert not np.array_equal(run.inputs.initial[record.row], run.inputs.pool[record.row])
    damage_array(folder, record.input)
    done = repair_run(folder, runs.tiny())
    assert (done.restored, done.unusable) == ((f"the input of {query.id}",), ())
    np.testing.assert_array_equal(RunReader(folder).input(RunReader(folder).state.queries[query.id]), query.f)


# Candidates that were added, and what is kept beside the inputs.


@pytest.fixture
def extended(folder):
    """A run with two arrays of added candidates, some of each chosen, one of them not answered."""
    with Run.open(folder, runs.tiny()) as run:
        run.advance(steps=1)
        run.add_candidates(runs.fields(5, 17, 1))
        run.add_candidates(runs.fields(4, 17, 2))
        own = len(run.inputs.pool) - 9
        for row, level in ((own, 0), (own + 1, 1), (own + 5, 0)):
            runs.answer(run, asked(run, row, level))
        asked(run, own + 2, 0)
    return folder


def asked(run, row, level):
    return run.session.ask(1, choose=lambda n, left: [(Choice(row, level), {"score": 1.0})])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("how", ["flip", "remove"])
def test_a_run_goes_on_without_added_candidates_that_are_damaged(extended, number, how):
    path = extended / "arrays" / f"candidates-{number:06d}.npy"
    before = RunReader(extended)
    pool, told, used = np.asarray(before.inputs.pool), contents(extended), before.state.used_rows("pool")
    own = len(pool) - 9
    gone = set(range(own, own + 5) if number == 0 else range(own + 5, own + 9))
    damaged = path.read_bytes()
    if how == "flip":
        flip(path, np.random.default_rng(5))
        damaged = path.read_bytes()
    else:
        path.unlink()
    with pytest.raises(LedgerError, match=r"mrafno repair"), Run.open(extended, runs.tiny()) as run:
        run.ask(1)
    [damage] = check_run(extended).damage
    assert (damage.what, damage.path) == ("candidates", path)
    assert "the run goes on without those that were not used" in damage.remedy
    done = repair_run(extended, runs.tiny())
    assert done.candidates == len(gone - used)
    assert (done.restored, done.again, done.unusable) == ((), (), ())
    if how == "flip":
        assert (done.kept / "candidates" / path.name).read_bytes() == damaged
    assert check_run(extended).intact
    assert contents(extended) == told
    reader = RunReader(extended)
    assert reader.pool == before.pool - len(gone)
    kept = sorted(set(range(len(pool))) - gone)
    np.testing.assert_array_equal(np.asarray(reader.inputs.pool)[kept], pool[kept])
    # All others are asked for, those that are lost are not, and the one that waits is simulated.
    with Run.open(extended, runs.tiny()) as run:
        waiting = [query.id for query in run.state.running]
        assert run.advance().reason == "asked for the whole pool"
        assert {run.state.queries[id].status for id in waiting} == {"told"}
        fresh = {q.row for q in run.state.of_kind("pool", "told")} - used
        assert fresh == set(kept) - used
        assert run.add_candidates(runs.fields(2, 17, 3)) == 2
        run.advance()
        assert {len(pool), len(pool) + 1} <= {q.row for q in run.state.of_kind("pool", "told")}
    assert check_run(extended).intact


def test_a_query_whose_input_is_lost_is_closed_and_takes_no_answer(extended):
    """Its input came from candidates that are damaged too, so that it cannot be made again."""
    own = RunReader(extended).pool - 9
    first, second = [q for q in RunReader(extended).state.of_kind("pool", "told") if q.row >= own][:2]
    flip(sorted(extended.glob("arrays/candidates-*"))[0], np.random.default_rng(0))
    damage_array(extended, first.input)
    output = RunReader(extended).output(first)
    done = repair_run(extended, runs.tiny())
    assert (done.restored, done.unusable) == ((), (first.id,))
    assert second.id in contents(extended)
    with Run.open(extended, runs.tiny()) as run, pytest.raises(RunError, match=f"the input of {first.id} was damaged"):
        run.tell(first.id, output)
    # The same from a process that does not hold the run, and from a worker that was still at it.
    telling.leave_answer(extended, telling.Answer(first.id, "told", output))
    query = Query(first.id, "pool", first.level, runs.fields(1, 17)[:, :: 2 - first.level], first.row, first.step, {})
    simulate(runs.tiny(), query, spool=extended / "spool")
    state = opens(extended)
    assert state.queries[first.id].status == "expired"
    assert [reason for reason in state.refused.values() if "was damaged" in reason]


@pytest.mark.parametrize("name", ["inputs", "available", "checksums"])
@pytest.mark.parametrize("given", [True, False])
def test_what_a_run_on_a_table_keeps_of_its_inputs(tmp_path, name, given):
    folder, task = tmp_path / "run", lacking()
    with runs.create(folder, "random-mix", task) as run:
        run.advance(steps=2)
    before = contents(folder)
    damage_array(folder, getattr(RunReader(folder).state, name))
    [damage] = check_run(folder).damage
    assert damage.what == "inputs"
    done = repair_run(folder, task if given else None)
    assert done.restored == ((name,) if given else ())
    assert done.inputs == (not given and name != "checksums")
    with Run.open(folder, task) as run:
        run.advance(steps=1)
    assert check_run(folder).intact
    assert before.items() <= contents(folder).items()
