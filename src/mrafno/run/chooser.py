"""From a trained surrogate and a run's state to the next queries: the method's utility, costs and selection."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrafno.acquisition import (
    Choice,
    CoresetUtility,
    PoolGrams,
    PoolUtility,
    RandomUtility,
    Utility,
    annealed_cost,
    draw_targets,
    pool_grams,
    select,
)
from mrafno.acquisition.mesh_rule import hedged, level_errors, level_gains
from mrafno.acquisition.select import Indices
from mrafno.data.pool import RunInputs
from mrafno.grids import Array, Grid, resample
from mrafno.run.methods import Method
from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState
from mrafno.surrogate import Surrogate
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks.base import Task

#: Points per axis on which candidates are compared, by dimension: Gram matrices are integrals, and need no more.
_POINTS = {1: 33, 2: 16}
#: Candidates predicted at a time.
_CHUNK = 250


@dataclass(frozen=True)
class Chosen:
    """A choice and what it rested on, as JSON values: score, scheduled costs, the best score of every level."""

    candidate: int
    level: int
    why: dict[str, Any]


class Chooser:
    """Chooses for one task, method and settings; it keeps the pool on the grid where candidates are compared."""

    def __init__(self, task: Task, method: Method, settings: RunSettings, seed: int, inputs: RunInputs) -> None:
        self.task, self.method, self.settings, self.seed, self.inputs = task, method, settings, seed, inputs
        self.grid = scoring_grid(task)
        self._resampled: Array | None = None
        self._known: tuple[int, PoolGrams] | None = None

    def choose(self, surrogate: Surrogate, state: RunState, n: int, budget: float | None = None) -> list[Chosen]:
        """The next n queries, each the best given all before it and all that are running.

        Args:
            budget: what they may cost together; what does not fit is not chosen.
        """
        step = state.next_step
        remaining = np.setdiff1d(np.arange(len(self.inputs.pool)), sorted(state.used_rows("pool")))
        everyone = remaining
        # What is told but not learnt from counts as what is running: its information is on the way.
        pending = [(q.row, q.level) for q in (*state.not_trained_on, *state.running) if q.kind == "pool"]
        if self.settings.candidates and len(remaining) > self.settings.candidates:
            rng = np.random.default_rng([self.seed, step, 3])
            remaining = np.sort(rng.choice(remaining, self.settings.candidates, replace=False))
        if not len(remaining) or n < 1:
            return []
        costs = self._costs(step)
        utility = RecordingUtility(self._utility(surrogate, state, everyone, step, len(pending), budget))
        chosen = select(
            utility,
            n=n,
            remaining=remaining,
            pending=pending,
            costs=costs,
            prices=self.task.costs,
            budget=budget,
        )
        return [
            Chosen(choice.candidate, choice.level, {**utility.why(place, choice), "costs": costs})
            for place, choice in enumerate(chosen)
        ]

    def _costs(self, step: int) -> list[float] | None:
        s = self.settings
        if not self.method.scheduled:
            return None
        return annealed_cost(
            self.task.costs, step - 1, schedule=s.schedule, rate=s.alpha, renormalise=s.renormalise
        )  # steps count from 1, schedules from 0

    def _utility(
        self,
        surrogate: Surrogate,
        state: RunState,
        everyone: Indices,
        step: int,
        pending: int,
        budget: float | None,
    ) -> Utility:
        levels = self.method.allowed(self.task.levels)
        kind = self.method.utility
        if kind == "random":
            return RandomUtility(levels, self.task.levels, self.seed, step)
        if kind == "coreset":
            return self._coreset(surrogate, state, levels)
        targets = None
        if self.settings.targets is not None:
            targets = draw_targets(everyone, self.settings.targets, seed=self.seed, step=step)
        elif self.settings.candidates is not None:
            targets = everyone  # a part of the candidates is scored, by what it tells of all
        information = PoolUtility(self._grams(surrogate, state), "u-hat" if kind == "auto" else kind, targets)
        if kind != "auto":
            return information

        errors = level_errors(((query.level, error) for query, error in state.prequential_errors()), self.task.levels)
        initial = [sum(q.level == level for q in state.of_kind("initial", "told")) for level in range(self.task.levels)]
        trained_on = [query.level for id in state.trained_on if (query := state.queries[id]).kind == "pool"]

        def gains(chosen: Sequence[Choice]) -> list[float]:
            # What is told but not learnt from is among those chosen.
            bought = [*trained_on, *(choice.level for choice in chosen)]
            counts = [initial[level] + bought.count(level) for level in range(self.task.levels)]
            found = hedged(level_gains(errors, counts, self.task.costs), bought, self.task.costs)
            # A level that the budget does not reach gives way to those that it does.
            spent = [self.task.costs[choice.level] for choice in chosen[pending:]]
            fits = [budget is None or math.fsum([*spent, cost]) <= budget for cost in self.task.costs]
            return [gain if fit else -np.inf for gain, fit in zip(found, fits, strict=True)]

        return BestLevel(information, gains)

    def _grams(self, surrogate: Surrogate, state: RunState) -> PoolGrams:
        """Gram matrices of candidates at every level, made anew when the surrogate has learnt.

        Those that it has learnt from are never asked about again: they are left zero.
        """
        if self._known is None or self._known[0] != surrogate.fits:
            trained_on = [query.row for id in state.trained_on if (query := state.queries[id]).kind == "pool"]
            rows = np.setdiff1d(np.arange(len(self.inputs.pool)), trained_on)
            self._known = surrogate.fits, self._predicted_grams(surrogate, rows)
        return self._known[1]

    def _predicted_grams(self, surrogate: Surrogate, rows: Indices) -> PoolGrams:
        inputs, pool = self._compared()[rows], len(self.inputs.pool)
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

    def _coreset(self, surrogate: Surrogate, state: RunState, levels: Sequence[int]) -> CoresetUtility:
        """Distances from all inputs already used; those of the initial examples are numbered after the pool's."""
        first = len(self.inputs.pool)
        used = [(first + q.row, q.level) for q in state.of_kind("initial", "told", "running")]
        trained_on = set(state.trained_on)
        used += [(q.row, q.level) for q in state.of_kind("pool", "told") if q.id in trained_on]

        def features(rows: Indices, level: int) -> Array:
            return surrogate.features(self._compared()[rows], level, grid=self.grid)

        return CoresetUtility(features, used, levels=levels, resolutions=self.task.levels)

    def _compared(self) -> Array:
        """The inputs of the pool, then the initial and the given ones, on the grid where they are compared."""
        if self._resampled is None:
            fine, grids = np.concatenate([self.inputs.pool, self.inputs.initial]), self.task.grids
            every = [(fine, grids[-1]), *zip(self.inputs.given, grids, strict=False)]  # given are of all levels or none
            moved = [resample(f, grid, self.grid, self.task.interpolation) for f, grid in every]
            self._resampled = np.concatenate(moved)
        return self._resampled


