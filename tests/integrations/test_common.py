"""Events become numbers by name, ids are kept in files, and nothing is imported before it is needed."""

import json
import subprocess
import sys

import pytest

from mrafno.errors import MrafnoError
from mrafno.integrations.common import LoggingCallback, Point, numbers, parameters, read_id, write_id
from tests.integrations.scripted import BY_COST, OUTCOMES, SERIES, ScriptedRun


class Recorder(LoggingCallback):
    """Keeps in lists what it is called with."""

    def __init__(self):
        self.opened, self.points, self.closed = [], [], []

    def _open(self, run):
        self.opened.append(run.path)

    def _write(self, run, point):
        self.points.append(point)

    def _close(self, run, point):
        self.closed.append(point)


def series(points, names):
    return {name: [(point.step, point.values[name]) for point in points if name in point.values] for name in names}


def test_events_become_points(tmp_path):
    callback = Recorder()
    ScriptedRun(tmp_path / "run").advance(callback, 1, 2, 3)
    assert {name for point in callback.points for name in point.values} == set(SERIES)
    assert series(callback.points, SERIES) == SERIES
    by_cost = [(name, point.cost, value) for point in callback.points for name, value in point.by_cost.items()]
    for name, expected in BY_COST.items():
        assert [(cost, value) for other, cost, value in by_cost if other == name] == expected
    assert [point.texts for point in callback.points if point.texts] == [{"failure": "q000001: no convergence"}]


def test_the_outcome_closes_the_log_and_the_next_event_opens_it_again(tmp_path):
    callback, run = Recorder(), ScriptedRun(tmp_path / "run")
    run.advance(callback, 1, 2)
    assert (len(callback.opened), len(callback.closed)) == (1, 1)
    run.advance(callback, 3)
    assert (len(callback.opened), len(callback.closed)) == (2, 2)
    assert series(callback.closed, OUTCOMES) == OUTCOMES
    assert [point.texts["outcome/reason"] for point in callback.closed] == ["finished 2 steps", "finished 3 steps"]


def test_initial_and_test_examples_have_no_step(tmp_path):
    callback, run = Recorder(), ScriptedRun(tmp_path / "run")
    for kind in ("initial", "test"):
        run.tell(callback, run.ask(callback, 1, kind))
    assert callback.points == []


def test_a_callback_refuses_a_second_run_while_the_first_is_open(tmp_path):
    callback, run = Recorder(), ScriptedRun(tmp_path / "first")
    run.ask(callback, 1)
    with pytest.raises(MrafnoError, match=r"logs the run .*first and was called by the run .*second. Make one"):
        ScriptedRun(tmp_path / "second").ask(callback, 1)


def test_numbers_are_flat_and_finite():
    values = {"a": 1, "b": None, "c": float("nan"), "d": "text", "e": {"0.5": 0.25, "f": {"g": True}}}
    assert numbers(values, "x") == {"x/a": 1.0, "x/e/0.5": 0.25, "x/e/f/g": 1.0}


def test_points_know_which_values_are_errors():
    assert Point(1, 2.0, {"training/loss": 3.0, "evaluation/nll": 4.0}).by_cost == {}


def test_parameters_are_flat(tmp_path):
    found = parameters(ScriptedRun(tmp_path / "run").state)
    some = {name: found[name] for name in ("method", "seed", "settings/initial", "settings/lease", "task/name")}
    assert some == {"method": "mra-auto", "seed": 7, "settings/initial": 3, "settings/lease": None, "task/name": "made"}
    assert json.loads(found["task/costs"]) == [1.0, 10.0]
    assert not any(isinstance(value, dict | list | tuple) for value in found.values())


def test_ids_are_kept(tmp_path):
    path = tmp_path / "id.json"
    assert read_id(path) is None
    write_id(path, "abc")
    assert read_id(path) == "abc"


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", "\x00"])
def test_a_file_without_an_id_is_an_error_that_names_it(tmp_path, content):
    (tmp_path / "id.json").write_text(content, encoding="utf-8")
    with pytest.raises(MrafnoError, match=r"id\.json: there is no id in this file. Remove it"):
        read_id(tmp_path / "id.json")


def test_the_room_imports_no_package_before_a_callback_is_made():
    code = (
        "import sys, mrafno.integrations as room; names = dir(room); [getattr(room, name) for name in names]; "
        "print(names, sorted({'torch', 'tensorboard', 'mlflow', 'wandb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['MLflowCallback', 'TensorBoardCallback', 'WandbCallback'] []"
