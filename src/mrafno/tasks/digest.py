"""Digests of inputs: whether two arrays of them are the same, and if not, what differs."""

import hashlib
import zlib
from dataclasses import dataclass

import numpy as np

from mrafno.errors import TaskError
from mrafno.grids import Array
from mrafno.tasks.rows import Rows, blocks


@dataclass(frozen=True)
class InputDigest:
    """What identifies inputs.

    Attributes:
        sha256: of all numbers as float64, in order.
        checksums: a number for each input, ``(n,)``; different for different inputs but for one chance in 2^32.
    """

    sha256: str
    checksums: Array


def digest_inputs(rows: Rows, name: str) -> InputDigest:
    """Digest of inputs, which are read once, block by block; :class:`TaskError` if any is NaN or infinite."""
    total = hashlib.sha256()
    checksums = np.empty(len(rows))
    for part, values in blocks(rows):
        flat = np.ascontiguousarray(values).reshape(len(values), -1)
        bad = np.flatnonzero(~np.isfinite(flat).all(axis=1))
        if len(bad):
            raise TaskError(
                f"{name}: {len(bad)} of the inputs {part.start} to {part.stop - 1} have values that are NaN or "
                f"infinite, the first is input {part.start + int(bad[0])}. Correct or remove them."
            )
        total.update(flat.data)
        checksums[part] = [zlib.crc32(row.data) for row in flat]
    return InputDigest(total.hexdigest(), checksums)


def describe_change(before: Array, now: Array) -> str:
    """How inputs differ, from the checksums ``(n,)`` of each, which are not equal."""
    common = min(len(before), len(now))
    counts = f"{len(now)} inputs instead of {len(before)}"
    if len(before) == len(now) and np.array_equal(np.sort(before), np.sort(now)):
        first = int(np.flatnonzero(before != now)[0])
        return f"the same {len(now)} inputs in another order, from input {first} on"
    if len(before) != len(now) and np.array_equal(before[:common], now[:common]):
        where = "the last ones are missing" if len(now) < len(before) else "the others are new"
        hint = ". run.add_candidates(array) adds candidates to a run" if len(now) > len(before) else ""
        return f"{counts}: the first {common} are the same, {where}{hint}"
    kept = int(np.isin(before, now).sum())
    if len(before) != len(now):
        return f"{counts}, of which {kept} are the same"
    different = np.flatnonzero(before != now)
    return f"{len(different)} of {len(now)} inputs have other numbers, the first is input {int(different[0])}"
