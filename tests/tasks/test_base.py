"""What every task has in common: the checks, the costs, and samples that do not depend on their number."""

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.tasks import TASKS, FunctionTask, Task, get_task
from mrafno.tasks.base import power_law_costs

# Small meshes, so that every task answers in milliseconds; the checks are the same on any.
SMALL = {
    "burgers": {"resolutions": (9, 17), "viscosity": 0.05},
    "darcy": {"resolutions": ((4, 4), (8, 8))},
    "darcy3": {"resolutions": ((4, 4), (6, 6), (8, 8))},
    "diffusion": {"resolutions": ((5, 6), (9, 11))},
    "navier-stokes": {"resolutions": ((6, 6), (12, 12)), "frames": 2, "final_time": 1.0},
    "burgers-parameters": {"resolutions": (9, 17), "viscosities": (0.05, 0.5)},
    "diffusion3d": {"resolutions": ((3, 4, 3), (6, 5, 4))},
}


@pytest.fixture(params=SMALL)
def task(request):
    return get_task(request.param, **SMALL[request.param])


@pytest.mark.parametrize("name", TASKS)
def test_the_first_ten_of_a_hundred_are_the_ten(name):
    """On the published meshes, to the last bit; navier-stokes simulates its inputs, so on a small one."""
    task = get_task(name, **(SMALL[name] if name == "navier-stokes" else {}))
    ten, hundred = task.sample(10, seed=3), task.sample(100, seed=3)
    assert hundred.shape == (100, task.in_channels, *task.resolutions[-1])
    assert hundred.dtype == np.float64
    np.testing.assert_array_equal(ten, hundred[:10])
    np.testing.assert_array_equal(task.sample_at([99, 4], seed=3), hundred[[99, 4]])
    assert (task.sample(10, seed=4) != ten).any(axis=tuple(range(1, ten.ndim))).all()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("name", TASKS)
def test_any_number_of_resolutions(name, count):
    sizes = (8, 10, 12, 14, 16)[:count]
    settings = {k: v for k, v in SMALL[name].items() if k != "resolutions"}
    resolutions = [(n,) * len(TASKS[name](**SMALL[name]).layout) for n in sizes]
    task = get_task(name, resolutions=resolutions, **settings)
    assert task.levels == len(task.costs) == count
    assert task.costs[0] == 1.0
    assert list(task.costs) == sorted(set(task.costs))
    f = task.sample(2)
    for level in range(count):
        y = task.solve(task.restrict(f, level), level)
        assert y.shape == (2, task.out_channels, *task.resolutions[level])
        assert y.dtype == np.float64
        assert np.isfinite(y).all()


def test_wrong_shapes_are_refused(task):
    f = task.sample(2)
    for bad in (f[0], f[..., :-1], f[:, :, None], np.float64(1.0), f[:, 0, 0]):
        with pytest.raises(TaskError, match=rf"{task.name}: the input has shape .* level \d takes \(n, "):
            task.solve(bad, task.levels - 1)
    with pytest.raises(TaskError, match=r"Use task\.restrict\(f, 0\)"):
        task.solve(f, 0)
    with pytest.raises(TaskError, match="the input has shape"):
        task.restrict(task.restrict(f, 0), 0)


