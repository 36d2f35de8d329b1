"""An outcome says why a run stopped and where it stands."""

from mrafno.run.outcome import Outcome
from mrafno.run.reader import RunReader
from mrafno.run.spending import Spent
from tests.made_runs import made_run


def test_it_prints_as_a_sentence():
    assert str(Outcome("finished 5 steps", 5, Spent(2, 12.5, 4), 0.0432)) == (
        "finished 5 steps: cost 18.5 in all: 2 initial, 12.5 chosen, 4 test; relative error 0.0432 on test examples"
    )
    assert str(Outcome("finished 5 steps", 5, Spent(2, 12.5), None, 0.051)) == (
        "finished 5 steps: cost 14.5 in all: 2 initial, 12.5 chosen, 0 test; estimated relative error 0.051"
    )
    assert str(Outcome("asked for the whole pool", 9, Spent(chosen=3))) == (
        "asked for the whole pool: cost 3 in all: 0 initial, 3 chosen, 0 test"
    )


def test_it_is_read_from_a_state(tmp_path):
    made_run(tmp_path / "run", levels=(0, 1), errors=(0.5, 0.25))
    state = RunReader(tmp_path / "run").state
    assert Outcome.of(state, "why") == Outcome("why", 2, Spent(4.0, 11.0, 2.0), 0.25, state.estimate)
    assert Outcome.of(state, "why").cost == 17.0


def test_its_html_view_is_escaped():
    page = Outcome("<b>why</b>", 1, Spent(chosen=2.0), 0.5, 0.4)._repr_html_()
    assert "&lt;b&gt;why" in page
    assert "<td style='text-align:left'>0.5</td>" in page
