"""Surrogates as ONNX models, for runtimes without Python."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

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
            proto = _looped(_graph(network, inner=True)) if network.one_by_one else _graph(network)
            for name, text in about.items():
                proto.metadata_props.add(key=f"mrafno.{name}", value=text)
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


def _graph(network: GridSurrogate, *, inner: bool = False) -> Any:
    """The model of any number of inputs; an inner one is of one input, and its names begin with ``inner_``."""
    import torch

    prefix = "inner_" if inner else ""
    program = network.program_of_one() if inner else network.program()
    made = torch.onnx.export(program, dynamo=True, input_names=[f"{prefix}f"], verbose=False)
    assert made is not None, "dynamo gives a program"
    names = [prefix + name for name in _OUTPUTS]
    for node in made.model.graph:
        for value in node.outputs:
            if value.name in (*names, *_OUTPUTS):  # torch may have given these names to other values
                value.name = f"torch_{value.name}"
    for value, name in zip(made.model.graph.outputs, names, strict=True):
        value.name = name
    return made.model_proto


def _looped(proto: Any) -> Any:
    """A model of one input as the body of a Scan over any number of inputs; weights stay outside of it."""
    from onnx import helper, numpy_helper

    one = proto.graph
    [f], outputs = one.input, list(one.output)

    def described(name: str, like: Any, first: list[str]) -> Any:
        shape = [size.dim_value for size in like.type.tensor_type.shape.dim[1:]]
        return helper.make_tensor_value_info(name, like.type.tensor_type.elem_type, [*first, *shape])

    nodes = [helper.make_node("Unsqueeze", ["one_f", "first_axis"], [f.name]), *one.node]
    nodes += [helper.make_node("Squeeze", [v.name, "first_axis"], [f"one_{v.name}"]) for v in outputs]
    body = helper.make_graph(
        nodes, "one", [described("one_f", f, [])], [described(f"one_{v.name}", v, []) for v in outputs]
    )
    axis = numpy_helper.from_array(np.zeros(1, np.int64), "first_axis")
    graph = helper.make_graph(
        [helper.make_node("Scan", ["f"], list(_OUTPUTS), body=body, num_scan_inputs=1)],
        one.name,
        [described("f", f, ["n"])],
        [described(name, v, ["n"]) for name, v in zip(_OUTPUTS, outputs, strict=True)],
        [*one.initializer, axis],
    )
    proto.graph.CopyFrom(graph)
    return proto
