"""Every exception that mrafno raises on purpose.

::

    MrafnoError
    ├── TaskError            a problem, its settings or its input is wrong
    │   └── SimulationError    a simulation ended without a usable output
    ├── SurrogateError       a surrogate's settings or data are wrong
    │   ├── TrainingError      training could not give a usable model
    │   └── CheckpointError    a checkpoint is damaged, foreign or from another version
    ├── AcquisitionError     what to choose from, or how, is wrong
    ├── RunError             a run cannot do what it is asked to
    │   ├── FailuresError      too many simulations failed
    │   ├── CallbackError      a callback of a run raised an exception
    │   ├── StopRequested      somebody asked a run to stop, from outside of its process
    │   └── ExportError        something cannot be taken out of a run
    └── LedgerError          a run's files are missing, damaged, foreign or cannot be written
        └── LedgerLockedError  another process writes the run

A message says where, what, and what to do about it.
"""

import difflib
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

#: What is not the code of whoever reads a message: this package, and Python's own library.
_OURS, _PYTHON = Path(__file__).parent, Path(sysconfig.get_path("stdlib"))


def hint(name: str, known: Sequence[str], otherwise: str | None = None) -> str:
    """What to do about an unknown name: the nearest known one, or ``otherwise``, by default all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise or f"The known ones are {', '.join(known)}."


def raised(error: BaseException) -> str:
    """What somebody's code raised and where, ``ValueError (heat.py:17): no convergence``, on one line."""
    what = type(error).__name__ + (f" ({place})" if (place := place_of(error)) else "")
    try:
        said = " ".join(str(error).split())
    except Exception:  # an exception can be unable to say what it is
        said = ""
    return f"{what}: {said}" if said else what


def place_of(error: BaseException) -> str:
    """The line of somebody's code where an error comes from, as ``heat.py:17``; empty if only ours was on the way.

    It is the last line that is neither Python's nor an installed library's, where there is one.
    """
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if not file.is_relative_to(_OURS)]
    own = [(file, line) for file, line in frames if not _installed(file)]
    if not frames:
        return ""
    file, line = own[-1] if own else frames[0]
    return f"{file.name}:{line}"


def _installed(file: Path) -> bool:
    libraries = not {"site-packages", "dist-packages"}.isdisjoint(file.parts)
    return libraries or file.is_relative_to(_PYTHON) or str(file).startswith("<frozen")


def printable(text: str) -> str:
    """A text with its control characters written out, so that it cannot command a terminal; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def sentence(text: str) -> str:
    """A text from elsewhere that ends like a sentence, so that another may follow."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


class MrafnoError(Exception):
    """Root of the tree: catch this to catch everything mrafno raises on purpose."""


class MrafnoWarning(UserWarning):
    """Something that a person should know of a run or a prediction, and that is no error."""


class TaskError(MrafnoError):
    """A problem, its settings or its input is wrong."""


class SimulationError(TaskError):
    """A simulation ended without a usable output."""


class SurrogateError(MrafnoError):
    """A surrogate's settings or data are wrong."""


class TrainingError(SurrogateError):
    """Training could not give a usable model."""


class CheckpointError(SurrogateError):
    """A checkpoint is damaged, foreign or from another version."""


class AcquisitionError(MrafnoError):
    """What to choose from, or how, is wrong."""


class RunError(MrafnoError):
    """A run cannot do what it is asked to."""


class LedgerError(MrafnoError):
    """A run's files are missing, damaged, foreign or cannot be written."""


class LedgerLockedError(LedgerError):
    """Another process writes the run.

    Attributes:
        holder: which process that is, as far as it is known.
        patience: seconds in which that process will be done, if it said that it needs the run for a moment only.
    """

    def __init__(self, message: str, *, holder: str = "another process", patience: float = 0.0) -> None:
        super().__init__(message)
        self.holder, self.patience = holder, patience


class FailuresError(RunError):
    """Too many simulations failed."""


class CallbackError(RunError):
    """A callback of a run raised an exception."""


class StopRequested(RunError):  # noqa: N818  # it is a request, not an error
    """Somebody asked a run to stop, from outside of its process."""


class ExportError(RunError):
    """Something cannot be taken out of a run."""
