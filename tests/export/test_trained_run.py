"""Exports of runs that were really trained, on the default grids of tasks, at any number of inputs.

A thousand inputs of 128x128 or 32x32x32 need no more memory than one: files of such networks take them one by one.
"""

import numpy as np
import onnxruntime
import pytest
import torch

from mrafno import Run, get_task
from mrafno.export import export_onnx, export_torch, open_surrogate

pytestmark = pytest.mark.slow

#: How long the runs train: they are to have learnt something, and the time is better spent on predictions.
SETTINGS = {
    "burgers": {"initial": 10, "iterations": 250},
    "darcy": {"initial": (10, 2), "iterations": 60},
    "diffusion3d": {"initial": (10, 2), "iterations": 60},
}
NUMBERS = (1, 7, 64, 1000)


@pytest.fixture(scope="module", params=list(SETTINGS))
def trained(request, tmp_path_factory):
    """A task and the surrogate of a run on it: three members, and three examples chosen."""
    folder, task = tmp_path_factory.mktemp("trained") / "run", get_task(request.param)
    settings = {"members": 3, "pool": 50, "test": 10, "update_every": 3, **SETTINGS[request.param]}
    with Run.create(folder, task, **settings) as run:
        run.advance(steps=3)
        assert run.state.evaluations[-1].metrics["relative_l2"] < 0.5  # it has learnt something
    return task, open_surrogate(folder)[0]


@pytest.fixture(scope="module", params=[0, 1])
def expected(request, trained):
    """A level, inputs on it, and what the surrogate predicts for them."""
    task, surrogate = trained
    f = task.restrict(task.sample(NUMBERS[-1], seed=77), request.param).astype(np.float32)
    return request.param, f, surrogate.predict(f, request.param, check=False)


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_it_predicts_as_the_surrogate_at_any_number_of_inputs(tmp_path, trained, expected, kind):
    (_, surrogate), (level, inputs, prediction) = trained, expected
    path = tmp_path / "model.pt2"
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

    for n in NUMBERS:
        mean, std = predict(inputs[:n])
        assert len(mean) == len(std) == n
        np.testing.assert_allclose(mean, prediction.mean[:n], atol=2e-6 * np.abs(prediction.mean).max())
        np.testing.assert_allclose(std, prediction.std[:n], rtol=1e-4)
