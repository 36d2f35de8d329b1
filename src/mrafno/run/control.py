"""Requests to the driver of a run from another process: to pause, to go on, to stop.

A request is a small file beside the ledger. The driver looks for it whenever it says what it is doing: between two
simulations, and many times during a fit. A simulation that is running is not interrupted.
"""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast, get_args

from mrafno.errors import LedgerError, RunError, StopRequested
from mrafno.run.fit_time import FitAhead
from mrafno.run.status import StatusWriter
from mrafno.storage.files import read_bytes, write_json
from mrafno.storage.layout import CONTROL, LOCK
from mrafno.storage.lock import lock_state

#: A watcher, see :class:`mrafno.run.loop.Watcher`.
Watch = Callable[[str, float | None], None]
#: What can be asked of a driver; ``resume`` ends a pause.
Request = Literal["pause", "resume", "stop"]
#: Seconds between two looks at the file.
_LOOK_SECONDS = 0.25
#: Bytes of a request that are believed.
_LARGEST = 200


def ask_driver(folder: Path, request: str) -> None:
    """Leave a request for the driver of a run; raises RunError if no process drives it."""
    if request not in get_args(Request):
        raise RunError(f"run: unknown request {request!r}. Choose one of {', '.join(get_args(Request))}.")
    if lock_state(folder / LOCK) != "held":
        raise RunError(
            "run: no process advances it, so there is nothing to pause or to stop. Start it with: mrafno resume"
        )
    if request == "resume":
        (folder / CONTROL).unlink(missing_ok=True)
    else:
        write_json(folder / CONTROL, {"request": request})


def pending_request(folder: Path) -> Request | None:
    """The request that the driver has not taken yet, or that holds it paused."""
    try:
        content = read_bytes(folder / CONTROL)
        value = json.loads(content)["request"] if len(content) <= _LARGEST else None
    except (LedgerError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return cast(Request, value) if value in get_args(Request) else None


class Controlled:
    """A watcher that takes requests, writes the status, and calls another watcher.

    Args:
        folder: of the run; requests from before are removed.
        status: where it is written what the run is doing.
        watch: called with the same.
        ahead: returns the fit that is going on.
    """

    def __init__(
        self, folder: Path, status: StatusWriter, watch: Watch, ahead: Callable[[], FitAhead | None] = lambda: None
    ) -> None:
        self.folder, self.status, self.watch, self.ahead = folder, status, watch, ahead
        self._looked = 0.0
        self._clear()

    def __call__(self, phase: str, done: float | None = None) -> None:
        """Tell the phase; while the run is to pause this does not return, and it raises StopRequested to stop."""
        self._say(phase, done)
        self.watch(phase, done)
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        paused = False
        while (request := pending_request(self.folder)) is not None:
            if request == "stop":
                self._clear()
                raise StopRequested("stopped on request")
            if not paused:
                self.status("paused")
                self.status.write()
                paused = True
            self.watch("paused", None)
            time.sleep(_LOOK_SECONDS)
        if paused:
            self._say(phase, done)
            self.status.write()

    def _say(self, phase: str, done: float | None) -> None:
        fit = self.ahead()
        self.status(phase, done, str(fit or ""), fit.seconds if fit else None)

    def _clear(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / CONTROL).unlink(missing_ok=True)
