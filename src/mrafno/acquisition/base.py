"""What an acquisition and a mesh rule are, and the context that they see.

Both are plain objects with a ``name`` and one method, so that one can be written outside of the package:

.. code-block:: python

    class Greedy:
        name = "greedy"

        def score(self, context, chosen):
            spread = context.predict(level=-1).std.mean(axis=(1, 2))  # (candidates,)
            return spread[:, None] / np.asarray(context.costs)

Neither sees a network, a file or a run: everything comes from the :class:`Context`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.acquisition.level_errors import LevelErrors
from mrafno.errors import AcquisitionError
from mrafno.grids import Array

if TYPE_CHECKING:  # they import torch, which an acquisition need not
    from mrafno.acquisition.utilities import PoolGrams
    from mrafno.surrogate.prediction import Prediction

Indices = NDArray[np.int64]


class Choice(NamedTuple):
    """A candidate's index in the pool, and the level to simulate it at."""

    candidate: int
    level: int


@runtime_checkable
class Acquisition(Protocol):
    """Scores candidates at every level. Optional attributes:

    - ``needs_samples``: True if it compares the samples of a prediction, so that a single network does not suffice.
    """

    @property
    def name(self) -> str:
        """A short name."""

    def score(self, context: "Context", chosen: Sequence[Choice]) -> ArrayLike:
        """Scores ``(candidates, levels)`` of ``context.candidates``; larger is better, minus infinity excludes.

        Args:
            context: what is known before this choice.
            chosen: queries whose outputs the surrogate was not trained on yet: those running, those observed since the
                last fit, and those chosen before this one in the same batch.
        """


@runtime_checkable
class MeshRule(Protocol):
    """Decides on which level the next query is simulated; the acquisition then chooses the input at that level."""

    @property
    def name(self) -> str:
        """A short name."""

    def gains(self, context: "Context", chosen: Sequence[Choice]) -> Sequence[float]:
        """One number per level; the largest wins, minus infinity excludes. Arguments as of :class:`Acquisition`."""


