"""Training examples per resolution, and the normaliser fitted to them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrafno.errors import SurrogateError
from mrafno.grids import Array, Domain

#: Least size of the largest output.
SMALLEST = 1e-100


@dataclass(frozen=True)
class Dataset:
    """Training examples of every level, as float64 NumPy arrays; a level may have none.

    ``inputs[r]`` are ``(n_r, in_channels, *grid_r)``, ``outputs[r]`` are ``(n_r, out_channels, *grid_r)``.
    """

    domain: Domain
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != self.domain.levels or len(self.outputs) != self.domain.levels:
            raise SurrogateError(
                f"dataset: {len(self.inputs)} inputs and {len(self.outputs)} outputs for {self.domain.levels} levels. "
                "Give one array of each per level, empty where there are no examples."
            )
        for level, (f, y) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            shape = self.domain.grids[level].shape
            for what, values, channels in (
                ("inputs", f, self.domain.in_channels),
                ("outputs", y, self.domain.out_channels),
            ):
                if values.shape[1:] != (channels, *shape):
                    raise SurrogateError(
                        f"dataset: {what} of level {level} have shape {values.shape}, expected "
                        f"(n, {channels}, {', '.join(map(str, shape))})."
                    )
                if not np.isfinite(values).all():
                    raise SurrogateError(f"dataset: {what} of level {level} have NaN or infinite values.")
            if len(f) != len(y):
                raise SurrogateError(f"dataset: level {level} has {len(f)} inputs but {len(y)} outputs. Pair them.")

    @staticmethod
    def of(domain: Domain, examples: Sequence[tuple[Array, Array] | None]) -> "Dataset":
        """A dataset from one (inputs, outputs) pair per level, None for a level without examples."""
        inputs, outputs = [], []
        for level, pair in enumerate(examples):
            if pair is None:
                shape = domain.grids[level].shape if level < domain.levels else ()
                pair = np.zeros((0, domain.in_channels, *shape)), np.zeros((0, domain.out_channels, *shape))
            inputs.append(np.asarray(pair[0], dtype=np.float64))
            outputs.append(np.asarray(pair[1], dtype=np.float64))
        return Dataset(domain, tuple(inputs), tuple(outputs))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of examples of each level."""
        return tuple(len(f) for f in self.inputs)

    def __len__(self) -> int:
        return sum(self.sizes)

    def check_scale(self) -> None:
        """Raise if the outputs are so small that squares of them vanish, and every error with them."""
        largest = max((float(np.abs(y).max()) for y in self.outputs if len(y)), default=0.0)
        if 0 < largest < SMALLEST:
            raise SurrogateError(
                f"dataset: the largest output is {largest:.3g}, less than {SMALLEST:g}. Give outputs in other units."
            )


