"""Checkpoints of earlier formats, upgraded to the present one step by step."""

from collections.abc import Callable
from typing import Any

#: Format of what is written. A change that an older reader could misread raises it and adds an upgrade to UPGRADES.
VERSION = 4
#: The classes of the formats before 3, which did not name them, by inference.
_EARLIER_CLASSES = {
    "ensemble": "Ensemble",
    "point": "Point",
    "dropout": "Dropout",
    "sgld": "Langevin",
    "svi": "Variational",
}


#: Training settings of format 3, and the names that settings of its policy had before.
_TRAINING = (
    *("iterations", "batch", "rate", "schedule", "weight_decay", "points", "loss"),
    *("out_of_fold_share", "level_embedding_scale"),
)
_POLICY = {
    "warm_batch": "refit_batch",
    "warm_rate": "refit_rate",
    "brief_iterations": "update_iterations",
    "brief_batch": "update_batch",
    "brief_rate": "update_rate",
}


def _renamed(old: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in old.items()}


def _upgraded_from_1(values: dict[str, Any]) -> dict[str, Any]:
    """Format 1 had other names for some settings and attributes."""
    network = {"reach": "stencil_radius", "refined": "correction_width"}
    training = {"few": "small_data_size", "apart": "level_embedding_scale", "held_in": "out_of_fold"}
    return {
        **_renamed(values, {"held_in": "out_of_fold", "learnt": "trained_levels"}),
        "network": _renamed(values["network"], network),
        "training": _renamed(values["training"], training),
        "version": 2,
    }


def _upgraded_from_2(values: dict[str, Any]) -> dict[str, Any]:
    """Format 2 had other names for some settings, no policy, one boundary factor, a padding by dimension, no class."""
    network = _renamed(values["network"], {"zero": "zero_boundary"})
    training = _renamed(values["training"], {"out_of_fold": "out_of_fold_share"})
    return {
        **_renamed(values, {"out_of_fold": "out_of_fold_count", "model": "network_class"}),
        "network": {**network, "boundary_factor": "parabola", "padding": 1.5 if network["dim"] == 1 else 1.25},
        "training": {name: value for name, value in training.items() if name in _TRAINING},
        "policy": {new: training[old] for old, new in _POLICY.items() if old in training},
        "class": _EARLIER_CLASSES.get(values["inference"], values["inference"]),
        "version": 3,
    }


def _upgraded_from_3(values: dict[str, Any]) -> dict[str, Any]:
    """Format 3 knew uniform grids on unit boxes only, and no parameters: what is missing in the domain is empty."""
    return {**values, "version": 4}


#: For each older format, the function that turns its description into one of the next format.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _upgraded_from_1,
    2: _upgraded_from_2,
    3: _upgraded_from_3,
}
