"""The two presets: ``fast`` gives the best error for the time on a CPU, ``paper`` is what the publication used."""

from dataclasses import fields, replace
from typing import Any, get_args

import torch

from mrafno.data.dataset import Dataset
from mrafno.errors import SurrogateError, hint
from mrafno.grids import Domain
from mrafno.surrogate.operator.fno import NetworkSettings
from mrafno.surrogate.operator.local_correction import resolves
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.options import Preset
from mrafno.surrogate.training.batches import periods
from mrafno.surrogate.training.loop import TrainingSettings


def network_preset(preset: Preset, domain: Domain, **changes: Any) -> NetworkSettings:
    """Size and shape of the network for a domain, with some settings changed."""
    _known(preset)
    two = domain.dim == 2
    values: dict[str, Any]
    if preset == "paper":
        values = {"width": 64, "modes": (12, 12) if two else (16,), "hidden": 128}
    else:
        values = {"width": 32, "modes": (8, 8) if two else (14,), "hidden": 64, "residual": True}
        # Multiplying by a distance to the boundary helps smooth outputs; thin layers in one dimension it hurts.
        values["zero"] = domain.zero_boundary if two else ()
        # In two dimensions the shipped tasks' coarse meshes are good enough for corrections to change nothing.
        values["stencil_radius"] = 2 if domain.levels > 1 and not two else 0
    coarsest = min(min(grid.shape) for grid in domain.grids)
    values["modes"] = tuple(min(k, coarsest // 2) for k in values["modes"])
    shape = {
        "in_channels": domain.in_channels,
        "out_channels": domain.out_channels,
        "levels": domain.levels,
        "dim": domain.dim,
    }
    values = {**shape, **values, **_checked(NetworkSettings, changes)}
    if values.get("stencil_radius"):
        values = {"spacing": tuple(float(axis[1] - axis[0]) for axis in domain.grids[0].axes), **values}
    return NetworkSettings(**values)


def suited(settings: NetworkSettings, data: Dataset) -> NetworkSettings:
    """Without corrections from mesh to mesh if inputs vary between the points where layers would work for them."""
    if not settings.stencil_radius:
        return settings
    grids, lengths = data.domain.grids, periods(data.domain)
    inputs = [(Mesh.of(grid.axes, lengths), f) for grid, f in zip(grids, data.inputs, strict=True) if len(f)]
    resolved = all(resolves(mesh, settings.spacing, torch.as_tensor(f)) for mesh, f in inputs)
    return settings if resolved else replace(settings, stencil_radius=0, spacing=())


def training_preset(preset: Preset, domain: Domain, **changes: Any) -> TrainingSettings:
    """How to train on a domain, with some settings changed."""
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
    elif domain.dim == 2:
        values = {
            "iterations": 1500,
            "batch": 20,
            "points": 32,
            "small_data_size": 400,
            "warm_iterations": 400,
            "early_iterations": 1100,
            "brief_iterations": 25,
            "brief_batch": 10,
        }
    else:
        values = {"iterations": 4000, "batch": 40, "small_data_size": 400, "warm_batch": 40, "warm_rate": 2e-3}
    return TrainingSettings(**{**values, **_checked(TrainingSettings, changes)})


def _known(preset: str) -> None:
    if preset not in get_args(Preset):
        raise SurrogateError(f"unknown preset {preset!r}. The known ones are {', '.join(get_args(Preset))}.")


def _checked(kind: type, changes: dict[str, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(kind)]
    for name in changes:
        if name not in names:
            raise SurrogateError(f"{kind.__name__}: unknown setting {name!r}. {hint(name, names)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
