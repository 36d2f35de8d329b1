"""A person's own simulator: a function, or a real executable that may do anything."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import relative_l2
from mrafno.tasks import CommandTask, FunctionTask


def square(f, level):
    return f**2 + level


class Stubborn:
    """Like a tensor that has a gradient."""

    def __array__(self, *_, **__):
        raise RuntimeError("detach it first")


@pytest.fixture
def inputs():
    return np.random.default_rng(0).standard_normal((6, 17))


def test_a_function_on_an_interval(inputs):
    task = FunctionTask(square, inputs, (9, 17), (1, 4))
    f = task.sample(4, seed=2)
    assert f.shape == (4, 1, 17)
    np.testing.assert_array_equal(task.solve(f, 1), f**2 + 1)
    np.testing.assert_array_equal(task.solve(task.restrict(f, 0), 0), f[..., ::2] ** 2)


def test_a_function_of_several_channels_on_a_grid_that_is_not_square():
    candidates = np.random.default_rng(1).standard_normal((5, 2, 16, 24))
    task = FunctionTask(
        lambda f, _: np.stack([f[0] + f[1], f[0] * f[1], f[1]]), candidates, ((8, 12), (16, 24)), (1, 4),
        out_channels=3, layout="cells", interpolation="nearest",
    )  # fmt: skip
    f = task.sample(5)
    y = task.solve(f, 1)
    assert y.shape == (5, 3, 16, 24)
    np.testing.assert_array_equal(y[:, 1], f[:, 0] * f[:, 1])
    assert task.solve(task.restrict(f, 0), 0).shape == (5, 3, 8, 12)
    assert task.domain.in_channels == 2


def test_a_batched_function_gets_the_whole_batch(inputs):
    seen = []
    task = FunctionTask(lambda f, _: seen.append(f.shape) or f, inputs, (17,), (1,), batched=True)
    task.solve(task.sample(6), 0)
    assert seen == [(6, 1, 17)]


def test_the_channel_axis_may_be_left_out(inputs):
    whole = FunctionTask(square, inputs[:, None], (17,), (1,))
    short = FunctionTask(lambda f, level: square(f, level)[0], inputs, (17,), (1,))
    np.testing.assert_array_equal(short.solve(short.sample(3), 0), whole.solve(whole.sample(3), 0))


def test_candidates_are_drawn_without_repetition(inputs):
    task = FunctionTask(square, inputs, (17,), (1,))
    drawn = task.sample(6, seed=1)[:, 0]
    assert {row.tobytes() for row in drawn} == {row.tobytes() for row in inputs}
    np.testing.assert_array_equal(task.sample(2, seed=1)[:, 0], drawn[:2])
    assert (task.sample(6, seed=2)[:, 0] != drawn).any()
    with pytest.raises(TaskError, match="7 inputs asked for, but only 6 candidates"):
        task.sample(7)


def test_a_function_may_work_in_place_and_reuse_its_buffer(inputs):
    buffer = np.empty((1, 17))

    def careless(f, _):
        f *= 2
        buffer[:] = f
        return buffer

    task = FunctionTask(careless, inputs, (17,), (1,))
    f = task.sample(3)
    before = f.copy()
    np.testing.assert_array_equal(task.solve(f, 0), 2 * before)
    np.testing.assert_array_equal(f, before)


def test_layout_and_boundary_reach_the_domain(inputs):
    task = FunctionTask(square, inputs, (17,), (1,), layout="periodic", zero_boundary=[(True, False)])
    assert task.grids[0].layout == ("periodic",)
    assert task.domain.zero_boundary == ((True, False),)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda f, _: f[..., 1:], r"returned shape \(1, 16\), expected \(1, 17\)"),
        (lambda f, _: np.concatenate([f, f]), r"returned shape \(2, 17\), expected \(1, 17\).*say out_channels=2"),
        (lambda f, _: f if f[0, 0] > 0 else f[:, :3], r"returned shape \(1, 3\)"),
        (lambda f, _: f * np.nan, "NaN or infinite"),
        (
            lambda f, _: f + 1j,
            r"complex128\. Return an array of real numbers of shape \(1, 17\) \(out_channels, grid\)",
        ),
        (lambda f, _: None, "on level 0 returned None: is a `return` missing"),
        (lambda f, _: "done", r"returned a str\. Return an array"),
        (
            lambda f, _: Stubborn(),
            r"returned a Stubborn of which NumPy makes no array \(RuntimeError .*: detach it first\)",
        ),
        (lambda f, _: [[1.0], [1.0, 2.0]], r"returned a list whose rows differ in length\. Return an array"),
        (
            lambda f, _: 1 / 0,
            r"given shape \(1, 17\) on level 0, raised ZeroDivisionError \(test_function.py:\d+\): division by zero",
        ),
    ],
)
def test_a_function_that_fails_is_reported(inputs, function, message):
    task = FunctionTask(function, inputs, (17,), (1,), name="mine")
    with pytest.raises(SimulationError, match=f"mine: .*{message}"):
        task.solve(inputs[:, None], 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solve": "text"}, "must be a function"),
        ({"inputs": np.zeros((3, 1, 16))}, r"inputs of shape \(3, 1, 16\) do not match the finest resolution \(17,\)"),
        (
            {"inputs": np.zeros((3, 18))},
            r"\(3, 18\) do not match the finest resolution .* or correct the resolutions\.",
        ),
        ({"in_channels": 2}, r"inputs of shape \(6, 17\) have 1 channels, in_channels=2"),
        ({"inputs": np.zeros((0, 17))}, "n at least 1"),
        ({"inputs": np.zeros(17)}, "do not match"),
        ({"inputs": np.full((3, 17), np.nan)}, "NaN"),
        ({"inputs": [[1.0], [1.0, 2.0]]}, "rows differ in length"),
        ({"inputs": "text"}, "dtype"),
        ({"costs": (1,)}, "costs"),
        ({"resolutions": ((4, 4, 4), (5, 5, 5))}, "not supported"),
        ({"out_channels": 0}, "out_channels"),
        ({"layout": "hexagons"}, "unknown layout"),
        ({"layout": ("nodes", "nodes")}, "axes"),
        ({"interpolation": "cubic"}, "unknown interpolation 'cubic'. Choose one of linear, nearest"),
        ({"zero_boundary": ((True, True),) * 2}, "one .* pair per axis"),
    ],
)
def test_bad_settings_are_refused(inputs, change, message):
    settings = {"solve": square, "inputs": inputs, "resolutions": (9, 17), "costs": (1, 2), **change}
    with pytest.raises(TaskError, match=message):
        FunctionTask(**settings)


def test_a_square_is_not_taken_for_channels():
    """Neither reading of (n, N, N) is taken before somebody says which one is meant."""
    candidates = np.random.default_rng(0).standard_normal((4, 17, 17))
    with pytest.raises(TaskError) as refused:
        FunctionTask(square, candidates, (9, 17), (1, 4), name="plate")
    assert str(refused.value) == (
        "plate: inputs of shape (4, 17, 17) may be 17 channels on an interval of 17 points, or one on a square. For a "
        "square write resolutions=((9, 9), (17, 17)), for channels in_channels=17."
    )
    on_square = FunctionTask(square, candidates, ((9, 9), (17, 17)), (1, 4))
    assert (on_square.in_channels, on_square.inputs.shape) == (1, (4, 1, 17, 17))
    channels = FunctionTask(square, candidates, (9, 17), (1, 4), in_channels=17, out_channels=17)
    assert (channels.in_channels, channels.solve(candidates, 1).shape) == (17, (4, 17, 17))


def test_identity_needs_a_version(inputs):
    assert FunctionTask(square, inputs, (17,), (1,)).identity is None
    one, two = (FunctionTask(square, inputs, (17,), (1,), version=v).identity for v in "12")
    other = FunctionTask(square, inputs + 1, (17,), (1,), version="1").identity
    assert len({one, two, other, None}) == 4


# Executables. Each is a script with ``source, target = sys.argv[1:3]`` already done.

PLAIN = "import os, sys, time, signal, subprocess\nsource, target = sys.argv[1:3]\n"  # starts in no time
HEAD = "import numpy as np\n" + PLAIN


@pytest.fixture
def command(tmp_path, inputs):
    def make(body, arguments=("{input}", "{output}"), head=HEAD, **settings):
        script = tmp_path / "simulator with a space.py"
        script.write_text(head + body)
        words = [sys.executable, str(script), *arguments]
        return CommandTask(words, inputs, (9, 17), (1, 4), name="program", **settings)

    return make


def fails(task, message):
    start = time.monotonic()
    with pytest.raises(SimulationError, match=message):
        task.solve(task.sample(1), 1)
    assert time.monotonic() - start < 20


def test_an_executable_works(command):
    task = command("np.save(target, 2 * np.load(source))")
    f = task.sample(2)
    np.testing.assert_array_equal(task.solve(f, 1), 2 * f)


def test_an_executable_is_told_level_and_resolution(command):
    body = "f = np.load(source)\nassert sys.argv[4] == '17'\nnp.save(target, f[0] + int(sys.argv[3]))"
    task = command(body, ("{input}", "{output}", "{level}", "{resolution}"))
    f = task.sample(1)
    np.testing.assert_array_equal(task.solve(f, 1), f + 1)


def test_a_command_line_may_be_one_text(inputs, tmp_path):
    script = tmp_path / "simulator.py"
    script.write_text(HEAD + "np.save(target, -np.load(source))")
    task = CommandTask(f"'{sys.executable}' {script} {{input}} {{output}}", inputs, (17,), (1,))
    assert relative_l2(task.solve(task.sample(1), 0), -task.sample(1)).max() == 0


def test_an_exit_code_is_reported_with_what_was_said(command):
    fails(command("print('mesh is tangled'); sys.exit(3)"), "program: .* exit code 3. It said: mesh is tangled")
    fails(command("sys.exit(1)"), "exit code 1. It said: nothing")


def test_much_output_is_cut(command):
    fails(command("print('x' * 10**6)\nprint('last words')\nsys.exit(2)"), r"It said: x+ \| last words$")


def test_no_output_file_is_reported(command):
    fails(command(""), "ended well but wrote no output file")


@pytest.mark.parametrize(
    "body",
    [
        "open(target, 'w').write('0.1 0.2')",
        "open(target, 'wb').close()",
        "np.save(target, np.load(source)); os.truncate(target, 150)",
        "os.mkdir(target)",
    ],
)
def test_an_output_that_is_no_array_is_reported(command, body):
    fails(command(body), "is not a .npy array")


def test_a_pickle_is_not_loaded(command, tmp_path):
    """Unpickling would run it."""
    body = (
        "import pickle\nclass Bad:\n    def __reduce__(self):\n"
        f"        return (open, ({str(tmp_path / 'pwned')!r}, 'w'))\n"
    )
    fails(command(body + "pickle.dump(Bad(), open(target, 'wb'))"), "is not a .npy array")
    fails(command(body + "np.save(target, np.array([Bad()]), allow_pickle=True)"), "is not a .npy array")
    assert not (tmp_path / "pwned").exists()


def test_a_wrong_shape_and_nan_are_reported(command):
    fails(command("np.save(target, np.zeros(5))"), r"returned shape \(5,\), expected \(1, 17\)")
    fails(command("np.save(target, np.full(17, np.nan))"), "NaN or infinite")


def test_a_signal_is_reported(command):
    fails(command("os.kill(os.getpid(), signal.SIGSEGV)"), r"was ended by a signal \(Segmentation fault\)")


def test_a_program_that_does_not_exist_is_reported(inputs):
    task = CommandTask(["no-such-program", "{input}", "{output}"], inputs, (9, 17), (1, 4))
    fails(task, "cannot start no-such-program: No such file")


CHILD = "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"


def alive(pid):
    try:
        # A process that has ended but that nobody has waited for is not running.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid):
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_hanging_program_is_ended_with_its_children(command, tmp_path):
    note = tmp_path / "pids"
    body = f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(600)"
    fails(command(CHILD + body, head=PLAIN, timeout=2.0), "took longer than 2 s and was ended. Raise timeout")
    pids = [int(pid) for pid in note.read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_child_left_behind_does_not_hold_up_the_result(command, tmp_path):
    """The child keeps its parent's output open; the result is there all the same, and the child is ended."""
    note = tmp_path / "pid"
    task = command(CHILD + f"open({str(note)!r}, 'w').write(str(child.pid))\nnp.save(target, np.load(source))")
    start = time.monotonic()
    task.solve(task.sample(1), 1)
    assert time.monotonic() - start < 20
    assert gone(int(note.read_text()))


def test_an_interrupt_ends_the_program(command, tmp_path, monkeypatch):
    note = tmp_path / "pid"
    task = command(f"open({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)", head=PLAIN)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            task.solve(task.sample(1), 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize("words", [["run", "{input}"], ["run", "{output}"], "run"])
def test_a_command_must_name_both_files(inputs, words):
    with pytest.raises(TaskError, match="does not name"):
        CommandTask(words, inputs, (17,), (1,))


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_bad_timeouts_are_refused(command, timeout):
    with pytest.raises(TaskError, match="timeout"):
        command("", timeout=timeout)


def test_the_command_is_part_of_the_identity(command):
    assert command("").identity is None
    assert command("", version="1").identity != command("", ("{input}", "{output}", "-v"), version="1").identity
