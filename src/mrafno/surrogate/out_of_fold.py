"""What networks say of the examples they left out: an honest error, and the shift that calibrates their noise."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Array, relative_l2
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.training.batches import OutOfFoldRows
from mrafno.surrogate.training.divergence import detached
from mrafno.surrogate.uncertainty import INTERVALS, best_shift

if TYPE_CHECKING:  # a surrogate holds these, and they ask it
    from mrafno.surrogate.inference.base import Surrogate

#: Called with the share of the work done, the mean loss and the held-in relative error (NaN if nothing is held in).
Watch = Callable[[float, float, float], None]
#: Errors, at least, that say something about their mean: two are alike too often.
_FEW = 3
#: Iterations between two measurements of the held-in error, at least.
_APART = 50


@dataclass(frozen=True)
class OutOfFoldExamples:
    """Examples and, for each member and level, the rows of them that the member was not trained on."""

    data: Dataset
    rows: OutOfFoldRows

    @property
    def levels(self) -> list[int]:
        """Those of which somebody left something out."""
        levels = range(self.data.domain.levels)
        return [level for level in levels if any(len(member[level]) for member in self.rows)]

    def ask(self, surrogate: "Surrogate", levels: Sequence[int] | None = None) -> "Answers":
        """What a surrogate says of them, or of those of some levels."""
        domain, normaliser = self.data.domain, surrogate.normaliser
        assert normaliser is not None, "a surrogate that predicts has one"
        told = {level: self._told(surrogate, level) for level in (self.levels if levels is None else levels)}
        return Answers(told, domain.levels - 1, domain.dim, surrogate.members, normaliser)

    def _told(self, surrogate: "Surrogate", level: int) -> "Told":
        rows = np.concatenate([member[level] for member in self.rows])
        owners = np.repeat(np.arange(len(self.rows)), [len(member[level]) for member in self.rows])
        prediction = surrogate.predict(self.data.inputs[level][rows], level, units="normalised")
        assert surrogate.normaliser is not None, "a surrogate that predicts has one"
        return Told(prediction, surrogate.normaliser.outputs(self.data.outputs[level][rows]), owners)


class Told(NamedTuple):
    """Prediction and truth, in normalised units, of a level's held-in examples, and the member that left each out."""

    prediction: Prediction
    truth: Array
    owners: NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """What networks say of the examples they left out: asked once, as predictions on fine grids take their time."""

    told: dict[int, Told]
    finest: int
    dim: int
    members: int
    normaliser: Normaliser

    def error(self) -> float:
        """Mean relative L2 of single networks on what each left out, on the finest level that has any; else NaN."""
        return float(self.errors(max(self.told)).mean()) if self.told else math.nan

    def bound(self) -> float:
        r"""What the mean error on the finest level is below with 95 % confidence (Student's t); NaN for too few.

        .. math:: \bar e + t_{0.95,\, n - 1}\, s / \sqrt n
        """
        found = self.errors(self.finest)
        n = len(found)
        if n < _FEW:
            return math.nan
        return float(found.mean() + stdtrit(n - 1, 0.95) * found.std(ddof=1) / math.sqrt(n))

    def errors(self, level: int) -> Array:
        """Relative L2 of single networks on each example of a level that one of them left out, ``(n,)``."""
        if level not in self.told:
            return np.empty(0)
        told = self.told[level]
        single = self.normaliser.physical(self._single(told), self.dim)
        truth = self.normaliser.physical(told.truth, self.dim)
        return relative_l2(single, truth, self.normaliser.typical_norm(truth.shape[2:]))

    def shift(self) -> float:
        r"""The shift of the noise that held-in examples ask for, beyond what the surrogate had when it was asked.

        With s the members' variance, a single member's residual has the variance :math:`\lambda + s` of the matched
        Gaussian plus that of its own deviation from the mean, :math:`s (M - 1) / M`.
        """
        left_out = list(self._left_out(0.0))
        residuals, noises, spreads = ([part[i] for part in left_out] for i in range(3))
        return best_shift(residuals, noises, spreads)

    def coverage(self, shift: float) -> tuple[int, dict[str, float]]:
        """How many examples were left out, and the share of their values inside the intervals of each probability.

        The central intervals are those of the network that left the example out, its noise shifted. Every example
        counts the same, whatever its grid. Without such examples there are no shares.
        """
        distances = [
            np.abs(residual) / np.sqrt(spread + noise[:, None]) for residual, noise, spread in self._left_out(shift)
        ]
        shares = {
            f"{p:g}": np.concatenate([np.mean(d <= ndtri(0.5 + p / 2), axis=1) for d in distances])
            for p in (INTERVALS if distances else ())
        }
        return sum(map(len, distances)), {name: float(share.mean()) for name, share in shares.items()}

    def _left_out(self, shift: float) -> Iterator[tuple[Array, Array, Array]]:
        """Of each level: residuals ``(n, d)`` of what was left out, noise ``(n,)``, variance beyond it ``(n, d)``."""
        for told in self.told.values():
            prediction = Prediction(told.prediction.samples, told.prediction.log_var + shift)
            n, m = len(told.truth), prediction.sample_count
            own = (m - 1) / m if self.members > 1 else 0.0
            residual = told.truth - self._single(told)
            yield residual.reshape(n, -1), prediction.noise, (1 + own) * prediction.spread.reshape(n, -1)

    def _single(self, told: Told) -> Array:
        """What the member that left an example out says of it; the mean where there is one network only."""
        if self.members == 1:
            return told.prediction.mean
        return np.asarray(told.prediction.samples[told.owners, np.arange(len(told.owners))])


class Reporter:
    """Tells a watcher how a fit gets on; the held-in error is measured up to ten times and remembered between.

    Measuring takes as long as a few iterations, so there are :data:`_APART` of them between two measurements.
    """

    def __init__(
        self, surrogate: "Surrogate", out_of_fold: OutOfFoldExamples, watch: Watch | None, iterations: int
    ) -> None:
        self.surrogate, self.out_of_fold, self.watch = surrogate, out_of_fold, watch
        self.times = min(10, iterations // _APART)
        self.error, self.measured = math.nan, 0

    def __call__(self, done: float, losses: list[float], network: MemberFNO) -> None:
        """Report the share of the work done and the losses of a network in training."""
        if self.watch is None:
            return
        if int(self.times * done) > self.measured:
            self.measured = int(self.times * done)
            self.surrogate.weights = detached(network)
            self.error = self.out_of_fold.ask(self.surrogate, self.out_of_fold.levels[-1:]).error()
        self.watch(done, float(np.mean(losses)), self.error)
