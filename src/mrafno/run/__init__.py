"""A run in a directory: where the loop of asking, simulating, training and choosing closes.

May import everything in the data flow from ``tasks`` to ``acquisition``. Readers of runs (report, dashboard, export)
use :class:`RunReader` and :class:`RunState`, which need neither the simulator nor PyTorch.
"""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports

if TYPE_CHECKING:
    from mrafno.run.reader import RunReader
    from mrafno.run.run import Run
    from mrafno.run.settings import RunSettings
    from mrafno.run.state import RunState

__all__ = ["Run", "RunReader", "RunSettings", "RunState"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Run": "mrafno.run.run",
        "RunReader": "mrafno.run.reader",
        "RunSettings": "mrafno.run.settings",
        "RunState": "mrafno.run.state",
    },
)
