"""Exports of a run that was really trained, with the settings of the demo, at any number of inputs."""

import numpy as np
import onnxruntime
import pytest
import torch

from mrafno import Run, get_task
from mrafno.export import export_onnx, export_torch, open_surrogate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def surrogate(tmp_path_factory):
    """Of a run on burgers: three members, ten initial examples of each mesh and three chosen ones."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    settings = {"initial": 10, "members": 3, "pool": 50, "test": 20, "update_every": 3, "iterations": 250}
    with Run.create(folder, get_task("burgers"), **settings) as run:
        run.advance(steps=3)
        assert run.state.evaluations[-1].metrics["relative_l2"] < 0.5  # it has learnt something
    return open_surrogate(folder)[0]


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("level", [0, 1])
def test_it_predicts_as_the_surrogate_at_any_number_of_inputs(tmp_path, surrogate, kind, level):
    path = tmp_path / "model"
    if kind == "onnx":
        export_onnx(surrogate, path, level=level)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

        def predict(f):
            return session.run(["mean", "std"], {"f": f})
    else:
        export_torch(surrogate, path, level=level)
        program = torch.export.load(path).module()

        def predict(f):
            with torch.no_grad():
                return [value.numpy() for value in program(torch.as_tensor(f))]

    task = get_task("burgers")
    for n in (1, 7, 64, 1000):
        f = task.restrict(task.sample(n, seed=77), level).astype(np.float32)
        mean, std = predict(f)
        expected = surrogate.predict(f, level)
        np.testing.assert_allclose(mean, expected.mean, atol=2e-6 * np.abs(expected.mean).max())
        np.testing.assert_allclose(std, expected.std, rtol=1e-4)
