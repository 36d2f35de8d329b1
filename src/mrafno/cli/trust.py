"""Whether a file was written by this person: a signature with a key that never leaves the home folder.

A run's folder can come from somebody else, and names code that ``mrafno resume`` would execute. What this person's own
commands wrote has a signature that nobody else can make.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrafno.errors import LedgerError
from mrafno.storage.files import make_folder, read_bytes

_BYTES = 32


def key_file() -> Path:
    """``mrafno/key`` in the folder of the person's state, ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "mrafno" / "key"


def signature(record: Mapping[str, Any]) -> str | None:
    """The signature of a JSON object; None where no key can be kept."""
    key = _key()
    if key is None:
        return None
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_signed(record: Mapping[str, Any], found: object) -> bool:
    """Whether a JSON object has this person's signature."""
    expected = signature(record)
    return expected is not None and isinstance(found, str) and hmac.compare_digest(expected.encode(), found.encode())


def _key() -> bytes | None:
    """The key, made at its first use; whoever may read it can sign."""
    try:
        path = key_file()
        if not path.exists():
            make_folder(path.parent)
            temporary = path.with_name(f".key.{secrets.token_hex(8)}")
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
            with contextlib.suppress(FileExistsError):  # another process was faster
                path.hardlink_to(temporary)
            temporary.unlink()
        key = read_bytes(path)
    except (OSError, RuntimeError, LedgerError):  # no home, or none that can be written
        return None
    return key if len(key) == _BYTES else None
