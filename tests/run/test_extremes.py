"""Numbers and files of extreme size: a bound or a refusal that says what to do, and never a wrong result."""

import tracemalloc

import numpy as np
import pytest

from mrafno.errors import FailuresError, LedgerError, RunError, SurrogateError, TaskError
from mrafno.run.state import RunState
from mrafno.storage.checksum import seal
from mrafno.storage.events import decode_line, decode_lines, encode_line
from mrafno.storage.ledger import Ledger
from mrafno.tasks import TableTask
from tests import runs
from tests.made_runs import made_run


def scaled(scale):
    return runs.tiny(lambda f, level: scale * runs.smooth(f, level))


def test_outputs_too_small_to_be_squared_stop_a_run_instead_of_having_no_error(tmp_path):
    with (
        runs.create(tmp_path / "run", task=scaled(1e-200)) as run,
        pytest.raises(SurrogateError, match=r"the largest output is .*e-200, less than 1e-100. Give outputs in other"),
    ):
        run.advance(steps=1)


def test_outputs_too_large_to_be_squared_are_failures_instead_of_an_end(tmp_path):
    with (
        runs.create(tmp_path / "run", task=scaled(1e160)) as run,
        pytest.raises(FailuresError, match=r"returned .*e\+1\d\d, more than 1e\+100. Did it diverge\? If not, give"),
    ):
        run.advance(steps=1)


@pytest.mark.parametrize("scale", [1e-80, 1e80])
def test_outputs_within_the_bounds_have_an_error(tmp_path, scale):
    with runs.create(tmp_path / "run", task=scaled(scale)) as run:
        run.advance(steps=1)
        found = run.state.evaluations[-1].metrics
    with runs.create(tmp_path / "plain", task=scaled(1.0)) as run:
        run.advance(steps=1)
        plain = run.state.evaluations[-1].metrics
    assert found["relative_l2"] == pytest.approx(plain["relative_l2"], rel=1e-3)
    assert found["coverage"]["0.9"] == pytest.approx(plain["coverage"]["0.9"], abs=0.05)


@pytest.mark.parametrize("costs", [(1e-300, 1), (1, 1e300), (1e-300, 1e-299)])
def test_costs_whose_quotients_overflow_are_refused(costs):
    with pytest.raises(TaskError, match=r"are not between 1e-100 and 1e\+100, .* Give them in another unit"):
        runs.tiny(costs=costs)


def test_a_cost_that_is_told_has_a_bound(tmp_path):
    with runs.create(tmp_path / "run") as run:
        [query] = run.ask(1)
        with pytest.raises(RunError, match=r"the cost of q000000 is 1e\+300, more than 1e\+100"):
            run.tell(query.id, runs.smooth(query.f, query.level), cost=1e300)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_does(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", input_0=np.zeros((8_000_000, 9)), output_0=np.zeros((1, 9)))
    assert (tmp_path / "bomb.npz").stat().st_size < 2e6
    tracemalloc.start()
    with pytest.raises(RunError, match=r"unpack to 576.* MB, more than 20 times as many. .*numpy.savez"):
        runs.create(tmp_path / "run", examples=tmp_path / "bomb.npz")
    with pytest.raises(TaskError, match=r"table .*bomb.npz: 0.56 MB unpack to 576.* MB, more than 20 times as many"):
        TableTask.load(tmp_path / "bomb.npz")
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def line_with(text):
    """A line whose checksum is right, with this text as the cost of what was told."""
    line = encode_line(1, 1, "told", {"id": "q000000", "cost": 0.125}, b"0" * 16)
    return seal(line[: line.index(b',"sum"')].replace(b"0.125", text) + b"}", "sum", separators=(",", ":"))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_is_no_number_of_json_is_no_event(number):
    line = line_with(number)
    assert decode_line(line_with(b"1.5")).event.data["cost"] == 1.5
    assert decode_line(line).fault == "it is no event"
    assert {found.fault for found in decode_lines([line] * 200)} == {"it is no event"}


@pytest.mark.parametrize(("cost", "seconds"), [(float("inf"), 1.0), (-1.0, None), (1.0, float("inf")), (10**400, None)])
def test_a_cost_that_no_writer_writes_is_damage(tmp_path, cost, seconds):
    """A number like 1e999, which JSON has and which Python reads as infinity."""
    events = Ledger.open(made_run(tmp_path / "run", levels=(0,))).events
    told = next(event for event in events if event.kind == "told")
    told.data.update(cost=cost, seconds=seconds)
    with pytest.raises(LedgerError, match=r"\(told\) makes no sense: .*a cost of"):
        RunState.of(events)
