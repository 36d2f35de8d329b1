"""Multi-resolution active learning of Fourier neural operators."""

from typing import TYPE_CHECKING, Any

from mrafno._version import __version__

if TYPE_CHECKING:
    from mrafno.run import Run
    from mrafno.surrogate import Surrogate
    from mrafno.tasks import get_task

#: Where the names that people start with live. They come in when they are asked for: torch takes a second.
_HOMES = {"Run": "mrafno.run", "Surrogate": "mrafno.surrogate", "get_task": "mrafno.tasks"}

__all__ = ["Run", "Surrogate", "__version__", "get_task"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mrafno' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
