"""Reading a long ledger makes many objects, none of them garbage; looking for some takes as long as reading."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for cyclic garbage, if it is on, and do not make up for it afterwards."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                # All objects go to the oldest generation, which is searched rarely. Otherwise the next allocation would
                # search all that were made meanwhile.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
