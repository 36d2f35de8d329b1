"""Problems: input functions, meshes, the cost of a solve on each mesh, and a solver.

Five ship with the package, and :class:`FunctionTask` and :class:`CommandTask` make a task of any simulator:

======================  ==========================  ==============================
name                    input                       output
======================  ==========================  ==============================
``burgers``             initial velocity            velocity at t = 1
``darcy``, ``darcy3``   permeability                pressure
``diffusion``           source term                 concentration in space-time
``navier-stokes``       vorticity, 20 past frames   vorticity, 20 future frames
======================  ==========================  ==============================

May import ``errors`` and ``grids``. A task knows nothing of runs or of files.
"""

from mrafno.tasks.base import Task
from mrafno.tasks.burgers import Burgers
from mrafno.tasks.candidates import CandidateTask
from mrafno.tasks.command import CommandTask
from mrafno.tasks.darcy import Darcy
from mrafno.tasks.diffusion import Diffusion
from mrafno.tasks.function import FunctionTask
from mrafno.tasks.navier_stokes import NavierStokes
from mrafno.tasks.registry import TASKS, get_task

__all__ = [
    "TASKS",
    "Burgers",
    "CandidateTask",
    "CommandTask",
    "Darcy",
    "Diffusion",
    "FunctionTask",
    "NavierStokes",
    "Task",
    "get_task",
]