def scoring_grid(task: Task) -> Grid:
    """The coarsest level's grid, or one of fewer points if that has more than :data:`_POINTS` per axis."""
    most = _POINTS[len(task.layout)]
    return Grid(tuple(min(n, most) for n in task.resolutions[0]), task.layout)


class BestLevel:
    """A utility on the level with the largest gain alone."""

    def __init__(self, utility: Utility, gains: Callable[[Sequence[Choice]], list[float]]) -> None:
        self.utility, self.gains = utility, gains

    def __call__(self, remaining: Indices, chosen: Sequence[Choice]) -> Array:
        """Scores ``(len(remaining), R)``."""
        scores = np.array(self.utility(remaining, chosen), dtype=np.float64)
        scores[:, np.arange(scores.shape[1]) != int(np.argmax(self.gains(chosen)))] = -np.inf
        return scores


class RecordingUtility:
    """A utility that remembers its answers, to tell afterwards what a choice rested on."""

    def __init__(self, utility: Utility) -> None:
        self.utility = utility
        self.answers: list[tuple[Indices, Array]] = []

    def __call__(self, remaining: Indices, chosen: Sequence[Choice]) -> Array:
        """Scores ``(len(remaining), R)``."""
        scores = np.asarray(self.utility(remaining, chosen), dtype=np.float64)
        self.answers.append((remaining.copy(), scores))
        return scores

    def why(self, place: int, choice: Choice) -> dict[str, Any]:
        """Of the choice that came as number ``place``: its score, and the best score of every level."""
        rows, scores = self.answers[place]
        best = scores.max(axis=0)
        return {
            "score": float(scores[np.searchsorted(rows, choice.candidate), choice.level]),
            "best": [float(b) if np.isfinite(b) else None for b in best],
        }
