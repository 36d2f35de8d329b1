"""What goes wrong where simulations run, and does not make them fail: versions that differ, disks that are nearly full.

A worker returns its notices with its observation, so that the driver hears of them: what a worker prints is often read
by nobody.
"""

import platform
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mrafno._version import __version__

#: Free bytes of a disk below which it is nearly full.
LITTLE = 2**29


class Notice(NamedTuple):
    """Something that a person should hear of once.

    Attributes:
        key: what it is about; a second notice with the same key says nothing new.
        text: in sentences.
    """

    key: str
    text: str


def versions() -> dict[str, str]:
    """Versions that outputs depend on, of this process."""
    return {"mrafno": __version__, "Python": platform.python_version(), "NumPy": np.__version__}


def different_versions(driver: Mapping[str, str]) -> list[Notice]:
    """A notice if this process has other versions than the driver."""
    here = versions()
    different = [
        f"{name} {here.get(name, 'missing')} where the driver has {version}"
        for name, version in driver.items()
        if here.get(name) != version
    ]
    if not different:
        return []
    host = socket.gethostname()
    text = f"a worker on {host} has {' and '.join(different)}. Install the same versions for workers and driver."
    return [Notice(f"versions of {host}", text)]


def nearly_full(folder: Path) -> list[Notice]:
    """A notice if the disk of a folder is nearly full."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return []
    if free >= LITTLE:
        return []
    host = socket.gethostname()
    text = f"the disk of {folder} on {host} is nearly full: {free / 2**20:.0f} MiB are free. Free some space."
    return [Notice(f"disk of {folder} on {host}", text)]
