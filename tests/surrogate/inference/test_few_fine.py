"""With no, one or two examples of the finest mesh, predictions there are never worse than those of the mesh below."""

import numpy as np
import pytest

from mrafno.data.dataset import Dataset
from mrafno.grids import relative_l2
from mrafno.surrogate.inference.ensemble import Ensemble
from mrafno.tasks import FunctionTask, get_task
from tests.runs import fields

COARSE, TEST = 8, 40


def upwind(f, level):
    """Advection by upwind differences, whose numerical diffusion is four times as large on the coarse mesh."""
    u, steps = f[0].copy(), round(0.75 * (f.shape[-1] - 1))
    for _ in range(steps):
        u[1:] -= 0.32 * (u[1:] - u[:-1])
    return u


TASKS = {
    "burgers": lambda: get_task("burgers"),
    "darcy": lambda: get_task("darcy", resolutions=((12, 12), (24, 24))),
    "diffusion": lambda: get_task("diffusion", resolutions=((12, 12), (24, 24))),
    "function": lambda: FunctionTask(upwind, fields(100, 65), (17, 65), (1, 8), name="upwind"),
}


@pytest.fixture(scope="module", params=TASKS)
def problem(request):
    """A task, examples of both meshes of the same inputs, and test examples."""
    task = TASKS[request.param]()
    f = task.sample(COARSE + TEST, seed=5)
    coarse = task.restrict(f[:COARSE], 0)
    examples = [(coarse, task.solve(coarse, 0)), (f[:2], task.solve(f[:2], 1))]
    return task, examples, f[COARSE:], task.solve(f[COARSE:], 1)


def fitted(task, examples, fine, members=5):
    data = Dataset.of(task.domain, [examples[0], tuple(part[:fine] for part in examples[1]) if fine else None])
    surrogate = Ensemble(task.domain, seed=0, members=members)
    surrogate.fit(data)
    return surrogate


def predicted(surrogate, task, f, level):
    return surrogate.predict(f, level, grid=task.grids[-1]).samples


@pytest.mark.slow
@pytest.mark.parametrize("fine", [0, 1])
def test_without_two_examples_it_is_predicted_as_the_mesh_below(problem, fine):
    task, examples, f, _ = problem
    surrogate = fitted(task, examples, fine)
    np.testing.assert_array_equal(predicted(surrogate, task, f, 1), predicted(surrogate, task, f, 0))


@pytest.mark.slow
def test_two_examples_on_both_meshes_make_it_better(problem):
    task, examples, f, y = problem
    surrogate = fitted(task, examples, 2)
    below, own = (float(relative_l2(predicted(surrogate, task, f, level).mean(0), y).mean()) for level in range(2))
    assert own <= below


def test_one_example_is_learnt_from():
    """As an example of the mesh below: at its own input, where nothing else is known, the prediction follows it."""
    task = FunctionTask(upwind, fields(20, 65), (17, 65), (1, 8), name="upwind")
    f = task.sample(4, seed=1)
    coarse = task.restrict(f[:3], 0)
    examples = [(coarse, task.solve(coarse, 0)), (f[3:], task.solve(f[3:], 1))]
    errors = [
        relative_l2(predicted(fitted(task, examples, fine, members=1), task, f[3:], 1).mean(0), examples[1][1]).mean()
        for fine in (0, 1)
    ]
    assert errors[1] < 0.5 * errors[0]
