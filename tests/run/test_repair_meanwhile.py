"""A repair beside other processes: what was recorded after its check began is not lost."""

import time

import pytest

from mrafno.acquisition.base import Choice
from mrafno.run import RunReader, telling
from mrafno.run.check import check_run
from mrafno.run.repair import Repair, repair_run
from tests import runs
from tests.run.test_repair import contents, damage_array


def once(act):
    """A watcher of a check that acts when it is called first."""
    left = [act]
    return lambda done: left.pop()() if left else None


@pytest.mark.parametrize("copy", [True, False])
def test_what_a_driver_records_while_a_repair_checks_is_not_lost(tmp_path, copy):
    """It had opened the run before the ledger was damaged, and ends while the repair still looks at arrays."""
    run = runs.ready(tmp_path / "run")
    [query] = run.ask(1)
    path = run.path / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"evaluated"', b'"evaluatad"', 1))
    if not copy:
        (run.path / "ledger.copy.jsonl").unlink()

    def ends():
        runs.answer(run, [query])
        run.close()

    done = repair_run(run.path, runs.tiny(), watch=once(ends))
    assert done.dropped == (not copy)
    assert check_run(run.path).intact
    assert RunReader(run.path).state.queries[query.id].status == "told"


def test_a_second_repair_meanwhile_leaves_nothing_to_do(tmp_path):
    """Otherwise it would take back what was simulated again after the first one."""
    with runs.ready(tmp_path / "run") as run:
        folder, query = run.path, run.state.of_kind("test", "told")[0]
        output = run.recorder.example(query)[1]
    damage_array(folder, query.output)
    before = []

    def repaired():
        assert repair_run(folder, runs.tiny()).again == (query.id,)
        telling.tell(folder, query.id, output)
        before.append((contents(folder), (folder / "ledger.jsonl").read_bytes()))

    assert repair_run(folder, runs.tiny(), watch=once(repaired)) == Repair()
    assert before == [(contents(folder), (folder / "ledger.jsonl").read_bytes())]
    assert len(list((folder / "damaged").iterdir())) == 1


def test_the_output_of_a_second_answer_does_not_count_and_leaves_the_query_as_it_is(tmp_path):
    with runs.ready(tmp_path / "run", lease=0.01) as run:
        folder, [first] = run.path, run.ask(1)
        time.sleep(0.02)
        run.session.expire()
        again = run.session.ask(1, choose=lambda n, left: [(Choice(first.candidate, first.level), {"score": 1.0})])
        runs.answer(run, [*again, first])
        record = run.state.queries[first.id]
        assert (record.status, record.output is None) == ("abandoned", False)
    damage_array(folder, record.output)
    done = repair_run(folder, runs.tiny())
    assert (done.again, done.unusable) == ((), ())
    state = RunReader(folder).state
    assert (state.queries[first.id].damaged, state.queries[again[0].id].status) == (("output",), "told")
    assert check_run(folder).intact
    # Its input is damaged later, and cannot be made again, as those of the run are damaged too.
    damage_array(folder, record.input)
    damage_array(folder, state.inputs)
    assert repair_run(folder).unusable == (first.id,)
    assert RunReader(folder).state.queries[first.id].damaged == ("output", "input")
    assert check_run(folder).intact


def test_a_lock_file_that_is_damaged_is_kept_apart_and_the_rest_repaired(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        folder, query = run.path, run.state.of_kind("test", "told")[0]
    damage_array(folder, query.output)
    (folder / "lock").write_text("no lock")
    done = repair_run(folder, runs.tiny())
    assert done.again == (query.id,)
    assert (done.kept / "lock" / "lock").read_text() == "no lock"
    [event] = [event for event in RunReader(folder).ledger.events if event.kind == "repaired"]
    assert len(event.data["damage"]) == 2
