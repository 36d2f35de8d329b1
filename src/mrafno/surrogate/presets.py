"""The two presets: ``fast`` has the lowest error for the time on a CPU, ``paper`` has the publication's settings."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, get_args

import numpy as np
import torch

from mrafno.data.dataset import Dataset
from mrafno.errors import SurrogateError, hint
from mrafno.grids import Domain, Grid
from mrafno.surrogate.operator.fno import NetworkSettings
from mrafno.surrogate.operator.local_correction import resolves
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.options import Preset
from mrafno.surrogate.training.batches import periods
from mrafno.surrogate.training.policy import TrainingPolicy
from mrafno.surrogate.training.settings import TrainingSettings

_Entry = TypeVar("_Entry")

#: Fourier modes per axis for grids of 1, 2, ... axes.
_MODES: dict[Preset, tuple[int, ...]] = {"fast": (14, 8, 4), "paper": (16, 12, 8)}
#: By number of axes: iterations of a fit from scratch, examples per step, points per axis that a step sees (0 for all).
_ITERATIONS, _BATCH, _POINTS = (4000, 1500, 1500), (40, 20, 20), (0, 32, 8)
#: By number of axes: points per axis that the first steps of a fit see, and the share of these steps.
_EARLY_POINTS, _EARLY_SHARE = (0, 16, 0), (0.0, 0.5, 0.0)
#: By number of axes: share of the iterations in bfloat16, where that is faster. A step in one dimension gains little.
_BFLOAT16 = (0.0, 0.75, 0.75)
#: By number of axes: changes to the training policy. A step in two or more dimensions takes ten times as long as in
#: one, so an update has fewer and smaller ones.
_POLICY: tuple[dict[str, Any], ...] = ({}, {"refit_batch": 20, "update_iterations": 25, "update_batch": 10})
#: Stencil radius of local corrections by number of axes, see :func:`network_preset`.
_STENCIL_RADIUS = {1: 2}


def network_preset(preset: Preset, domain: Domain, **changes: Any) -> NetworkSettings:
    """Network settings for a domain, with some settings changed."""
    _known(preset)
    values: dict[str, Any]
    if preset == "paper":
        values = {"width": 64, "hidden": 128}
    else:
        values = {"width": 32, "hidden": 64, "residual": True}
        values["periodic"] = domain.grids[0].periodic if any(domain.grids[0].periodic) else ()
        values["stencil_radius"] = _STENCIL_RADIUS.get(domain.dim, 0) if domain.levels > 1 else 0
    coarsest = min(min(grid.shape) for grid in domain.grids)
    values["modes"] = (min(_modes(preset, domain.dim), coarsest // 2),) * domain.dim
    values["zero_boundary"] = domain.zero_boundary if any(any(ends) for ends in domain.zero_boundary) else ()
    values["spacing"] = tuple(_spacing(domain.grids[0], axis) for axis in range(domain.dim))
    shape = {
        "in_channels": domain.in_channels,
        "out_channels": domain.out_channels,
        "levels": domain.levels,
        "dim": domain.dim,
    }
    return NetworkSettings(**{**shape, **values, **_checked(NetworkSettings, changes)})


def _spacing(grid: Grid, axis: int) -> float:
    """Distance of the points along an axis, the median where they are not equally far apart."""
    points = grid.axes[axis]
    return float(np.median(np.diff(points)) if grid.layout[axis] == "points" else points[1] - points[0])


def _modes(preset: Preset, dim: int) -> int:
    """Fourier modes per axis; grids of more axes than the table has use its last entry."""
    return _of_axes(_MODES[preset], dim)


def _of_axes(table: tuple[_Entry, ...], dim: int) -> _Entry:
    """The entry for a number of axes; the last one for more than the table has."""
    return table[min(dim, len(table)) - 1]


def suited(settings: NetworkSettings, data: Dataset) -> NetworkSettings:
    """The settings, without local corrections if inputs vary between the points where the layers would work."""
    if not settings.stencil_radius:
        return settings
    grids, lengths = data.domain.grids, periods(data.domain, settings.padding)
    inputs = [(Mesh.of(grid.axes, lengths), f) for grid, f in zip(grids, data.inputs, strict=True) if len(f)]
    resolved = all(resolves(mesh, settings.spacing, torch.as_tensor(f)) for mesh, f in inputs)
    return settings if resolved else replace(settings, stencil_radius=0)


def training_preset(preset: Preset, domain: Domain, **changes: Any) -> TrainingSettings:
    """Training settings for a domain, with some settings changed."""
    _known(preset)
    if preset == "paper":
        values: dict[str, Any] = {
            "iterations": 2000,
            "batch": 20,
            "rate": 1e-3,
            "schedule": "cosine",
            "weight_decay": 0.0,
            "points": 0,
            "loss": "likelihood",
        }
    else:
        tables = {
            "iterations": _ITERATIONS,
            "batch": _BATCH,
            "points": _POINTS,
            "early_points": _EARLY_POINTS,
            "early_share": _EARLY_SHARE,
            "bfloat16_share": _BFLOAT16,
        }
        values = {name: _of_axes(table, domain.dim) for name, table in tables.items()}
    return TrainingSettings(**{**values, **_checked(TrainingSettings, changes)})


def policy_preset(preset: Preset, domain: Domain, **changes: Any) -> TrainingPolicy:
    """The training policy for a domain, with some settings changed."""
    _known(preset)
    values: dict[str, Any]
    if preset == "paper":
        # Every fit has all its iterations, as the publication has it.
        values = {"full_size": 0, "refit_share": 1.0, "refit_rate": 1e-3}
    else:
        values = _of_axes(_POLICY, domain.dim)
    return TrainingPolicy(**{**values, **_checked(TrainingPolicy, changes)})


def split_training(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Changes to training settings and to the training policy, from one mapping of both."""
    policy = {f.name for f in fields(TrainingPolicy)}
    known = [*(f.name for f in fields(TrainingSettings)), *policy]
    for name in changes:
        if name not in known:
            raise SurrogateError(f"training: unknown setting {name!r}. {hint(name, known)}")
    settings = {name: value for name, value in changes.items() if name not in policy}
    rest = {name: value for name, value in changes.items() if name in policy}
    return settings, ({"scale_iterations": False, **rest} if "iterations" in settings else rest)


def _known(preset: str) -> None:
    if preset not in get_args(Preset):
        raise SurrogateError(f"unknown preset {preset!r}. The known ones are {', '.join(get_args(Preset))}.")


def _checked(kind: type, changes: dict[str, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(kind)]
    for name in changes:
        if name not in names:
            raise SurrogateError(f"{kind.__name__}: unknown setting {name!r}. {hint(name, names)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
