"""Simulations that a driver runs in its own process: their names are on the disk while they run.

A simulation can take its process with it, by a crash or by an exit that nothing stops. Whoever resumes the run finds
the names, so that the same simulation does not end one driver after another: it is tried again in a child process, and
if it ends that too, or cannot be sent there and ends a second driver, it has failed.
"""

import json

from mrafno.errors import LedgerError, TaskError
from mrafno.run.answers import OPEN
from mrafno.run.session import Session
from mrafno.simulation.packing import pack_task
from mrafno.storage.files import read_bytes, write_json
from mrafno.storage.layout import ATTEMPT

#: Drivers that one simulation may end before it has failed.
_DEADLY = 2


class Attempts:
    """The simulations that this process runs now, in a small file in the run's folder.

    The file outlives the process and not a crash of the machine, which is no fault of a simulation.

    Args:
        exposed: whether simulations run in this process at all; otherwise nothing is written.
    """

    def __init__(self, session: Session, *, exposed: bool) -> None:
        self.session, self.recorder, self.exposed = session, session.recorder, exposed
        self._path = self.recorder.ledger.folder / ATTEMPT
        self._running: list[str] = []

    def begin(self, *ids: str) -> None:
        """Write down that these begin, before they do."""
        if self.exposed:
            self._write([*self._running, *ids])

    def end(self, *ids: str) -> None:
        """Write down that these have ended, whatever came of them."""
        if not set(ids).isdisjoint(self._running):
            self._write([id for id in self._running if id not in ids])

    def clear(self) -> None:
        """Write down that nothing runs any more."""
        self._write([])

    def _write(self, ids: list[str]) -> None:
        try:
            if ids:
                write_json(self._path, ids, durable=False)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(
                f"{self._path} could not be written ({error}); what was recorded is safe. Free some space, then open "
                "the run again."
            ) from error
        self._running = ids

    # Simulations that the last driver did not survive.

    def count_losses(self) -> list[str]:
        """Record them; returns the reasons of those that have failed by it."""
        failed = []
        task, state = self.session.task, self.recorder.state
        left = self._left()
        self.clear()  # first: if this driver dies, the next one must not count the same loss again
        for id in left:
            query = state.queries.get(id)
            if query is None or query.status not in OPEN:
                continue
            self.recorder.record("lost", id=id)
            what = f"the process that drove this run ended while it simulated {id}: it crashed, exited or was killed"
            if query.status == "running" and state.lost[id] >= _DEADLY:
                failed.append(
                    f"{task.name}: the simulation on level {query.level} ended the process that drove the run "
                    f"{state.lost[id]} times, by a crash or an exit. With isolate=True (--isolate) such a simulation "
                    "fails alone."
                )
                self.session.fail(id, failed[-1])
            elif self._can_isolate():
                self.recorder.warn(f"loss of {id}", f"{what}. It is simulated again in a child process.")
            else:
                self.recorder.warn(
                    f"loss of {id}",
                    f"{what}. It is simulated again, in this process too, because the task cannot be sent to another: "
                    "define its function at the top level of a module.",
                )
        return failed

    def _left(self) -> list[str]:
        """What the file says; one that means nothing says nothing."""
        try:
            found = json.loads(read_bytes(self._path))
        except (LedgerError, ValueError, RecursionError):
            return []
        return [id for id in found if isinstance(id, str)] if isinstance(found, list) else []

    def needs_isolation(self, id: str) -> bool:
        """Whether a query has ended a driver, and can be simulated in a child process."""
        return id in self.recorder.state.lost and self._can_isolate()

    @property
    def deadly(self) -> bool:
        """Whether a simulation of this run is known to end its process, and others can be kept from it."""
        state = self.recorder.state
        known = any(state.queries[id].status == "failed" for id in state.lost)
        return self.exposed and known and self._can_isolate()

    def _can_isolate(self) -> bool:
        try:
            pack_task(self.session.task)
        except TaskError:
            return False
        return True
