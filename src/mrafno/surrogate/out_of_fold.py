"""Predictions of networks for examples they were not trained on: their error, and the shift that calibrates the noise.

Each member of an ensemble is trained without its own fold of the examples; the examples of its fold are out-of-fold.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Array, relative_l2
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.training.batches import OutOfFoldRows
from mrafno.surrogate.training.divergence import detached
from mrafno.surrogate.uncertainty import INTERVALS, balancing_shift

#: Called with the finished share of the fit, the mean loss and the out-of-fold relative error (NaN without examples).
Watch = Callable[[float, float, float], None]
#: Examples of the finest level that suffice for the calibration.
_FEWEST_FINE = 2
#: Smallest number of iterations between two measurements of the out-of-fold error.
_ITERATIONS_BETWEEN = 50


class Predictor(Protocol):
    """The part of a surrogate that is used here."""

    normaliser: Normaliser | None
    weights: dict[str, Tensor]

    @property
    def members(self) -> int:
        """Number of networks."""

    def predict(self, f: Array, level: int | None = None, *, units: Literal["physical", "normalised"]) -> Prediction:
        """Predict the outputs of inputs."""


@dataclass(frozen=True)
class OutOfFoldExamples:
    """Examples and, for each member and level, the rows of them that the member was not trained on."""

    data: Dataset
    rows: OutOfFoldRows

    @property
    def levels(self) -> list[int]:
        """The levels that have out-of-fold examples."""
        levels = range(self.data.domain.levels)
        return [level for level in levels if any(len(member[level]) for member in self.rows)]

    def rows_of(self, level: int) -> NDArray[np.int64]:
        """Rows of a level's out-of-fold examples, member by member."""
        return np.concatenate([member[level] for member in self.rows])

    def predict(self, surrogate: Predictor, levels: Sequence[int] | None = None) -> "OutOfFoldPredictions":
        """Predict them, or those of some levels, with a surrogate."""
        domain, normaliser = self.data.domain, surrogate.normaliser
        assert normaliser is not None, "a fitted surrogate has one"
        predictions = {
            level: self._predict_level(surrogate, normaliser, level)
            for level in (self.levels if levels is None else levels)
        }
        return OutOfFoldPredictions(predictions, domain.levels - 1, domain.dim, surrogate.members, normaliser)

    def _predict_level(self, surrogate: Predictor, normaliser: Normaliser, level: int) -> "LevelPredictions":
        rows = self.rows_of(level)
        owners = np.repeat(np.arange(len(self.rows)), [len(member[level]) for member in self.rows])
        prediction = surrogate.predict(self.data.inputs[level][rows], level, units="normalised")
        return LevelPredictions(prediction, normaliser.outputs(self.data.outputs[level][rows]), owners)


class LevelPredictions(NamedTuple):
    """Prediction and truth, in normalised units, of a level's out-of-fold examples.

    ``owners`` has, for each example, the member that was not trained on it.
    """

    prediction: Prediction
    truth: Array
    owners: NDArray[np.int64]


@dataclass(frozen=True)
class OutOfFoldPredictions:
    """Predictions for all out-of-fold examples, by level, and what follows from them."""

    by_level: dict[int, LevelPredictions]
    finest: int
    dim: int
    members: int
    normaliser: Normaliser

    def error(self) -> float:
        """Mean relative L2 error of single networks on the finest level that has examples; NaN without any."""
        return float(self.errors(max(self.by_level)).mean()) if self.by_level else math.nan

    def errors(self, level: int) -> Array:
        """Relative L2 errors of single networks on the out-of-fold examples of a level, ``(n,)``."""
        if level not in self.by_level:
            return np.empty(0)
        found = self.by_level[level]
        single = self.normaliser.physical(self._single(found), self.dim)
        truth = self.normaliser.physical(found.truth, self.dim)
        return relative_l2(single, truth, self.normaliser.typical_norm(truth.shape[2:]))

    def shift(self) -> float:
        r"""The shift of the log-variance that balances the residuals, in addition to the surrogate's present one.

        With s the members' variance, a single member's residual has the variance :math:`\lambda + s` of the matched
        Gaussian plus that of its own deviation from the mean, :math:`s (M - 1) / M`.

        The examples are those of the finest level, whose predictions intervals are for, or all while it has but one.
        """
        parts = dict(zip(self.by_level, self._residuals(0.0), strict=True))
        if len(parts.get(self.finest, ((),))[0]) >= _FEWEST_FINE:
            return balancing_shift(*parts[self.finest])
        if not parts:
            return 0.0
        # Every example has the same weight, whatever its grid.
        means = [(np.mean(r**2, axis=1), noise, np.mean(s, axis=1)) for r, noise, s in parts.values()]
        squares, noise, spread = (np.concatenate([part[i] for part in means]) for i in range(3))
        return balancing_shift(np.sqrt(squares)[:, None], noise, spread[:, None])

    def coverage(self, shift: float) -> tuple[int, dict[str, float]]:
        """The number of examples, and the share of their values inside the central interval of each probability.

        The intervals are those of the network that was not trained on the example, with the noise shifted. Every
        example has the same weight, whatever its grid. Without examples there are no shares.
        """
        distances = [
            np.abs(residual) / np.sqrt(spread + noise[:, None]) for residual, noise, spread in self._residuals(shift)
        ]
        shares = {
            f"{p:g}": np.concatenate([np.mean(d <= ndtri(0.5 + p / 2), axis=1) for d in distances])
            for p in (INTERVALS if distances else ())
        }
        return sum(map(len, distances)), {name: float(share.mean()) for name, share in shares.items()}

    def _residuals(self, shift: float) -> Iterator[tuple[Array, Array, Array]]:
        """For each level residuals ``(n, d)``, noise variance ``(n,)`` and variance beyond the noise ``(n, d)``."""
        for found in self.by_level.values():
            prediction = Prediction(found.prediction.samples, found.prediction.log_var + shift)
            n, m = len(found.truth), prediction.sample_count
            own = (m - 1) / m if self.members > 1 else 0.0
            residual = found.truth - self._single(found)
            yield residual.reshape(n, -1), prediction.noise, (1 + own) * prediction.spread.reshape(n, -1)

    def _single(self, found: LevelPredictions) -> Array:
        """For each example the mean of the member that was not trained on it; the mean if there is one network."""
        if self.members == 1:
            return found.prediction.mean
        return np.asarray(found.prediction.samples[found.owners, np.arange(len(found.owners))])


class ProgressReporter:
    """Reports the progress of a fit to a watcher.

    The out-of-fold error is measured at most ten times, and at most every :data:`_ITERATIONS_BETWEEN` iterations,
    because a measurement takes as long as a few iterations. Other reports repeat the last measurement.
    """

    def __init__(
        self, surrogate: Predictor, out_of_fold: OutOfFoldExamples, watch: Watch | None, iterations: int
    ) -> None:
        self.surrogate, self.out_of_fold, self.watch = surrogate, out_of_fold, watch
        self.times = min(10, iterations // _ITERATIONS_BETWEEN)
        self.error, self.measured = math.nan, 0

    def __call__(self, done: float, losses: list[float], network: MemberFNO) -> None:
        """Report the finished share of the fit and the losses of a network in training."""
        if self.watch is None:
            return
        if int(self.times * done) > self.measured:
            self.measured = int(self.times * done)
            self.surrogate.weights = detached(network)
            self.error = self.out_of_fold.predict(self.surrogate, self.out_of_fold.levels[-1:]).error()
        self.watch(done, float(np.mean(losses)), self.error)
