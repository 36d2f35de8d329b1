"""Surrogates as programs of torch.export: for PyTorch without mrafno, also in C++."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mrafno.export.files import check_place, write_file
from mrafno.export.program import GridSurrogate, quiet
from mrafno.grids import Array
from mrafno.surrogate import Surrogate

#: The file inside with what the program is.
ABOUT = "mrafno.json"


def export_torch(
    surrogate: Surrogate, path: Path | str, *, level: int | None = None, about: Mapping[str, Any] | None = None
) -> float:
    """Write a program that maps ``f`` to ``(mean, std)``; see :mod:`mrafno.export.program`.

    It is read back and compared with the surrogate first; the largest relative difference is returned. One that is too
    large is an error, and nothing is written then.

    Args:
        level: whose grid inputs and outputs are on, and whose solver is imitated; None for the finest.
        about: more to say in the file ``mrafno.json`` inside.
    """
    check_place(Path(path))
    network = GridSurrogate(surrogate, level)
    file = io.BytesIO()
    with quiet():
        torch.export.save(network.program(), file, extra_files={ABOUT: json.dumps(network.about(about or {}))})
        file.seek(0)
        loaded = torch.export.load(file).module()

    def run(f: Array) -> list[Array]:
        with torch.no_grad():
            return [value.numpy() for value in loaded(torch.as_tensor(f))]

    difference = network.compare(run, "the program of torch.export")
    write_file(Path(path), file.getvalue())
    return difference
