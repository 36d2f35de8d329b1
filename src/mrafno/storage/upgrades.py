"""Events of earlier versions of the ledger's format, in the present one."""

from collections.abc import Callable

from mrafno._version import __version__
from mrafno.errors import LedgerError
from mrafno.storage.events import Event

#: What the first event says that a ledger is.
FORMAT = "mrafno run"
#: For each older version a function that turns one of its events into one of the next version.
UPGRADES: dict[int, Callable[[Event], Event]] = {}


def upgraded(event: Event, version: int, newest: int, where: str) -> Event:
    """An event in the newest version; raises :class:`LedgerError` if it is of no ledger, or of an unknown version.

    Args:
        version: that the event was written in.
        where: the file and the line, for messages.
    """
    if event.number == 0 and (event.kind != "created" or event.data.get("format") != FORMAT):
        raise LedgerError(f"{where} is no ledger of mrafno. Give the folder of a run.")
    if version > newest:
        writer = f"mrafno {event.data['mrafno']}" if "mrafno" in event.data else "a newer mrafno"
        raise LedgerError(
            f"{where} was written by {writer} in format {version}. This is mrafno {__version__}, which reads formats "
            f"up to {newest}: upgrade it."
        )
    while version < newest:
        if version not in UPGRADES:
            raise LedgerError(
                f"{where} is in format {version}, which mrafno {__version__} does not read. Use the mrafno that wrote "
                "it."
            )
        event = UPGRADES[version](event)
        version += 1
    return event
