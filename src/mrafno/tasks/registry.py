"""The built-in tasks by name."""

from collections.abc import Callable
from typing import Any

from mrafno.errors import TaskError
from mrafno.tasks.base import Task
from mrafno.tasks.burgers import Burgers
from mrafno.tasks.burgers_parameters import BurgersParameters
from mrafno.tasks.darcy import Darcy
from mrafno.tasks.diffusion import Diffusion
from mrafno.tasks.diffusion3d import Diffusion3D
from mrafno.tasks.navier_stokes import NavierStokes


def _darcy3(**settings: Any) -> Darcy:
    return Darcy(**{"name": "darcy3", "resolutions": ((32, 32), (64, 64), (128, 128)), **settings})


TASKS: dict[str, Callable[..., Task]] = {
    "burgers": Burgers,
    "darcy": Darcy,
    "darcy3": _darcy3,
    "diffusion": Diffusion,
    "navier-stokes": NavierStokes,
    "burgers-parameters": BurgersParameters,
    "diffusion3d": Diffusion3D,
}


def get_task(name: str, **settings: Any) -> Task:
    """The built-in task with this name; ``settings`` are passed to its constructor."""
    if name not in TASKS:
        raise TaskError(f"unknown task {name!r}. The known ones are {', '.join(TASKS)}.")
    return TASKS[name](**settings)
