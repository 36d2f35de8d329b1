"""The axes of a task as people describe them: layouts, extents, coordinates and labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from mrafno.errors import TaskError
from mrafno.grids import Layout
from mrafno.tasks.base import as_numbers

Extent = tuple[tuple[float, float], ...]
#: Coordinates by level and axis, () for uniform axes.
Points = tuple[tuple[tuple[float, ...], ...], ...]


def as_extent(name: str, given: Sequence[Sequence[float]]) -> Extent:
    """Start and end of each axis."""
    try:
        return tuple((float(start), float(end)) for start, end in given)
    except (TypeError, ValueError):
        raise TaskError(f"{name}: extent must be a (start, end) for each axis, got {given!r}.") from None


def as_labels(name: str, what: str, given: Sequence[str], dim: int) -> tuple[str, ...]:
    """One text per axis, or none at all."""
    if isinstance(given, str) or (given and len(given) != dim) or not all(isinstance(one, str) for one in given):
        raise TaskError(f"{name}: {what} must be one text for each of {dim} axes, got {given!r}.")
    return tuple(given)


def placed(
    name: str,
    layout: Layout | Sequence[Layout],
    extent: Sequence[Sequence[float]],
    coordinates: Sequence[Sequence[ArrayLike] | None],
    shapes: Sequence[tuple[int, ...]],
) -> tuple[tuple[Layout, ...], Extent, Points]:
    """Layout, extent and points of a task's axes from what :class:`mrafno.tasks.CandidateTask` is given."""
    dim, levels = len(shapes[0]), len(shapes)
    layouts = [layout] * dim if isinstance(layout, str) else list(layout)
    ends = [list(pair) for pair in as_extent(name, extent)]
    if not coordinates:
        return tuple(layouts), as_extent(name, ends), ()
    if len(coordinates) != dim:
        raise TaskError(
            f"{name}: coordinates need one entry for each of {dim} axes, None for uniform ones, got {len(coordinates)}."
        )
    ends = ends or [[0.0, 1.0] for _ in range(dim)]
    points: list[list[tuple[float, ...]]] = [[() for _ in range(dim)] for _ in range(levels)]
    for axis, given in enumerate(coordinates):
        if given is None:
            continue
        if len(given) != levels:
            raise TaskError(f"{name}: axis {axis} needs coordinates for each of {levels} levels.")
        layouts[axis] = "points"
        for level, values in enumerate(given):
            array = as_numbers(values, f"{name}: coordinates of axis {axis}")
            points[level][axis] = tuple(float(x) for x in array.ravel())
        if not extent:
            known = [x for level in points for x in level[axis]]
            ends[axis] = [min(known), max(known)]
    return tuple(layouts), as_extent(name, ends), tuple(tuple(level) for level in points)


def described_coordinates(task: Mapping[str, Any]) -> list[list[list[float]] | None]:
    """Coordinates by axis and level of a task as it stands in a ledger, None for uniform axes."""
    levels = task.get("points") or []
    layouts = enumerate(task["layout"] if levels else ())
    return [[level[axis] for level in levels] if layout == "points" else None for axis, layout in layouts]
