"""From a trained surrogate and a run's state to the next choices: builds the context that a method sees."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mrafno.acquisition.base import Choice, Context, Indices, scorer
from mrafno.acquisition.cost import annealed_cost
from mrafno.acquisition.selection import select
from mrafno.acquisition.utilities import PoolGrams, draw_targets, pool_grams
from mrafno.data.pool import RunInputs
from mrafno.grids import Array, Grid, resample
from mrafno.run.methods import Method
from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState
from mrafno.surrogate.inference.base import Surrogate
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks.base import Task

#: Candidates predicted at a time.
_CHUNK = 250


class Chooser:
    """Chooses for one task, method and settings; it keeps the pool on the scoring grid."""

    def __init__(self, task: Task, method: Method, settings: RunSettings, seed: int, inputs: RunInputs) -> None:
        self.task, self.method, self.settings, self.seed, self.inputs = task, method, settings, seed, inputs
        self.grid = scoring_grid(task, settings.scoring_points)
        self._resampled: Array | None = None
        self._grams: tuple[int, PoolGrams] | None = None

    def choose(
        self, surrogate: Surrogate, state: RunState, n: int, budget: float | None = None
    ) -> list[tuple[Choice, dict[str, Any]]]:
        """The next n choices, each the best given all before it and all queries not trained on yet.

        Each comes with what it rests on, as JSON values: its score, the best score of every level, the cost weights.

        Args:
            budget: what they may cost together; what does not fit is not chosen.
        """
        context = self.context(surrogate, state, budget)
        if not len(context.candidates) or n < 1:
            return []
        # An observation that was not trained on yet counts like a running query: its information is on the way.
        pending = [(q.row, q.level) for q in (*state.not_trained_on, *state.running) if q.kind == "pool"]
        score = scorer(self.method.acquisition, context, self.method.mesh_rule)
        answers: list[tuple[Indices, Array]] = []

        def recorded(remaining: Indices, chosen: Sequence[Choice]) -> Array:
            scores = np.asarray(score(remaining, chosen), dtype=np.float64)
            answers.append((remaining.copy(), scores))
            return scores

        weights = list(context.cost_weights) if self.method.divide_by_cost else None
        choices = select(
            recorded,
            n=n,
            remaining=context.candidates,
            pending=pending,
            costs=weights,
            prices=self.task.costs,
            budget=budget,
        )
        return [
            (choice, {**_details(*answer, choice), "costs": weights})
            for choice, answer in zip(choices, answers, strict=False)
        ]

    def context(self, surrogate: Surrogate, state: RunState, budget: float | None = None) -> Context:
        """What the method sees when it makes the next choice."""
        step, s, levels = state.next_step, self.settings, range(self.task.levels)
        remaining = np.setdiff1d(np.arange(len(self.inputs.pool)), sorted(state.used_rows("pool"))).astype(np.int64)
        candidates = remaining
        if s.candidates and len(remaining) > s.candidates:
            rng = np.random.default_rng([self.seed, step, 3])
            candidates = np.sort(rng.choice(remaining, s.candidates, replace=False))
        targets = None
        if len(remaining) and s.targets is not None:
            targets = draw_targets(remaining, s.targets, seed=self.seed, step=step)
        elif s.candidates is not None:
            targets = remaining  # some candidates are scored, by their information on all
        initial = [q.level for q in state.of_kind("initial", "told")]
        trained = set(state.trained_on)
        observed = [state.queries[id] for id in state.trained_on if state.queries[id].kind == "pool"]
        first = len(self.inputs.pool)
        used = [(q.row if q.from_pool else first + q.row, q.level) for q in state.of_kind("initial", "told", "running")]
        used += [(q.row, q.level) for q in state.of_kind("pool", "told") if q.id in trained]
        weights = annealed_cost(
            self.task.costs, step - 1, schedule=s.schedule, rate=s.alpha, renormalise=s.renormalise
        )  # steps count from 1, schedules from 0
        return Context(
            candidates=candidates,
            remaining=remaining,
            costs=tuple(self.task.costs),
            cost_weights=tuple(weights),
            step=step,
            seed=self.seed,
            initial=tuple(initial.count(level) for level in levels),
            used=tuple(Choice(*pair) for pair in used),
            observed=tuple(Choice(q.row, q.level) for q in observed),
            errors=tuple((q.level, error) for q, error in state.prequential_errors()),
            budget=budget,
            targets=targets,
            predictor=lambda rows, level: surrogate.predict(self._scored()[rows], level, grid=self.grid),
            feature_map=lambda rows, level: surrogate.features(self._scored()[rows], level, grid=self.grid),
            pool_grams=lambda: self._pool_grams(surrogate, state),
        )

    def _pool_grams(self, surrogate: Surrogate, state: RunState) -> PoolGrams:
        """Gram matrices of all candidates at every level, computed again after each fit.

        Candidates that the surrogate was trained on are never scored again: their matrices are left zero.
        """
        if self._grams is None or self._grams[0] != surrogate.fits:
            trained = [query.row for id in state.trained_on if (query := state.queries[id]).kind == "pool"]
            rows = np.setdiff1d(np.arange(len(self.inputs.pool)), trained)
            self._grams = surrogate.fits, self._predicted_grams(surrogate, rows)
        return self._grams[1]

    def _predicted_grams(self, surrogate: Surrogate, rows: Indices) -> PoolGrams:
        inputs, pool = self._scored()[rows], len(self.inputs.pool)
        points = float(np.prod(self.grid.shape))

        def predictions(start: int) -> Iterator[Prediction]:
            for level in range(self.task.levels):
                yield surrogate.predict(inputs[start : start + _CHUNK], level, grid=self.grid, units="normalised")

        found = pool_grams(predictions(start) for start in range(0, len(inputs), _CHUNK))
        # A sum over the level's own points is the same integral with more of them.
        sizes = [self.task.out_channels * float(np.prod(grid.shape)) for grid in self.task.grids]
        scale = np.array(sizes) / (self.task.out_channels * points)
        gram = found.gram.new_zeros(pool, *found.gram.shape[1:])
        gram[rows] = found.gram * found.gram.new_tensor(scale)[:, None, None]
        noise = found.log_noise.new_zeros(pool, *found.log_noise.shape[1:])
        noise[rows] = found.log_noise
        return PoolGrams(gram, noise, tuple(int(size) for size in sizes))

    def _scored(self) -> Array:
        """Inputs on the scoring grid: those of the pool, then of initial, then of imported examples."""
        if self._resampled is None:
            fine, grids = np.concatenate([self.inputs.pool, self.inputs.initial]), self.task.grids
            every = [(fine, grids[-1]), *zip(self.inputs.imported, grids, strict=False)]  # of all levels or of none
            moved = [resample(f, grid, self.grid, self.task.interpolation) for f, grid in every]
            self._resampled = np.concatenate(moved)
        return self._resampled


def scoring_grid(task: Task, points: int) -> Grid:
    """The coarsest level's grid, with fewer points per axis if the grid has more than ``points`` in all.

    Gram matrices and distances are integrals over the domain, which a few hundred points give well enough.
    """
    shape = task.resolutions[0]
    most = max(2, int(points ** (1 / len(shape)) + 1e-9))
    return Grid(tuple(min(n, most) for n in shape), task.layout)


def _details(rows: Indices, scores: Array, choice: Choice) -> dict[str, Any]:
    best = scores.max(axis=0)
    return {
        "score": float(scores[np.searchsorted(rows, choice.candidate), choice.level]),
        "best": [float(b) if np.isfinite(b) else None for b in best],
    }
