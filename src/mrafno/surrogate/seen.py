"""What the inputs looked like that a surrogate was trained on, and which inputs are unlike all of them.

Every function is described by numbers that do not depend on its grid: its mean, its standard deviation, its least and
its largest value, and the root mean square of its slope along the axes. A parameter is described by its value. An input
is outside if one of these is beyond the range of the training inputs by more than a share of that range: half of it for
functions, of which few were seen, and a tenth for parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Array, Domain

_WORDS = ("mean", "standard deviation", "minimum", "maximum", "slope")
#: Shares of the range by which a function and a parameter may leave it, and the least range, in normalised units.
_FUNCTION, _PARAMETER, _LEAST = 0.5, 0.1, 0.1


@dataclass(frozen=True)
class SeenInputs:
    """Ranges of the descriptions of training inputs, in normalised units.

    Attributes:
        low, high: ``(in_channels, 5)``.
    """

    low: tuple[tuple[float, ...], ...]
    high: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, data: Dataset, normaliser: Normaliser) -> Self:
        """The ranges over the examples of all levels."""
        found = np.concatenate([describe(normaliser.inputs(f)) for f in data.inputs if len(f)])
        return cls(_rows(found.min(axis=0)), _rows(found.max(axis=0)))

    def outside(self, f: Array, normaliser: Normaliser | None, domain: Domain) -> list[str]:
        """What of inputs ``(n, in_channels, *grid)`` was not seen, a sentence for each channel that has any."""
        assert normaliser is not None, "inputs were seen, so a normaliser was fitted to them"
        found = describe(normaliser.inputs(f))
        low, high = np.array(self.low), np.array(self.high)
        names = [*(f"channel {i}" for i in range(domain.function_channels)), *domain.parameters]
        said = []
        for channel, name in enumerate(names):
            parameter = channel >= domain.function_channels
            numbers = slice(0, 1) if parameter else slice(None)
            least, most = low[channel, numbers], high[channel, numbers]
            margin = (_PARAMETER if parameter else _FUNCTION) * np.maximum(most - least, _LEAST)
            values = found[:, channel, numbers]
            excess = np.maximum(least - margin - values, values - most - margin)
            rows = (excess > 0).any(axis=1)
            if rows.any():
                worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
                what = name if parameter else f"the {_WORDS[worst[1]]} of {name}"
                said.append(
                    f"{int(rows.sum())} of {len(f)} inputs are unlike those that the surrogate was trained on: {what} "
                    f"is {values[worst]:.3g} where {least[worst[1]]:.3g} to {most[worst[1]]:.3g} were seen, in "
                    "standard deviations from the mean. It extrapolates there."
                )
        return said

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"low": [list(row) for row in self.low], "high": [list(row) for row in self.high]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of :meth:`as_json`."""
        return cls(_rows(values["low"]), _rows(values["high"]))


def describe(z: Array) -> Array:
    """Five numbers for each channel of inputs ``(n, in_channels, *grid)``: ``(n, in_channels, 5)``."""
    axes = tuple(range(2, z.ndim))
    slopes = [np.square(np.diff(z, axis=axis) * z.shape[axis]).mean(axis=axes) for axis in axes]
    numbers = (z.mean(axis=axes), z.std(axis=axes), z.min(axis=axes), z.max(axis=axes), np.sqrt(sum(slopes)))
    return np.stack(numbers, axis=-1)


def _rows(values: Sequence[Sequence[float]] | Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in values)
