"""Figures of runs: from a run, a reader or a folder, with the numbers of the ledger."""

import pytest

from mrafno import plot
from mrafno.errors import MrafnoError
from mrafno.run import Run, RunReader
from tests.made_runs import made_run, real_run


@pytest.fixture
def run(tmp_path):
    return made_run(tmp_path / "run", levels=(0, 1, 0, 0), errors=(0.4, 0.2, 0.1), failures=["no convergence"])


def test_error_against_cost_by_what_the_cost_has(run):
    figure = plot.error_against_cost(run)
    assert (figure.data[0].x, figure.data[0].y) == ((6.0, 17.0, 19.0), (0.4, 0.2, 0.1))
    assert plot.error_against_cost(RunReader(run), count="chosen").data[0].x == (0.0, 11.0, 13.0)
    menu = figure.layout.updatemenus[-1]
    assert [button.args[0]["x"][0] for button in menu.buttons] == [[6, 17, 19], [4, 15, 17], [0, 11, 13]]


def test_several_runs_on_one_axis(run, tmp_path):
    other = made_run(tmp_path / "other", levels=(1,) * 2, errors=(0.5, 0.3), method="random-mix")
    figure = plot.error_against_cost(run, str(other))
    assert [trace.name for trace in figure.data] == ["run", "other"]
    below = made_run(tmp_path / "below" / "run", levels=(0,), errors=(0.5, 0.3))
    assert [trace.name for trace in plot.error_against_cost(run, below, run).data] == ["run", "below/run"]
    assert [trace.name for trace in plot.error_against_cost(below).data] == ["run"]


def test_what_was_chosen_and_how_long_it_took(run):
    assert [t.y for t in plot.meshes(run).data if t.type == "scatter"] == [(0, 1, 1, 2, 3), (0, 0, 1, 1, 1)]
    assert plot.calibration(run).data[1].y == (0.4, 0.8)
    assert plot.coverage(run).data[0].y == (0.8, 0.8, 0.8)
    assert plot.simulations(run).data[-1].name == "without output"
    assert plot.time_spent(run).data[0].x == pytest.approx((0.4, 0.0, 10.0, 1.25, 1.5), abs=0.3)


def test_figures_of_an_open_run(tmp_path_factory):
    with Run.open(real_run(tmp_path_factory), write=False) as run:
        assert sum(len(trace.customdata) for trace in plot.input_map(run).data) == 16
        assert len(plot.learning_curves(run).data) == 2
        assert len(plot.example(run).data) == len(plot.example(run, "q000000").data) == 5
        assert len(plot.error_against_cost(run).data[0].x) == 3


@pytest.mark.parametrize(
    ("figure", "message"),
    [("error_against_cost", "test=1"), ("meshes", "no example"), ("calibration", "test=1"), ("coverage", "test=1"),
     ("learning_curves", "no learning curves"), ("input_map", "no checkpoint"), ("example", "no checkpoint")],
)  # fmt: skip
def test_what_is_not_there_yet_is_an_error(tmp_path, figure, message):
    made_run(tmp_path / "run")
    with pytest.raises(MrafnoError, match=message):
        getattr(plot, figure)(tmp_path / "run")