@dataclass(frozen=True)
class Normaliser:
    """Shift and scale per channel, fitted to training examples only.

    Outputs that vanish on a boundary are not shifted, so that the normalised ones vanish there too. Input channels with
    ``in_log`` are parameters on a logarithmic scale: mean and standard deviation are those of the logarithm.
    """

    in_mean: tuple[float, ...]
    in_std: tuple[float, ...]
    out_mean: tuple[float, ...]
    out_std: tuple[float, ...]
    in_log: tuple[bool, ...] = ()

    @staticmethod
    def fit(data: Dataset) -> "Normaliser":
        """Mean and standard deviation of each channel; every example has the same weight, whatever its grid."""
        if not len(data):
            raise SurrogateError("dataset: there are no examples to learn from.")
        domain = data.domain
        functions = (False,) * domain.function_channels
        in_log = (*functions, *(name in domain.log_parameters for name in domain.parameters))
        in_log = in_log if any(in_log) else ()
        in_mean, in_std = _moments([_logarithms(f, in_log) for f in data.inputs], centre=True)
        vanishing = any(any(ends) for ends in domain.zero_boundary)
        out_mean, out_std = _moments(data.outputs, centre=not vanishing)
        return Normaliser(in_mean, in_std, out_mean, out_std, in_log)

    def inputs(self, f: Array) -> Array:
        """Inputs ``(..., in_channels, *grid)`` in normalised units; the channel axis is the second."""
        f = _logarithms(f, self.in_log)
        return (f - _column(self.in_mean, f.ndim - 2)) / _column(self.in_std, f.ndim - 2)

    def outputs(self, y: Array) -> Array:
        """Outputs ``(n, out_channels, *grid)`` in normalised units."""
        return (y - _column(self.out_mean, y.ndim - 2)) / _column(self.out_std, y.ndim - 2)

    def physical(self, y: Array, grid_axes: int) -> Array:
        """Normalised outputs ``(..., out_channels, *grid)`` in physical units."""
        return y * _column(self.out_std, grid_axes) + _column(self.out_mean, grid_axes)

    def typical_norm(self, grid: Sequence[int]) -> float | None:
        """Approximate norm over channels and grid of a typical output; None if all outputs are zero."""
        # A constant channel has the scale 1, which says nothing of its size.
        sizes = [abs(m) if s == 1.0 else math.hypot(m, s) for m, s in zip(self.out_mean, self.out_std, strict=True)]
        return math.sqrt(math.prod(grid)) * max(sizes) or None

    @property
    def log_scale(self) -> float:
        """Offset from normalised to physical log-variances; exact if all channels have the same scale."""
        largest = max(self.out_std)
        if 1e-100 < largest < 1e100:
            return float(np.log(np.mean(np.square(self.out_std))))
        return float(2 * np.log(largest) + np.log(np.mean(np.square(np.divide(self.out_std, largest)))))

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        names = ("in_mean", "in_std", "out_mean", "out_std", *(("in_log",) if self.in_log else ()))
        return {name: list(getattr(self, name)) for name in names}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Normaliser":
        """The inverse of :meth:`as_json`."""
        numbers = {name: tuple(float(v) for v in values[name]) for name in values if name != "in_log"}
        return Normaliser(**numbers, in_log=tuple(map(bool, values.get("in_log", ()))))


def _moments(arrays: Sequence[Array], *, centre: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    present = [a for a in arrays if len(a)]
    axes = tuple(range(2, present[0].ndim))
    # Squares of very large or small numbers overflow float64; scaling by a power of two changes no digit.
    largest = np.max([np.abs(a).max(axis=(0, *axes)) for a in present], axis=0)
    unit = np.ldexp(1.0, np.frexp(largest)[1].clip(-1000, 1000))
    present = [a / _column(unit, len(axes)) for a in present]
    first = np.concatenate([a.mean(axis=axes) for a in present]).mean(axis=0)
    second = np.concatenate([np.square(a).mean(axis=axes) for a in present]).mean(axis=0)
    mean = first if centre else np.zeros_like(first)
    size = np.sqrt(second)
    std = np.sqrt(np.maximum(second - mean**2, 0.0))
    if (std < 1e-6 * size).any():
        # Nearly constant: the difference above is rounding error, so the deviations themselves are squared.
        deviations = [np.square(a - _column(mean, len(axes))).mean(axis=axes) for a in present]
        std = np.where(std < 1e-6 * size, np.sqrt(np.concatenate(deviations).mean(axis=0)), std)
    mean, std, size = mean * unit, std * unit, size * unit
    # A constant channel gets the scale 1, or a larger one where rounding of its mean would not be small against 1.
    std = np.where(std > 1e-12 * size, std, np.maximum(1.0, 1e-12 * size))
    return tuple(mean.tolist()), tuple(std.tolist())


def _logarithms(f: Array, channels: Sequence[bool]) -> Array:
    """Inputs ``(n, in_channels, *grid)`` with the logarithm of some channels."""
    if not any(channels):
        return f
    f = f.copy()
    for channel in np.flatnonzero(channels):
        f[:, channel] = np.log(f[:, channel])
    return f


def _column(values: Sequence[float], grid_axes: int) -> Array:
    return np.asarray(values).reshape(-1, *[1] * grid_axes)
