"""Whether a folder is free for a new run."""

import os
import shlex
from pathlib import Path

from mrafno.errors import LedgerError
from mrafno.storage.layout import LEDGER, LOCK


def check_new(folder: Path | str) -> None:
    """Raise :class:`LedgerError` unless there is nothing in a folder that a new run could disturb."""
    place = Path(os.path.abspath(folder))  # noqa: PTH100
    if os.path.lexists(place / LEDGER):
        raise LedgerError(
            f"run {place} exists already. Go on with it (mrafno resume {shlex.quote(str(place))}, or "
            "Run.open from Python), or choose another folder."
        )
    found = [path.name for path in place.iterdir()] if place.is_dir() else []
    # A creation that was killed leaves its lock, and perhaps a hidden file.
    if others := sorted(name for name in found if not name.startswith((".", LOCK))):
        raise LedgerError(
            f"run {place}: the folder holds other files ({others[0]}{', ...' if others[1:] else ''}) and no "
            "run. Choose a new folder, or an empty one."
        )
