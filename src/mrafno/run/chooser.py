"""From a trained surrogate and a run's state to the next choices: builds the context that a method sees."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.acquisition.base import Choice, Context, Indices, scorer
from mrafno.acquisition.cost import annealed_cost
from mrafno.acquisition.selection import select
from mrafno.acquisition.utilities import PoolGrams, draw_targets, pool_grams
from mrafno.data.pool import RunInputs
from mrafno.grids import Array
from mrafno.run.methods import Method
from mrafno.run.past import Past, View
from mrafno.run.prices import prices
from mrafno.run.scoring import scored_inputs, scoring_grid
from mrafno.run.screening import GROUP, SMALL, Screen
from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState
from mrafno.surrogate.inference.base import Surrogate
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks.base import Task
from mrafno.tasks.rows import Rows

#: Choices that are made in advance while a fit is going on.
_AHEAD = 8


class Chooser:
    """Chooses for one task, method and settings; it keeps the pool on the scoring grid.

    Args:
        folder: the run's, where a large pool on the scoring grid is kept; None to keep it in memory.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        settings: RunSettings,
        seed: int,
        inputs: RunInputs,
        folder: Path | None = None,
    ) -> None:
        self.task, self.method, self.settings, self.seed, self.inputs = task, method, settings, seed, inputs
        self.folder = folder
        self.grid = scoring_grid(task, settings.scoring_points)
        self._resampled: Rows | None = None
        self._screened: tuple[tuple[int, int], Screen] | None = None
        self._grams: tuple[int, PoolGrams] | None = None
        self._past = Past(len(inputs.pool))
        self._ahead: tuple[int, list[Choice], list[tuple[Choice, dict[str, Any]]]] | None = None

    def choose_next(
        self, surrogate: Surrogate, state: RunState, n: int, budget: float | None = None
    ) -> list[tuple[Choice, dict[str, Any]]]:
        """As :meth:`choose`, while a fit is going on: more will be asked for, so without a budget some more are kept.

        One more choice of a batch takes little beside the first one, and it is what a later call would choose: each is
        the best given all before it. What is kept is used while the fit and all that is pending are as they were.
        """
        if budget is not None:
            return self.choose(surrogate, state, n, budget)
        fits, pending, kept = self._ahead or (-1, [], [])
        if fits != surrogate.fits or set(state.queries.pending) != set(pending) or len(kept) < n:
            pending, kept = state.queries.pending, self.choose(surrogate, state, n + _AHEAD)
        given, left = kept[:n], kept[n:]
        self._ahead = surrogate.fits, [*pending, *[choice for choice, _ in given]], left
        return given

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
        # Their inputs are in use, so they are not among the candidates.
        pending = state.queries.pending
        score = scorer(self.method.acquisition, context, self.method.mesh_rule)
        answers: list[tuple[Indices, Array]] = []

        def recorded(remaining: Indices, chosen: Sequence[Choice]) -> Array:
            scores = np.asarray(score(remaining, [*pending, *chosen]), dtype=np.float64)
            answers.append((remaining.copy(), scores))
            return scores

        weights = list(context.cost_weights) if self.method.divide_by_cost else None
        choices = select(
            recorded,
            n=n,
            remaining=context.candidates,
            costs=weights,
            prices=prices(state),
            budget=budget,
        )
        return [
            (choice, {**_details(*answer, choice), "costs": weights})
            for choice, answer in zip(choices, answers, strict=False)
        ]

    def context(self, surrogate: Surrogate, state: RunState, budget: float | None = None) -> Context:
        """What the method sees when it makes the next choice."""
        step, s, levels = state.next_step, self.settings, range(self.task.levels)
        self._past.follow(state)
        remaining = self._past.remaining
        candidates, targets, screen = remaining, None, self._screen(surrogate, state)
        if screen is not None and s.candidates is not None:
            candidates, known = screen.first(s.candidates, remaining), screen.first(SMALL, remaining)
            targets = None if s.candidates >= SMALL else known
        elif s.candidates and len(remaining) > s.candidates:
            rng = np.random.default_rng([self.seed, step, 3])
            candidates = np.sort(rng.choice(remaining, s.candidates, replace=False))
            targets = remaining  # some candidates are scored, by their information on all
        if len(remaining) and s.targets is not None:
            among = remaining if screen is None else candidates
            targets = draw_targets(among, s.targets, seed=self.seed, step=step)
        initial = [q.level for q in state.of_kind("initial", "told")]

        def grams() -> PoolGrams:
            if screen is None:
                return self._pool_grams(surrogate, state)
            waiting = [choice.candidate for choice in state.queries.pending]
            rows = [candidates, candidates if targets is None else targets, np.array(waiting, dtype=np.int64)]
            return screen.grams(np.unique(np.concatenate(rows)))

        weights = annealed_cost(
            prices(state), step - 1, schedule=s.schedule, rate=s.alpha, renormalise=s.renormalise
        )  # steps count from 1, schedules from 0
        return Context(
            candidates=candidates,
            remaining=remaining,
            costs=prices(state),
            cost_weights=tuple(weights),
            step=step,
            seed=self.seed,
            initial=tuple(initial.count(level) for level in levels),
            used=self._past.used(state, len(self.inputs.pool)),
            observed=View(self._past.observed),
            errors=View(self._past.errors),
            level_errors=View(self._past.level_errors),
            budget=budget,
            targets=targets,
            available=self.inputs.available,
            predictor=lambda rows, level: surrogate.predict(self._scored()[rows], level, grid=self.grid, check=False),
            feature_map=lambda rows, level: surrogate.features(self._scored()[rows], level, grid=self.grid),
            pool_grams=grams,
        )

    def _screen(self, surrogate: Surrogate, state: RunState) -> Screen | None:
        """The random order of this fit; None for a pool that is scored as a whole, or small."""
        pool = len(self.inputs.pool)
        if self.settings.candidates is None or pool <= SMALL:
            return None
        if self._screened is None or self._screened[0] != (surrogate.fits, pool):
            seed = [self.seed, surrogate.fits, 5]
            screen = Screen(self._untrained(state), pool, seed, lambda rows: self._predicted_grams(surrogate, rows))
            self._screened = (surrogate.fits, pool), screen
        return self._screened[1]

    def _untrained(self, state: RunState) -> Indices:
        """Candidates that the surrogate was not trained on: others are never scored again."""
        trained = [query.row for id in state.trained_on if (query := state.queries[id]).kind == "pool"]
        return np.setdiff1d(np.arange(len(self.inputs.pool)), trained).astype(np.int64)

    def _pool_grams(self, surrogate: Surrogate, state: RunState) -> PoolGrams:
        """Gram matrices of all candidates at every level, computed again after each fit; of trained ones they are 0."""
        if self._grams is None or self._grams[0] != surrogate.fits:
            rows, pool = self._untrained(state), len(self.inputs.pool)
            found = self._predicted_grams(surrogate, rows)
            gram = found.gram.new_zeros(pool, *found.gram.shape[1:])
            noise = found.log_noise.new_zeros(pool, *found.log_noise.shape[1:])
            gram[rows], noise[rows] = found.gram, found.log_noise
            self._grams = surrogate.fits, PoolGrams(gram, noise, found.sizes)
        return self._grams[1]

    def _predicted_grams(self, surrogate: Surrogate, rows: Indices) -> PoolGrams:
        """Gram matrices of some candidates at every level, in their order."""
        inputs = self._scored()[rows]
        points = float(np.prod(self.grid.shape))

        def predictions(start: int) -> Iterator[Prediction]:
            for level in range(self.task.levels):
                yield surrogate.predict(inputs[start : start + GROUP], level, grid=self.grid, units="normalised")

        found = pool_grams(predictions(start) for start in range(0, len(inputs), GROUP))
        # A sum over the level's own points is the same integral with more of them.
        sizes = [self.task.out_channels * float(np.prod(grid.shape)) for grid in self.task.grids]
        scale = np.array(sizes) / (self.task.out_channels * points)
        gram = found.gram * found.gram.new_tensor(scale)[:, None, None]
        return PoolGrams(gram, found.log_noise, tuple(int(size) for size in sizes))

    def _scored(self) -> Rows:
        """Inputs on the scoring grid: those of the pool, then of initial, then of imported examples."""
        if self._resampled is None:
            self._resampled = scored_inputs(self.task, self.inputs, self.grid, self.folder)
        return self._resampled


def _details(rows: Indices, scores: Array, choice: Choice) -> dict[str, Any]:
    best = scores.max(axis=0)
    return {
        "score": float(scores[np.searchsorted(rows, choice.candidate), choice.level]),
        "best": [float(b) if np.isfinite(b) else None for b in best],
    }
