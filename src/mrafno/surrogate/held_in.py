"""What networks say of the examples they left out: an honest error, and the shift that calibrates their noise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from mrafno.dataset import Dataset
from mrafno.grids import Array, relative_l2
from mrafno.records import Prediction
from mrafno.surrogate.batches import HeldIn
from mrafno.surrogate.calibration import INTERVALS, best_shift
from mrafno.surrogate.divergence import detached
from mrafno.surrogate.network import MemberFNO

if TYPE_CHECKING:  # a surrogate holds these, and they ask it
    from mrafno.surrogate.base import Surrogate

#: Called with the share of the work done, the mean loss and the held-in relative error (NaN if nothing is held in).
Watch = Callable[[float, float, float], None]
#: Errors, at least, that say something about their mean: two are alike too often.
_FEW = 3


@dataclass(frozen=True)
class HeldInExamples:
    """Examples and, for each member and level, the rows of them that the member was not trained on."""

    data: Dataset
    rows: HeldIn

    def error(self, surrogate: "Surrogate") -> float:
        """Mean relative L2 of single networks on what each left out, on the finest level that has any; else NaN."""
        for level in reversed(range(self.data.domain.levels)):
            found = self.errors(surrogate, level)
            if len(found):
                return float(found.mean())
        return math.nan

    def bound(self, surrogate: "Surrogate") -> float:
        r"""What the mean error on the finest level is below with 95 % confidence (Student's t); NaN for too few.

        .. math:: \bar e + t_{0.95,\, n - 1}\, s / \sqrt n
        """
        found = self.errors(surrogate, self.data.domain.levels - 1)
        n = len(found)
        if n < _FEW:
            return math.nan
        return float(found.mean() + stdtrit(n - 1, 0.95) * found.std(ddof=1) / math.sqrt(n))

    def errors(self, surrogate: "Surrogate", level: int) -> Array:
        """Relative L2 of single networks on each example of a level that one of them left out, ``(n,)``."""
        found = self._predicted(surrogate, level)
        if not found:
            return np.empty(0)
        prediction, truth, owners = found
        normaliser, dim = surrogate.normaliser, self.data.domain.dim
        assert normaliser is not None, "a surrogate that predicts has one"
        single = normaliser.physical(_single(prediction, owners, surrogate.members), dim)
        return relative_l2(single, normaliser.physical(truth, dim), normaliser.typical_norm(truth.shape[2:]))

    def shift(self, surrogate: "Surrogate") -> float:
        r"""The shift of the noise that held-in examples ask for.

        With s the members' variance, a single member's residual has the variance :math:`\lambda + s` of the matched
        Gaussian plus that of its own deviation from the mean, :math:`s (M - 1) / M`.
        """
        left_out = list(self._left_out(surrogate))
        residuals, noises, spreads = ([part[i] for part in left_out] for i in range(3))
        return best_shift(residuals, noises, spreads)

    def coverage(self, surrogate: "Surrogate") -> tuple[int, dict[str, float]]:
        """How many examples were left out, and the share of their values inside the intervals of each probability.

        The central intervals are those of the network that left the example out, its noise as the surrogate has it now.
        Every example counts the same, whatever its grid. Without such examples there are no shares.
        """
        distances = [
            np.abs(residual) / np.sqrt(spread + noise[:, None]) for residual, noise, spread in self._left_out(surrogate)
        ]
        shares = {
            f"{p:g}": np.concatenate([np.mean(d <= ndtri(0.5 + p / 2), axis=1) for d in distances])
            for p in (INTERVALS if distances else ())
        }
        return sum(map(len, distances)), {name: float(share.mean()) for name, share in shares.items()}

    def _left_out(self, surrogate: "Surrogate") -> Iterator[tuple[Array, Array, Array]]:
        """Of each level: residuals ``(n, d)`` of what was left out, noise ``(n,)``, variance beyond it ``(n, d)``."""
        for level in range(self.data.domain.levels):
            found = self._predicted(surrogate, level)
            if found:
                prediction, truth, owners = found
                n, m = len(truth), prediction.samples
                own = (m - 1) / m if surrogate.members > 1 else 0.0
                residual = truth - _single(prediction, owners, surrogate.members)
                yield residual.reshape(n, -1), prediction.noise, (1 + own) * prediction.spread.reshape(n, -1)

    def _predicted(self, surrogate: "Surrogate", level: int) -> tuple[Prediction, Array, NDArray[np.int64]] | None:
        """Prediction and truth, in normalised units, of a level's held-in rows, and the member that left each out."""
        rows = np.concatenate([member[level] for member in self.rows])
        if not len(rows):
            return None
        owners = np.repeat(np.arange(len(self.rows)), [len(member[level]) for member in self.rows])
        prediction = surrogate.predict(self.data.inputs[level][rows], level, units="normalised")
        assert surrogate.normaliser is not None, "a surrogate that predicts has one"
        return prediction, surrogate.normaliser.outputs(self.data.outputs[level][rows]), owners


def _single(prediction: Prediction, owners: NDArray[np.int64], members: int) -> Array:
    """What the member that left an example out says of it; the mean where there is one network only."""
    if members == 1:
        return prediction.center
    return np.asarray(prediction.mean[owners, np.arange(len(owners))])


class Reporter:
    """Tells a watcher how a fit gets on; the held-in error is measured ten times and remembered between."""

    def __init__(self, surrogate: "Surrogate", held_in: HeldInExamples, watch: Watch | None) -> None:
        self.surrogate, self.held_in, self.watch = surrogate, held_in, watch
        self.error, self.tenth = math.nan, 0

    def __call__(self, done: float, losses: list[float], network: MemberFNO) -> None:
        """Report the share of the work done and the losses of a network in training."""
        if self.watch is None:
            return
        if int(10 * done) > self.tenth:
            self.tenth = int(10 * done)
            self.surrogate.weights = detached(network)
            self.error = self.held_in.error(self.surrogate)
        self.watch(done, float(np.mean(losses)), self.error)
