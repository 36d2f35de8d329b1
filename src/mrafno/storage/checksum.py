"""SHA-256 checksums of bytes, of JSON values, and inside a JSON object that carries its own."""

import hashlib
import json
from typing import Any

#: How many hexadecimal digits of its SHA-256 a sealed object carries.
SEAL_DIGITS = 16


def sha256(content: bytes) -> str:
    """The 64 hexadecimal digits of the content's SHA-256."""
    return hashlib.sha256(content).hexdigest()


def json_sha256(values: Any) -> str:
    """SHA-256 of JSON values, whatever the spaces and the order of names in their file."""
    return sha256(json.dumps(values, sort_keys=True).encode())


def seal(content: bytes, name: str, *, separators: tuple[str, str] = (", ", ": ")) -> bytes:
    """Add a last member to a JSON object: the first 16 digits of the SHA-256 of all bytes before them.

    Args:
        content: the object, ``{"a": 1}``.
        name: of the new member; the result is ``{"a": 1, "name": "<16 digits>"}``.
        separators: as for :func:`json.dumps`.
    """
    between, colon = separators
    text = content.removesuffix(b"}") + f'{between}"{name}"{colon}"'.encode()
    return text + sha256(text)[:SEAL_DIGITS].encode() + b'"}'


def seal_is_valid(content: bytes) -> bool:
    """Whether an object ends with the checksum that :func:`seal` computes; its content is not parsed."""
    end = SEAL_DIGITS + len(b'"}')
    return content[-end:] == sha256(content[:-end])[:SEAL_DIGITS].encode() + b'"}'
