"""Reading a long ledger makes many objects, none of them garbage; looking for some takes as long as reading."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for cyclic garbage, if it is on."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
