"""Learning curves beside a run: one for each fit, thinned, and nothing where the file makes no sense."""

import json

from mrafno.run.fit_curves import append_fit_curve, read_fit_curves
from tests.runs import ready


def test_every_fit_of_a_run_has_a_curve(tmp_path):
    with ready(tmp_path / "run", update_every=1) as run:
        run.advance(steps=3)
        trainings = run.state.trainings
        found = read_fit_curves(tmp_path / "run")
    assert [curve.fit for curve in found] == list(range(1, len(trainings) + 1))
    assert [curve.kind for curve in found] == [training.kind for training in trainings]
    assert found[-1].examples == 9
    assert all(len(row) == 2 for curve in found for row in curve.losses)


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    append_fit_curve(tmp_path, 1, "scratch", 20, range(1000), [[1 / (i + 1), float("nan")] for i in range(1000)])
    (curve,) = read_fit_curves(tmp_path)
    assert (len(curve.steps), curve.steps[0], curve.steps[-1]) == (40, 0, 999)
    assert curve.losses[-1] == (0.001, None)


def test_of_two_curves_of_one_fit_the_last_counts(tmp_path):
    append_fit_curve(tmp_path, 1, "scratch", 20, [0], [[2.0]])
    append_fit_curve(tmp_path, 1, "scratch", 20, [0], [[1.0]])
    assert [curve.losses for curve in read_fit_curves(tmp_path)] == [((1.0,),)]


def test_lines_that_make_no_sense_are_left_out(tmp_path):
    good = {"fit": 2, "kind": "update", "examples": 3, "steps": [0], "losses": [[1.5]]}
    lines = ["", "{", "[]", "[" * 5000, json.dumps({**good, "losses": []}), json.dumps({**good, "steps": 3})]
    (tmp_path / "fits.jsonl").write_text("\n".join([*lines, json.dumps(good), '{"fit": 3, "ki']))
    assert [curve.fit for curve in read_fit_curves(tmp_path)] == [2]
    assert read_fit_curves(tmp_path / "nowhere") == []