@dataclass(frozen=True)
class Context:
    """What is known when the next query is chosen.

    Attributes:
        candidates: indices into the pool of the candidates to score, in the order of the rows of a score.
        remaining: all candidates that were not used yet; more than ``candidates`` if only a subset is scored.
        costs: of one simulation at each level, coarse to fine.
        cost_weights: the same as the run's cost schedule weights them at this step.
        step: number of this choice, from 1.
        seed: of the run; see :meth:`generator`.
        initial: number of initial examples of each level.
        used: inputs that were simulated or are being simulated, with their levels. Those of initial examples are
            numbered after the pool's.
        observed: chosen examples that the surrogate was trained on, in order.
        errors: level and relative error of each chosen example, before the surrogate was trained on it, in order.
        level_errors: what each level contributes to the error, after every fit that measured it, in order.
        budget: what may still be spent, None for no limit.
        targets: candidates that mean information averages over; None for those that remain.
        only: the level to score, where a mesh rule has decided; None for all levels. Scores of others need not be
            computed then.
        available: which candidates can be simulated on which level, ``(pool, levels)``; None if all can. Scores of
            others count as minus infinity.
    """

    candidates: Indices
    remaining: Indices
    costs: tuple[float, ...]
    cost_weights: tuple[float, ...]
    step: int
    seed: int
    initial: tuple[int, ...] = ()
    used: Sequence[Choice] = ()
    observed: Sequence[Choice] = ()
    errors: Sequence[tuple[int, float]] = ()
    level_errors: Sequence[LevelErrors] = ()
    budget: float | None = None
    targets: Indices | None = None
    only: int | None = None
    available: NDArray[np.bool_] | None = None
    predictor: "Callable[[Indices, int], Prediction] | None" = field(default=None, repr=False)
    feature_map: Callable[[Indices, int], Array] | None = field(default=None, repr=False)
    pool_grams: "Callable[[], PoolGrams] | None" = field(default=None, repr=False)
    cache: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self.costs)

    def level(self, level: int) -> int:
        """A level from 0; negative ones count from the finest, as Python's indices do."""
        if not -self.levels <= level < self.levels:
            raise AcquisitionError(f"context: there is no level {level}; the task has {self.levels}.")
        return level % self.levels

    def generator(self, purpose: int = 0) -> np.random.Generator:
        """Random numbers that depend on the run's seed, the step and the purpose only, so that a run can be resumed."""
        return np.random.default_rng([self.seed, self.step, purpose, 7])

    def predict(self, level: int = -1, candidates: Sequence[int] | Indices | None = None) -> "Prediction":
        """Predicted outputs of candidates (by default those to score) at a level, in physical units.

        They are on the scoring grid, which has at most as many points as the coarsest level.
        """
        if self.predictor is None:
            raise AcquisitionError("context: there are no predictions.")
        return self.predictor(self._rows(candidates), self.level(level))

    def features(self, level: int = -1, candidates: Sequence[int] | Indices | None = None) -> Array:
        """Outputs of the last Fourier layer, ``(n, width, *scoring grid)``; ``used`` gives more indices."""
        if self.feature_map is None:
            raise AcquisitionError("context: there are no features.")
        return self.feature_map(self._rows(candidates), self.level(level))

    def grams(self) -> "PoolGrams":
        """Gram matrices ``(pool, R, S, S)``: of candidates, targets and running queries; others may be zero.

        See :mod:`mrafno.acquisition.information`.
        """
        if self.pool_grams is None:
            raise AcquisitionError("context: there are no Gram matrices.")
        return self.pool_grams()

    def restricted(self, candidates: Indices, only: int | None = None) -> "Context":
        """The same with other candidates to score, on one level only if one is given."""
        return replace(self, candidates=candidates, only=only)

    def once(self, key: object, compute: Callable[[], Any]) -> Any:
        """A value that is computed once per batch of choices and then kept, by any hashable key."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    def _rows(self, candidates: Sequence[int] | Indices | None) -> Indices:
        return self.candidates if candidates is None else np.asarray(candidates, dtype=np.int64)


#: Scores ``(remaining, levels)`` of the remaining candidates, given what was chosen before.
Score = Callable[[Indices, Sequence[Choice]], ArrayLike]


def scorer(acquisition: Acquisition, context: Context, mesh_rule: MeshRule | None = None) -> Score:
    """What :func:`mrafno.acquisition.selection.select` calls for each choice of a batch.

    With a mesh rule all levels but the one with the largest gain score minus infinity. A level that no longer fits into
    ``context.budget`` gains nothing; what the choices of this batch cost is taken off.
    """
    pending: int | None = None

    def score(remaining: Indices, chosen: Sequence[Choice]) -> Array:
        nonlocal pending
        pending = len(chosen) if pending is None else pending
        available = None if context.available is None else context.available[remaining]
        level = None
        if mesh_rule is not None:
            gains = _affordable(_gains(mesh_rule, context.restricted(remaining), chosen), context, chosen[pending:])
            if available is not None:
                left = available.any(axis=0)
                if (gains[left] == -np.inf).all():  # the rule wants levels of which nothing is left
                    gains = _affordable(np.zeros(context.levels), context, chosen[pending:])
                gains = np.where(left, gains, -np.inf)
            level = int(np.argmax(gains))
        scores = np.array(acquisition.score(context.restricted(remaining, level), chosen), dtype=np.float64)
        if scores.shape != (len(remaining), context.levels):
            raise AcquisitionError(
                f"acquisition {acquisition.name!r}: score returned shape {scores.shape}, expected "
                f"{(len(remaining), context.levels)} (candidates, levels)."
            )
        if available is not None:
            scores[~available] = -np.inf
        if level is not None:
            scores[:, np.arange(context.levels) != level] = -np.inf
        return scores

    return score


def _gains(mesh_rule: MeshRule, context: Context, chosen: Sequence[Choice]) -> Array:
    gains = np.array(mesh_rule.gains(context, chosen), dtype=np.float64)
    if gains.shape != (context.levels,) or np.isnan(gains).any():
        raise AcquisitionError(
            f"mesh rule {mesh_rule.name!r}: gains returned {gains.tolist()}, expected one number for each of "
            f"{context.levels} levels."
        )
    return gains


def _affordable(gains: Array, context: Context, batch: Sequence[Choice]) -> Array:
    if context.budget is None:
        return gains
    spent = [context.costs[choice.level] for choice in batch]
    fits = [math.fsum([*spent, cost]) <= context.budget for cost in context.costs]
    return np.where(fits, gains, -np.inf)
