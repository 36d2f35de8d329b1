"""Tuning of glibc's malloc while tensors are allocated and freed repeatedly."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: glibc's numbers of the parameters.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
#: What they are inside a block.
_KEEP = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 1 << 28}
#: The defaults that mallopt(3) documents. What cannot be undone: setting a threshold switches off glibc's dynamic
#: adjustment of it for the rest of the process, and no call switches that on again.
_DEFAULTS = {_MMAP_THRESHOLD: 128 << 10, _TRIM_THRESHOLD: 128 << 10, _TOP_PAD: 128 << 10}

_lock = threading.Lock()
_inside = 0


@contextmanager
def steady_memory() -> Iterator[None]:
    """Let malloc keep freed memory until the outermost of these blocks ends, then restore its defaults.

    Activations are large and short-lived. Returning each to the system and allocating it again costs a quarter of a
    training step's time and a fifth of a prediction's.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    _count(tune, 1)
    try:
        yield
    finally:
        _count(tune, -1)


def _count(tune: "ctypes._NamedFuncPointer", change: int) -> None:
    """Count the blocks of all threads; the first one tunes, the last one restores the defaults."""
    global _inside
    with _lock:
        before, _inside = _inside, _inside + change
        if not before or not _inside:
            for parameter, value in (_KEEP if not before else _DEFAULTS).items():
                tune(parameter, value)
        if not _inside:
            ctypes.CDLL(None).malloc_trim(0)  # what was kept goes back to the system
