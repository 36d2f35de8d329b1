"""What a run measures of each level after a fit, against the examples themselves."""

import numpy as np
import pytest

from mrafno.acquisition.level_errors import LevelErrors, LevelMeasurements, level_shares
from mrafno.grids import relative_l2, resample
from mrafno.run import Run, RunReader
from mrafno.surrogate.out_of_fold import OutOfFoldExamples
from mrafno.surrogate.training.batches import folds
from tests import runs


def test_a_fit_records_spreads_and_errors_of_networks_that_left_the_examples_out(tmp_path):
    with runs.create(tmp_path / "run", "mra-auto", initial=(10, 4), design="spread", pool=30) as run:
        run.advance(1)
        training, data, surrogate = run.state.trainings[-1], run.examples(), run.surrogate
        rows = folds(data.sizes, surrogate.training.out_of_fold_share, surrogate.members, surrogate.seed)
        found = OutOfFoldExamples(data, rows).predict(surrogate)
        trained = [run.state.queries[id] for id in run.state.trained_on]
        candidates = {level: [q.candidate for q in trained if q.level == level] for level in (0, 1)}
        both = [c for c in candidates[0] if c in candidates[1]]
        assert len(both) >= 4
        low = data.outputs[0][[candidates[0].index(c) for c in both]]
        high = data.outputs[1][[candidates[1].index(c) for c in both]]
        apart = relative_l2(resample(low, run.task.grids[0], run.task.grids[1]), high)
        fine = [row for member in rows for row in member[1]]
        paired = [e for row, e in zip(fine, found.errors(1), strict=True) if candidates[1][row] in both]
        assert paired

        used = run.state.used_rows("pool")
        f = run.inputs.pool[[row for row in range(len(run.inputs.pool)) if row not in used]]
        grid = run.task.grids[0]
        coarse, finest = (
            surrogate.predict(run.task.restrict(f, 0), level, grid=grid, check=False).samples for level in (0, 1)
        )

        def spread(samples):
            distances = np.linalg.norm((samples - samples.mean(0)).reshape(len(samples), len(f), -1), axis=2)
            norms = np.linalg.norm(finest.mean(0).reshape(len(f), -1), axis=1)
            return float(np.mean(np.sqrt(np.mean(distances**2, axis=0)) / norms))

        expected = level_shares([
            LevelMeasurements(spread(coarse), found.errors(0), finest=apart),
            LevelMeasurements(spread(finest - coarse), paired, below=apart),
        ])  # fmt: skip
        assert training.level_errors.counts == tuple(map(len, candidates.values()))
        for share, other in zip(training.level_errors.shares, expected, strict=True):
            np.testing.assert_allclose((share.error, share.deviation), (other.error, other.deviation), rtol=1e-3)
            assert share.number == other.number
    recorded = RunReader(tmp_path / "run").state.trainings[-1].level_errors
    assert recorded == training.level_errors


def test_the_next_choice_rests_on_them(tmp_path):
    with runs.create(tmp_path / "run", "mra-auto", initial=(10, 3), design="spread") as run:
        run.advance(2)
        context = run.chooser.context(run.surrogate, run.state)
        assert list(context.level_errors) == [t.level_errors for t in run.state.trainings]
        assert all(isinstance(errors, LevelErrors) for errors in context.level_errors)


def test_a_single_network_has_none(tmp_path):
    with Run.create(tmp_path / "run", runs.tiny(), "mra-auto", inference="point", test=0, iterations=5) as run:
        run.advance(1)
        assert run.state.trainings[-1].level_errors is None


@pytest.mark.parametrize("initial", [(6, 0), (6, 1), (6, 2)])
def test_levels_with_few_examples_or_none(tmp_path, initial):
    with runs.create(tmp_path / "run", "mra-auto", initial=initial, design="spread") as run:
        run.advance(1)
        errors = run.state.trainings[0].level_errors
        assert errors is not None
        assert errors.shares[1].number == 0
        assert errors.shares[1].expected > 0
