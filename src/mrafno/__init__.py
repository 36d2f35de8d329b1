"""Multi-resolution active learning of Fourier neural operators."""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports
from mrafno._version import __version__

if TYPE_CHECKING:
    from mrafno.run import Run
    from mrafno.surrogate import Surrogate
    from mrafno.tasks import get_task

__all__ = ["Run", "Surrogate", "__version__", "get_task"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"Run": "mrafno.run", "Surrogate": "mrafno.surrogate", "get_task": "mrafno.tasks"}
)
