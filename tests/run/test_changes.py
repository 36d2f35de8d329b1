"""A simulator that was changed is noticed when a run goes on."""

import warnings

import numpy as np
import pytest

from mrafno.errors import MrafnoWarning, TaskError
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.tasks import Burgers
from tests import runs
from tests.tasks.test_table import solved, table

pytestmark = pytest.mark.usefixtures("quick")


def doubled(f, level):
    return 2 * f


def fivefold(f, level):
    return 5 * f


def test_a_changed_solver_is_a_warning_that_shows_the_change(tmp_path):
    with runs.create(tmp_path / "run", task=runs.tiny(doubled)) as run:
        run.ask(1)
    with pytest.warns(MrafnoWarning) as told, Run.open(tmp_path / "run", runs.tiny(fivefold)) as run:
        assert "at step 0" in run.state.warnings["simulator"]
    [text] = [str(one.message) for one in told if "source" in str(one.message)]
    assert "-    return 2 * f" in text
    assert "+    return 5 * f" in text
    with warnings.catch_warnings():  # it is told once
        warnings.simplefilter("error")
        Run.open(tmp_path / "run", runs.tiny(fivefold)).close()
    assert RunReader(tmp_path / "run").state.warnings


def test_a_strict_task_refuses_a_changed_solver(tmp_path):
    with runs.create(tmp_path / "run", task=runs.tiny(doubled, strict_source=True)) as run:
        before = runs.ledger_bytes(run)
    with pytest.raises(
        TaskError, match=r"(?s)source of its simulator was changed.*return 5 \* f.*Give the simulator as"
    ):
        Run.open(tmp_path / "run", runs.tiny(fivefold, strict_source=True))
    with Run.open(tmp_path / "run", runs.tiny(doubled, strict_source=True)) as run:
        assert runs.ledger_bytes(run) == before


def test_a_reader_changes_nothing(tmp_path):
    with runs.create(tmp_path / "run", task=runs.tiny(doubled)) as run:
        before = runs.ledger_bytes(run)
    with pytest.warns(MrafnoWarning, match="source"):
        Run.open(tmp_path / "run", runs.tiny(fivefold), write=False)
    with Run.open(tmp_path / "run") as run:  # without a task
        assert runs.ledger_bytes(run) == before


def test_changed_outputs_of_a_table_are_noticed(tmp_path):
    with runs.create(tmp_path / "run", task=table()):
        pass
    with pytest.warns(MrafnoWarning, match=r"\+level 1: 30 outputs, sha256"):
        Run.open(tmp_path / "run", table(outputs=[solved(0), 5 * solved(1)])).close()


def test_a_class_of_ones_own_is_noticed_too():
    class Mine(Burgers):
        scale = 1.0

        def _solve(self, f, level):
            return self.scale * f

    task = Mine(resolutions=(9, 17), viscosity=0.05)
    assert "return self.scale * f" in task.describe_simulator()
    assert np.isfinite(task.sample(1)).all()
