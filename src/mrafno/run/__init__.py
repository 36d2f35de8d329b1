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
    from mrafno.run.telling import abandon, fail, tell

__all__ = ["Run", "RunReader", "RunSettings", "RunState", "abandon", "fail", "tell"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Run": "mrafno.run.run",
        "RunReader": "mrafno.run.reader",
        "RunSettings": "mrafno.run.settings",
        "RunState": "mrafno.run.state",
        "abandon": "mrafno.run.telling",
        "fail": "mrafno.run.telling",
        "tell": "mrafno.run.telling",
    },
)
