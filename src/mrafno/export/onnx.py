"""Surrogates as ONNX models, for runtimes without Python."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrafno.errors import ExportError
from mrafno.export.files import check_path, write_file
from mrafno.export.program import GridSurrogate, without_warnings
from mrafno.grids import Array
from mrafno.surrogate import Surrogate

_OUTPUTS = ("mean", "std")


def export_onnx(
    surrogate: Surrogate, path: Path | str, *, level: int | None = None, about: Mapping[str, Any] | None = None
) -> float:
    """Write a model with input ``f`` and outputs ``mean`` and ``std``; see :mod:`mrafno.export.program`.

    It is first compared with the surrogate, by onnxruntime; the largest relative difference is returned. If that is too
    large, an ExportError is raised and nothing is written.

    Args:
        level: of the grid of inputs and outputs and of the solver to imitate; None for the finest.
        about: more metadata of the model.
    """
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError(
            f"export: ONNX needs {', '.join(missing)}, not installed here: pip install {' '.join(missing)}"
        )
    check_path(Path(path))
    network = GridSurrogate(surrogate, level)
    content = _model(network, network.about(about or {}))
    difference = network.compare(lambda f: run_onnx(content, f), "the ONNX model")
    write_file(Path(path), content)
    return difference


def run_onnx(content: bytes, f: Array) -> list[Array]:
    """Mean and standard deviation of inputs ``(n, in_channels, *grid)``, by onnxruntime."""
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return list(session.run(_OUTPUTS, {"f": f}))


def _model(network: GridSurrogate, about: Mapping[str, str]) -> bytes:
    import torch

    try:
        with without_warnings():
            made = torch.onnx.export(network.program(), dynamo=True, input_names=["f"], verbose=False)
            assert made is not None, "dynamo gives a program"
            model = made.model
            for node in model.graph:
                for value in node.outputs:
                    if value.name in _OUTPUTS:  # torch may have given these names to other values
                        value.name = f"inner_{value.name}"
            for value, name in zip(model.graph.outputs, _OUTPUTS, strict=True):
                value.name = name
            model.metadata_props.update({f"mrafno.{name}": text for name, text in about.items()})
            proto = made.model_proto
            for value in (*proto.graph.input, *proto.graph.output):
                value.type.tensor_type.shape.dim[0].dim_param = "n"
            del proto.graph.value_info[:]  # they have another name for n, and runtimes infer them
            return bytes(proto.SerializeToString())
    except Exception as error:
        raise ExportError(
            f"export: torch {torch.__version__} could not make an ONNX model of the network "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason'}). "
            "Try --torch, or another version of torch and onnxscript."
        ) from error
