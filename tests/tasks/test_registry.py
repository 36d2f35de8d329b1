"""The built-in tasks by name."""

import pytest

from mrafno.errors import TaskError
from mrafno.tasks import TASKS, get_task


def test_the_table_has_the_problems():
    assert list(TASKS) == [
        *("burgers", "darcy", "darcy3", "diffusion", "navier-stokes", "burgers-parameters", "diffusion3d")
    ]


@pytest.mark.parametrize("name", TASKS)
def test_the_published_meshes_and_costs(name):
    published = {
        "burgers": (((33,), (129,)), (1.0, 41.2)),
        "darcy": (((32, 32), (128, 128)), (1.0, 38.3)),
        "darcy3": (((32, 32), (64, 64), (128, 128)), (1.0, 21.3, 38.3)),
        "diffusion": (((32, 32), (128, 128)), (1.0, 17.6)),
        "navier-stokes": (((16, 16), (64, 64)), (1.0, 7.0)),
        "burgers-parameters": (((33,), (129,)), (1.0, 41.2)),
        "diffusion3d": (((8, 8, 8), (32, 32, 32)), (1.0, 256.0)),
    }
    task = get_task(name)
    assert task.resolutions == published[name][0]
    assert task.costs == pytest.approx(published[name][1])
    assert task.name == name


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(TaskError) as caught:
        get_task("heat")
    assert str(caught.value) == (
        "unknown task 'heat'. The known ones are burgers, darcy, darcy3, diffusion, navier-stokes, "
        "burgers-parameters, diffusion3d."
    )
