"""Surrogates as programs of torch.export, for PyTorch without mrafno, also in C++."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mrafno.export.files import check_path, write_file
from mrafno.export.program import GridSurrogate, without_warnings
from mrafno.grids import Array
from mrafno.surrogate import Surrogate

#: The file inside with metadata.
ABOUT = "mrafno.json"


def export_torch(
    surrogate: Surrogate, path: Path | str, *, level: int | None = None, about: Mapping[str, Any] | None = None
) -> float:
    """Write a program that maps ``f`` to ``(mean, std)``; see :mod:`mrafno.export.program`.

    It is first read back and compared with the surrogate; the largest relative difference is returned. If that is too
    large, an ExportError is raised and nothing is written.

    Args:
        level: of the grid of inputs and outputs and of the solver to imitate; None for the finest.
        about: more metadata, in the file ``mrafno.json`` inside.
    """
    check_path(Path(path))
    network = GridSurrogate(surrogate, level)
    file = io.BytesIO()
    with without_warnings():
        torch.export.save(network.program(), file, extra_files={ABOUT: json.dumps(network.about(about or {}))})
        file.seek(0)
        loaded = torch.export.load(file).module()

    def run(f: Array) -> list[Array]:
        with torch.no_grad():
            return [value.numpy() for value in loaded(torch.as_tensor(f))]

    difference = network.compare(run, "the program of torch.export")
    write_file(Path(path), file.getvalue())
    return difference
