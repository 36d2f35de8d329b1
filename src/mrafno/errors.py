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
    │   └── ExportError        something cannot be taken out of a run
    └── LedgerError          a run's files are missing, damaged, foreign or cannot be written
        └── LedgerLockedError  another process writes the run

A message says where, what, and what to do about it.
"""

import difflib
from collections.abc import Sequence


def hint(name: str, known: Sequence[str], otherwise: str | None = None) -> str:
    """What to do about an unknown name: the nearest known one, or ``otherwise``, by default all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise or f"The known ones are {', '.join(known)}."


class MrafnoError(Exception):
    """Root of the tree: catch this to catch everything mrafno raises on purpose."""


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
    """Another process writes the run."""


class FailuresError(RunError):
    """Too many simulations failed."""


class ExportError(RunError):
    """Something cannot be taken out of a run."""
