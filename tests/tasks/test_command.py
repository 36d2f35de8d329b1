"""A real executable as a task: whatever it does, the error says what happened."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import relative_l2
from mrafno.tasks import CommandTask


@pytest.fixture
def inputs():
    return np.random.default_rng(0).standard_normal((6, 17))


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


def test_an_exit_code_is_reported_with_the_last_output(command):
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


def test_an_executable_is_given_parameters_as_a_file_and_by_name(command):
    body = (
        "p = np.load(sys.argv[3])\nassert p.tolist() == [float(sys.argv[4]), float(sys.argv[5])]\n"
        "np.save(target, p[0] * np.load(source) + p[1])"
    )
    values = {"nu": 1 / np.arange(3.0, 9.0), "shift": np.arange(6)}
    task = command(body, ("{input}", "{output}", "{parameters}", "{nu}", "{shift}"), parameters=values)
    f = task.sample(2)
    functions, numbers = task.split(f)
    np.testing.assert_array_equal(task.solve(f, 1), numbers[:, :1, None] * functions + numbers[:, 1:, None])


def test_an_executable_of_parameters_only():
    program = "import sys, numpy as np; np.save(sys.argv[1], np.full(17, float(sys.argv[2])))"
    words = [sys.executable, "-c", program, "{output}", "{a}"]
    task = CommandTask(words, parameters={"a": [0.1, 0.2]}, resolutions=(17,), costs=(1,))
    f = task.sample(2)
    np.testing.assert_array_equal(task.solve(f, 0), f)


@pytest.mark.parametrize(
    ("words", "names", "message"),
    [
        ("solver {input} {output}", ("a", "b"), r"does not name \{a\}\. .* or \{parameters\}, a file with all of them"),
        ("solver {input} {output} {a}", ("a", "b"), r"does not name \{b\}"),
        ("solver {output} {parameters}", ("a", "b"), r"does not name \{input\}"),
        ("solver {input} {output} {level}", ("level", "b"), r"\{level\} stands for something else.*Rename"),
    ],
)
def test_parameters_that_a_command_does_not_use_are_refused(inputs, words, names, message):
    with pytest.raises(TaskError, match=message):
        CommandTask(words, inputs, (17,), (1,), parameters=np.ones((6, 2)), parameter_names=names)


@pytest.mark.parametrize(
    ("command", "operators"),
    [
        ("cat {input} > {output}", [">"]),
        ("cat {input}|sort >{output}", ["|", ">"]),
        ("solve {input} {output} 2>&1 ; rm log", [">&", ";"]),
        ("solve {input} {output} &", ["&"]),
    ],
)
def test_a_command_that_needs_a_shell_is_refused_with_a_way_to_have_one(command, operators):
    with pytest.raises(TaskError) as caught:
        CommandTask(command, np.eye(9), (5, 9), (1, 4))
    assert f"has {' and '.join(operators)}, which only a shell understands" in str(caught.value)
    assert f'["sh", "-c", {command!r}]' in str(caught.value)


@pytest.mark.parametrize(
    "command",
    ["awk '$1 > 2' {input} {output}", 'solve --k="a;b" {input} {output}', r"find -exec x \; {input} {output}"],
)
def test_operators_in_quotes_are_words(command):
    assert CommandTask(command, np.eye(9), (5, 9), (1, 4)).command[-1] == "{output}"


def test_a_shell_that_is_named_runs_the_command():
    task = CommandTask(["sh", "-c", "cat {input} > {output}"], np.eye(9), (5, 9), (1, 4))
    np.testing.assert_array_equal(task.solve(np.ones((1, 1, 9)), 1), np.ones((1, 1, 9)))
