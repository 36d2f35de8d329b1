"""Multi-fidelity active learning of Fourier neural operators on PyTorch.

The names that most programs start with are here; they are imported on first use. The package logs through ``logging``
under the name ``mrafno``.
"""

import logging
from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports
from mrafno._version import __version__

if TYPE_CHECKING:
    from mrafno.acquisition.base import Acquisition, Choice, Context, MeshRule
    from mrafno.errors import MrafnoError
    from mrafno.grids import Grid, layout_of
    from mrafno.grids.scattered import from_points
    from mrafno.run.methods import METHODS, Method
    from mrafno.run.outcome import Outcome
    from mrafno.run.reader import RunReader
    from mrafno.run.run import Run
    from mrafno.run.settings import RunSettings
    from mrafno.surrogate import Ensemble, Surrogate, input_channels
    from mrafno.surrogate.prediction import Prediction
    from mrafno.surrogate.spec import SurrogateSpec
    from mrafno.tasks import CommandTask, FunctionTask, TableTask, Task, get_task

__all__ = [
    "METHODS",
    "Acquisition",
    "Choice",
    "CommandTask",
    "Context",
    "Ensemble",
    "FunctionTask",
    "Grid",
    "MeshRule",
    "Method",
    "MrafnoError",
    "Outcome",
    "Prediction",
    "Run",
    "RunReader",
    "RunSettings",
    "Surrogate",
    "SurrogateSpec",
    "TableTask",
    "Task",
    "__version__",
    "from_points",
    "get_task",
    "input_channels",
    "layout_of",
]

_MODULES = {
    "acquisition.base": ("Acquisition", "Choice", "Context", "MeshRule"),
    "errors": ("MrafnoError",),
    "grids": ("Grid", "layout_of"),
    "run.methods": ("METHODS", "Method"),
    "run.outcome": ("Outcome",),
    "run.reader": ("RunReader",),
    "run.run": ("Run",),
    "run.settings": ("RunSettings",),
    "grids.scattered": ("from_points",),
    "surrogate": ("Ensemble", "Surrogate", "input_channels"),
    "surrogate.prediction": ("Prediction",),
    "surrogate.spec": ("SurrogateSpec",),
    "tasks": ("CommandTask", "FunctionTask", "TableTask", "Task", "get_task"),
}
__getattr__, __dir__ = lazy_exports(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)

# A library leaves it to the program whether and where its messages are shown.
logging.getLogger(__name__).addHandler(logging.NullHandler())