def test_a_wrong_number_of_channels_is_refused(task):
    f = task.sample(2)
    for bad in (np.concatenate([f, f], axis=1), f[:, :0]):
        for call in (task.solve, task.restrict):
            with pytest.raises(TaskError, match=f"{task.name}: the input has {bad.shape[1]} channels, expected"):
                call(bad, task.levels - 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(task, value):
    f = task.sample(3)
    where = (1, task.in_channels - 1, *(n // 2 for n in task.resolutions[-1]))
    f[where] = value
    for call in (task.solve, task.restrict):
        message = f"{task.name}: the input has 1 values that are NaN or infinite"
        with pytest.raises(TaskError, match=message) as caught:
            call(f, task.levels - 1)
        assert f"the first at index {where}." in str(caught.value)


@pytest.mark.parametrize("level", [-1, 7, 1.0, "fine", None, True])
def test_unknown_levels_are_refused(task, level):
    f = task.sample(1)
    for call in (task.solve, task.restrict):
        with pytest.raises(TaskError, match=f"{task.name}: unknown level .* The levels are 0: "):
            call(f, level)


@pytest.mark.parametrize("bad", ["text", [[1.0], [1.0, 2.0]], [None], 1j, [object()]])
def test_inputs_that_are_not_numbers_are_refused(task, bad):
    with pytest.raises(TaskError, match=r"Give real numbers\."):
        task.solve(bad, 0)


def test_checks_come_before_work(task, monkeypatch):
    monkeypatch.setattr(type(task), "_solve", lambda *_: pytest.fail("solved before it checked"))
    f = task.restrict(task.sample(1), 0)
    for bad in (f[:, :, 1:], f * np.nan, f[:, :0]):
        with pytest.raises(TaskError):
            task.solve(bad, 0)


@pytest.mark.parametrize("n", [-1, 2.5, "10", None, True])
def test_bad_counts_are_refused(task, n):
    with pytest.raises(TaskError, match="cannot draw"):
        task.sample(n)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_bad_seeds_are_refused(task, seed):
    with pytest.raises(TaskError, match="seed must be a whole number"):
        task.sample(1, seed=seed)


@pytest.mark.parametrize("indices", [[-1], [0, 1.5]])
def test_bad_indices_are_refused(task, indices):
    with pytest.raises(TaskError, match="indices must be whole numbers"):
        task.sample_at(indices)


@pytest.mark.parametrize(
    "costs", [(), (1,), (1, 2, 3, 4), (0, 1, 2), (1, -1, 2), (1, np.nan, 2), "ab", (None, 1, 2), 3]
)
def test_bad_costs_are_refused(costs):
    with pytest.raises(TaskError, match="darcy3: costs"):
        get_task("darcy3", costs=costs)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("resolutions", [(), ((8,) * 4, (9,) * 4), "ab", (33, (33, 33)), ((1, 1), (8, 8)), (16, 8)])
def test_bad_resolutions_are_refused(name, resolutions):
    with pytest.raises(TaskError, match=r"resolutions|axes"):
        get_task(name, resolutions=resolutions)


def test_empty_batches_are_fine(task):
    for level in range(task.levels):
        f = task.restrict(task.sample(0), level)
        assert task.solve(f, level).shape == (0, task.out_channels, *task.resolutions[level])


def test_whole_numbers_and_lists_are_inputs_too():
    task = get_task("darcy", **SMALL["darcy"])
    ones = np.ones((1, 1, 4, 4))
    np.testing.assert_array_equal(task.solve(ones.astype(int).tolist(), 0), task.solve(ones, 0))


def test_solving_leaves_the_input_alone(task):
    f = task.restrict(task.sample(2), 0)
    before = f.copy()
    task.solve(f, 0)
    np.testing.assert_array_equal(f, before)


def test_identity_depends_on_all_that_determines_numbers(task):
    same = get_task(task.name, **SMALL[task.name])
    assert task.identity == same.identity
    assert get_task(task.name, costs=range(1, task.levels + 1), **SMALL[task.name]).identity == task.identity
    changed = [
        get_task(task.name, **SMALL[task.name], **{k: np.multiply(2, v).tolist()}).identity
        for k, v in _changeable(task).items()
    ]
    changed.append(get_task(task.name, **{**SMALL[task.name], "resolutions": task.resolutions[1:]}).identity)
    assert len({task.identity, *changed}) == 1 + len(changed)


def test_a_new_solver_revision_is_a_new_identity(task, monkeypatch):
    before = task.identity
    monkeypatch.setattr(type(task), "revision", type(task).revision + 1)
    assert task.identity != before


def _changeable(task):
    return {k: v for k, v in task.configuration.items() if k not in SMALL[task.name]}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (np.zeros((1, 1, 3)), "returned shape"),
        (np.zeros((2, 1, 4)), "returned shape"),
        (np.full((1, 1, 4), np.nan), "NaN or infinite"),
        (np.zeros((1, 1, 4), complex), "real numbers"),
        ([[["a"] * 4]], "real numbers"),
        ([[1], [1, 2]], "real numbers"),
        (None, "returned None: is a `return` missing"),
    ],
)
def test_unusable_outputs_are_refused(output, message):
    task = FunctionTask(lambda f, _: f, np.zeros((1, 4)), (4,), (1,))
    with pytest.raises(SimulationError, match=message):
        task.checked_output(output, 0, 1)


HOLE = np.ma.masked_equal([1.0, -9999.0, 3.0, -9999.0, 5.0], -9999.0)


@pytest.mark.parametrize("output", [HOLE, [HOLE], (HOLE,)], ids=["array", "list", "tuple"])
def test_masked_outputs_are_refused_like_nan(output):
    task = FunctionTask(lambda f, level: output, np.zeros((2, 5)), (5,), (1,))
    message = r"returned 2 values that are masked, the first at index \((0, )?1,?\)\. Give numbers"
    with pytest.raises(SimulationError, match=message):
        task.solve(task.sample(1), 0)
    batched = FunctionTask(
        lambda f, level: np.ma.stack([HOLE[None]] * len(f)), np.zeros((2, 5)), (5,), (1,), batched=True
    )
    with pytest.raises(SimulationError, match=r"returned 4 values that are masked, the first at index \(0, 0, 1\)"):
        batched.solve(batched.sample(2), 0)
    with pytest.raises(SimulationError, match="masked"):
        task.checked_output(np.ma.stack([HOLE[None]]), 0, 1)


def test_an_array_with_an_empty_mask_is_accepted():
    task = FunctionTask(lambda f, level: np.ma.array(2 * f), np.ma.ones((2, 5)), (5,), (1,))
    y = task.solve(np.ma.array(task.sample(1)), 0)
    np.testing.assert_array_equal(y, 2 * np.ones((1, 1, 5)))
    assert type(y) is np.ndarray


def test_masked_inputs_are_refused():
    with pytest.raises(TaskError, match=r"array of inputs has 2 values that are masked, the first at index \(0, 1\)"):
        FunctionTask(lambda f, level: f, HOLE[None], (5,), (1,))
    task = FunctionTask(lambda f, level: f, np.zeros((2, 5)), (5,), (1,))
    with pytest.raises(TaskError, match=r"the input has 2 values that are masked"):
        task.solve(HOLE[None, None], 0)


def test_costs_follow_a_power_of_the_mesh():
    assert power_law_costs(((8, 8), (16, 16), (32, 32)), 2.0) == pytest.approx((1.0, 4.0, 16.0))


def test_the_repr_names_the_task_and_its_meshes():
    assert repr(get_task("darcy3")) == "<Darcy darcy3: 32x32, 64x64, 128x128>"


def test_a_task_without_name_or_layout_says_what_to_set():
    class Bare(Task):
        configuration = None

        def _sample(self, indices, seed):
            raise NotImplementedError

        def _solve(self, f, level):
            raise NotImplementedError

    with pytest.raises(TaskError, match=r"Bare: it has no name and no layout. Set name, a text, and layout, .*nodes"):
        Bare((5, 9), (1, 4))
    Bare.name = "bare"
    with pytest.raises(TaskError, match="Bare: it has no layout"):
        Bare((5, 9), (1, 4))
