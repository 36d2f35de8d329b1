"""Examples as tensors per resolution, and the normalisers fitted on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrafno.errors import SurrogateError
from mrafno.grids import Array, Domain


@dataclass(frozen=True)
class Dataset:
    """Training examples of every level; a level may have none.

    ``inputs[r]`` are ``(n_r, in_channels, *grid_r)``, ``outputs[r]`` are ``(n_r, out_channels, *grid_r)``.
    """

    domain: Domain
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != self.domain.levels or len(self.outputs) != self.domain.levels:
            raise SurrogateError(
                f"dataset: {len(self.inputs)} inputs and {len(self.outputs)} outputs for {self.domain.levels} levels. "
                "Give one array of each per level, empty where there is nothing."
            )
        for level, (f, y) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            shape = self.domain.grids[level].shape
            for what, values, channels in (
                ("inputs", f, self.domain.in_channels),
                ("outputs", y, self.domain.out_channels),
            ):
                if values.shape[1:] != (channels, *shape) or len(f) != len(y):
                    raise SurrogateError(
                        f"dataset: {what} of level {level} have shape {values.shape}, expected "
                        f"({len(f)}, {channels}, {', '.join(map(str, shape))})."
                    )
                if not np.isfinite(values).all():
                    raise SurrogateError(f"dataset: {what} of level {level} have NaN or infinite values.")

    @staticmethod
    def of(domain: Domain, examples: Sequence[tuple[Array, Array] | None]) -> "Dataset":
        """From one (inputs, outputs) pair per level, None where there are none."""
        inputs, outputs = [], []
        for level, pair in enumerate(examples):
            shape = domain.grids[level].shape
            inputs.append(np.zeros((0, domain.in_channels, *shape)) if pair is None else np.asarray(pair[0]))
            outputs.append(np.zeros((0, domain.out_channels, *shape)) if pair is None else np.asarray(pair[1]))
        return Dataset(domain, tuple(inputs), tuple(outputs))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of examples of each level."""
        return tuple(len(f) for f in self.inputs)

    def __len__(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class Normaliser:
    """Shift and scale per channel, from training examples only.

    Where outputs vanish on a boundary their shift is zero, so that the normalised ones vanish there too.
    """

    in_mean: tuple[float, ...]
    in_std: tuple[float, ...]
    out_mean: tuple[float, ...]
    out_std: tuple[float, ...]

    @staticmethod
    def fit(data: Dataset) -> "Normaliser":
        """Every example counts the same, whatever its grid."""
        if not len(data):
            raise SurrogateError("dataset: there are no examples to learn from.")
        in_mean, in_std = _moments(data.inputs, centre=True)
        vanishing = any(any(ends) for ends in data.domain.zero_boundary)
        out_mean, out_std = _moments(data.outputs, centre=not vanishing)
        return Normaliser(in_mean, in_std, out_mean, out_std)

    def inputs(self, f: Array) -> Array:
        """Inputs ``(..., in_channels, *grid)`` in normalised units; the channel axis is the second."""
        return (f - _column(self.in_mean, f.ndim - 2)) / _column(self.in_std, f.ndim - 2)

    def outputs(self, y: Array) -> Array:
        """Outputs ``(n, out_channels, *grid)`` in normalised units."""
        return (y - _column(self.out_mean, y.ndim - 2)) / _column(self.out_std, y.ndim - 2)

    def physical(self, y: Array, grid_axes: int) -> Array:
        """Normalised outputs ``(..., out_channels, *grid)`` in physical units."""
        return y * _column(self.out_std, grid_axes) + _column(self.out_mean, grid_axes)

    @property
    def log_scale(self) -> float:
        """Added to a log-variance in normalised units to make it physical; exact where channels have one scale."""
        return float(np.log(np.mean(np.square(self.out_std))))

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: list(getattr(self, name)) for name in ("in_mean", "in_std", "out_mean", "out_std")}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Normaliser":
        """The inverse of :meth:`as_json`."""
        return Normaliser(**{name: tuple(float(v) for v in values[name]) for name in values})


def _moments(arrays: Sequence[Array], *, centre: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    present = [a for a in arrays if len(a)]
    axes = tuple(range(2, present[0].ndim))
    first = np.concatenate([a.mean(axis=axes) for a in present]).mean(axis=0)
    second = np.concatenate([np.square(a).mean(axis=axes) for a in present]).mean(axis=0)
    mean = first if centre else np.zeros_like(first)
    std = np.sqrt(np.maximum(second - mean**2, 0.0))
    # A channel that is constant has no scale of its own.
    std = np.where(std > 1e-12 * np.maximum(np.sqrt(second), 1e-300), std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())


def _column(values: Sequence[float], grid_axes: int) -> Array:
    return np.asarray(values).reshape(-1, *[1] * grid_axes)
