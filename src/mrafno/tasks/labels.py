"""Which recorded tasks are the same, and names that tell different ones apart."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from mrafno.tasks.source import source_key


def task_key(task: Mapping[str, Any]) -> tuple[str, ...]:
    """What runs of one task have in common: its name, meshes, channels, inputs, simulator and parameters.

    Args:
        task: the description in a run's ledger, see :func:`mrafno.tasks.stored.task_as_json`.
    """
    simulator, inputs = task.get("simulator"), task.get("inputs") or {}
    parts = (
        task.get("identity"), task["resolutions"], task["layout"], task["in_channels"], task["out_channels"],
        inputs.get("sha256"), None if simulator is None else source_key(simulator),
    )  # fmt: skip
    return str(task["name"]), *map(str, parts)


def task_labels(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each task: its name, with some digits where different tasks have one name."""
    keys = [task_key(task) for task in tasks]
    several = {key[0] for key in keys if len({other for other in keys if other[0] == key[0]}) > 1}
    return [f"{key[0]} #{_digits(key)}" if key[0] in several else key[0] for key in keys]


def _digits(key: tuple[str, ...]) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()[:4]
