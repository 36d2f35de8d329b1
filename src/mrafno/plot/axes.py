"""Axes of fields: titles with units, and frames, which are what a slider goes through: channels and slices.

A picture has one axis (a curve) or two (a map). Of a field ``(channels, *grid)`` with more, a frame fixes the channel
and a coordinate on every axis after the second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

import numpy as np

from mrafno.grids import Array, Grid
from mrafno.tasks.base import Task

#: Names of axes that have none.
_NAMES = ("x", "y", "z")
#: Most frames of a slider, and most points of a picture along an axis, of a curve and of a map.
FRAMES, _POINTS = 24, {1: 2000, 2: 128}
#: Axes whose names say that they are times have no length to compare with that of others.
_TIMES = ("t", "time")
#: Largest ratio of the lengths of two axes that is drawn to scale.
_LONGEST = 6.0


@dataclass(frozen=True)
class Frame:
    """A channel, and a coordinate on every axis after the second; the label says which."""

    label: str
    channel: int
    at: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axes:
    """A grid with the names and units of its axes; missing names are x, y and z, missing units are empty."""

    grid: Grid
    names: Sequence[str] = ()
    units: Sequence[str] = ()

    @staticmethod
    def of(task: Mapping[str, Any], grid: Grid) -> "Axes":
        """The axes of a grid of a task as it stands in a ledger; earlier versions recorded no units."""
        return Axes(grid, tuple(task["axis_names"]), tuple(task.get("axis_units") or ()))

    @staticmethod
    def of_task(task: Task, level: int = -1) -> "Axes":
        """The axes of a task's grid, by default of the finest."""
        return Axes(task.grids[level], task.axis_names, task.axis_units)

    @property
    def labels(self) -> list[str]:
        """``x (mm)`` for every axis, with markup escaped, since plotly interprets it."""
        return [escape(f"{name} ({unit})" if unit else name) for name, unit in self._named]

    @property
    def is_map(self) -> bool:
        """Whether a picture of a field is a map; else it is a curve."""
        return self.grid.dim > 1

    @property
    def ratio(self) -> float | None:
        """Height of a map over its width, if its axes have the same unit and lengths that can be drawn to scale."""
        (name, unit), (other, other_unit), *_ = [*self._named, ("", "")]
        if not self.is_map or unit != other_unit or {name.lower(), other.lower()} & {*_TIMES}:
            return None
        width, height = (float(x[-1] - x[0]) * len(x) / (len(x) - 1) for x in self.grid.coordinates[:2])
        return height / width if 1 / _LONGEST <= height / width <= _LONGEST else None

    @property
    def shown(self) -> tuple[Array, ...]:
        """Coordinates of the one or two axes of a picture, thinned."""
        return tuple(x[step] for x, step in zip(self.grid.coordinates, self._steps, strict=False))

    def picked(self, values: Array, frame: Frame) -> Array:
        """What a frame shows of ``(channels, *grid)``: an array of one or two axes."""
        further = zip(self.grid.coordinates[2:], frame.at, strict=True)
        places = tuple(int(np.abs(x - at).argmin()) for x, at in further)
        return np.asarray(values[min(frame.channel, len(values) - 1)][(*self._steps, *places)])

    def frame(self, channel: int, places: Sequence[int], channels: int = 1) -> Frame:
        """The frame of a channel and of a point on every axis after the second."""
        at = tuple(float(x[place]) for x, place in zip(self.grid.coordinates[2:], places, strict=True))
        return Frame(self._label(channel, channels, at), channel, at)

    def frames(self, channels: int, most: int = FRAMES) -> tuple[list[Frame], int]:
        """All frames of fields with so many channels, at most ``most``, and the place of the one to begin with.

        That is the last channel, in the middle of the further axes.
        """
        every = [
            Frame(self._label(channel, channels, at), channel, at)
            for channel in range(channels)
            for at in product(*([float(one) for one in x] for x in self.grid.coordinates[2:]))
        ]
        kept = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int))
        found = [every[i] for i in kept]
        last = [place for place, frame in enumerate(found) if frame.channel == found[-1].channel]
        return found, last[len(last) // 2]

    @property
    def _named(self) -> list[tuple[str, str]]:
        dim = self.grid.dim
        names = [*self.names, *_NAMES[len(self.names) :], *(f"x{i + 1}" for i in range(3, dim))][:dim]
        return list(zip(names, [*self.units, *("",) * dim], strict=False))

    @property
    def _steps(self) -> tuple[slice, ...]:
        shape = self.grid.shape[:2]
        return tuple(slice(None, None, -(-n // _POINTS[len(shape)])) for n in shape)

    def _label(self, channel: int, channels: int, at: Sequence[float]) -> str:
        parts = [f"channel {channel + 1} of {channels}"] if channels > 1 else []
        further = zip(self._named[2:], at, strict=True)
        return ", ".join([*parts, *(f"{name} = {value:.3g} {unit}".strip() for (name, unit), value in further)])
