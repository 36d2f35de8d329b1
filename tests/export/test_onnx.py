"""ONNX models, run by onnxruntime, beside the surrogate's own predictions."""

import importlib.util
import itertools
import json

import numpy as np
import onnx
import onnxruntime
import pytest

from mrafno._version import __version__
from mrafno.errors import ExportError
from mrafno.export import export_onnx
from tests import small_surrogates


@pytest.fixture(scope="module", params=[(1, 1, False), (2, 0, False), (2, 1, True)], ids=["1d", "2d", "one by one"])
def exported(request, tmp_path_factory):
    """An ensemble's model: the surrogate, the level, the file, and the difference that was found."""
    dim, level, one_by_one = request.param
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    about = {"task": "made", "seed": 2}
    with pytest.MonkeyPatch.context() as patch:
        if one_by_one:
            patch.setattr("mrafno.export.program._LARGE", 0)
        difference = export_onnx(small_surrogates.surrogate(dim=dim), path, level=level, about=about)
    operators = {node.op_type for node in onnx.load(path).graph.node}
    assert (operators == {"Scan"}) is one_by_one
    return small_surrogates.surrogate(dim=dim), level, path, difference


def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def check(surrogate, level, path, n):
    """The model against the surrogate, on inputs with which export did not compare."""
    f = small_surrogates.random_inputs(surrogate, level, n)
    mean, std = opened(path).run(["mean", "std"], {"f": f})
    expected = surrogate.predict(f, level)
    assert mean.shape == std.shape == expected.mean.shape
    np.testing.assert_allclose(mean, expected.mean, atol=2e-6 * np.abs(expected.mean).max())
    np.testing.assert_allclose(std, expected.std, rtol=2e-5)


@pytest.mark.parametrize("n", [1, 7])
def test_an_ensemble_predicts_as_the_surrogate(exported, n):
    surrogate, level, path, difference = exported
    assert difference < 2e-6
    check(surrogate, level, path, n)


@pytest.mark.parametrize(
    ("task", "level", "numbers"),
    [
        ("burgers", 1, (1, 7, 64, 1000)),
        pytest.param("darcy", 0, (1, 7, 64), marks=pytest.mark.slow),
        pytest.param("darcy", 1, (1, 7, 64), marks=pytest.mark.slow),
        pytest.param("diffusion3d", 0, (1, 7, 64, 1000), marks=pytest.mark.slow),
        pytest.param("diffusion3d", 1, (1, 7, 64), marks=pytest.mark.slow),
    ],
)
def test_the_default_network_takes_any_number_of_inputs(tmp_path, task, level, numbers):
    """Its layers choose their products by size, which tiny networks do not show."""
    surrogate = small_surrogates.full_size_surrogate(task)
    export_onnx(surrogate, tmp_path / "model.onnx", level=level)
    for n in numbers:
        check(surrogate, level, tmp_path / "model.onnx", n)


@pytest.mark.parametrize(
    ("name", "dim"),
    [
        ("dropout", 1),  # whose masks torch.export sees
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in itertools.product(["point", "dropout", "sgld", "svi"], [1, 2])
            if one != ("dropout", 1)
        ),
    ],
)
def test_other_kinds_of_inference(tmp_path, name, dim):
    export_onnx(small_surrogates.surrogate(name, dim), tmp_path / "model.onnx")
    check(small_surrogates.surrogate(name, dim), 1, tmp_path / "model.onnx", 4)


def test_metadata_of_the_model(exported):
    surrogate, level, path, _ = exported
    grid, session = surrogate.domain.grids[level].shape, opened(path)
    [f], outputs = session.get_inputs(), session.get_outputs()
    assert (f.name, f.shape, f.type) == ("f", ["n", surrogate.domain.in_channels, *grid], "tensor(float)")
    assert [v.name for v in outputs] == ["mean", "std"]
    assert all(v.shape == ["n", surrogate.domain.out_channels, *grid] for v in outputs)
    about = {name.removeprefix("mrafno."): text for name, text in session.get_modelmeta().custom_metadata_map.items()}
    expected = {
        "version": __version__,
        "task": "made",
        "seed": "2",
        "level": str(level),
        "grid": json.dumps(list(grid)),
    }
    assert expected.items() <= about.items()
    assert json.loads(about["coverage"]) == surrogate.coverage
    onnx.checker.check_model(path, full_check=True)


def test_a_model_that_differs_is_not_written(exported, tmp_path, monkeypatch):
    """As if a runtime got the scale of outputs wrong."""
    surrogate, level, path, _ = exported
    model = onnx.load(path)
    scale = next(i for i in model.graph.initializer if i.name.endswith("out_std"))
    scale.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(scale) * np.float32(1.01), scale.name))
    monkeypatch.setattr("mrafno.export.onnx._model", lambda *_: model.SerializeToString())
    old = tmp_path / "model.onnx"
    old.write_bytes(b"an older one")
    with pytest.raises(ExportError, match="the ONNX model differs from the surrogate"):
        export_onnx(surrogate, old, level=level)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("model.onnx", b"an older one")]


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name))
    with pytest.raises(ExportError, match=r"ONNX needs onnxscript, not installed here: pip install onnxscript"):
        export_onnx(small_surrogates.surrogate(), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
