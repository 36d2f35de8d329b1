"""Problems: input functions, meshes, the cost of a solve on each mesh, and a solver.

Seven ship with the package, and :class:`FunctionTask` and :class:`CommandTask` make a task of any simulator,
and :class:`TableTask` of simulations that exist already:

======================  ==========================  ==============================
name                    input                       output
======================  ==========================  ==============================
``burgers``             initial velocity            velocity at t = 1
``darcy``, ``darcy3``   permeability                pressure
``diffusion``           source term                 concentration in space-time
``navier-stokes``       vorticity, 20 past frames   vorticity, 20 future frames
``burgers-parameters``  initial velocity,           velocity at t = 1
                        viscosity, amplitude
``diffusion3d``         source in a cube            concentration at t = 1
======================  ==========================  ==============================

May import ``errors`` and ``grids``. A task knows nothing of runs.
"""

from mrafno.tasks.base import Task
from mrafno.tasks.burgers import Burgers
from mrafno.tasks.burgers_parameters import BurgersParameters
from mrafno.tasks.candidates import CandidateTask
from mrafno.tasks.command import CommandTask
from mrafno.tasks.darcy import Darcy
from mrafno.tasks.diffusion import Diffusion
from mrafno.tasks.diffusion3d import Diffusion3D
from mrafno.tasks.function import FunctionTask
from mrafno.tasks.navier_stokes import NavierStokes
from mrafno.tasks.registry import TASKS, get_task
from mrafno.tasks.table import TableTask

__all__ = [
    "TASKS",
    "Burgers",
    "BurgersParameters",
    "CandidateTask",
    "CommandTask",
    "Darcy",
    "Diffusion",
    "Diffusion3D",
    "FunctionTask",
    "NavierStokes",
    "TableTask",
    "Task",
    "get_task",
]
