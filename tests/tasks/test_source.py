"""The source of simulators: what belongs to it, and what is a change."""

import functools

import pytest

from mrafno.tasks import Burgers, CommandTask, FunctionTask
from mrafno.tasks.source import same_source, source_change, source_of, source_of_command
from tests import runs

FACTOR = 3.0


def helper(f):
    return FACTOR * f


def simulator(f, level):
    return helper(f) + level


class Solver:
    """An object that is called."""

    def __call__(self, f, level):
        return simulator(f, level)


def test_what_a_function_uses_in_its_module_belongs_to_it():
    found = source_of(simulator)
    assert "return helper(f) + level" in found
    assert "return FACTOR * f" in found
    assert "FACTOR = 3.0" in found
    assert "class Solver" not in found
    assert "return FACTOR * f" in source_of(Solver())


def test_values_from_around_a_function_belong_to_it():
    def made(scale):
        return lambda f, level: scale * f

    assert "scale = 2" in source_of(made(2))
    assert not same_source(source_of(made(2)), source_of(made(5)))
    assert not same_source(
        source_of(functools.partial(simulator, level=1)), source_of(functools.partial(simulator, level=2))
    )


def test_a_function_without_source_has_none():
    namespace = {}
    exec("def made(f, level):\n    return f", namespace)
    assert source_of(namespace["made"]) is None
    assert source_of(abs) is None


def test_comments_and_blanks_are_no_change():
    assert same_source("def f(x):\n    return x\n", "def f(x):  # the same\n\n    return (x)\n")
    assert not same_source("def f(x):\n    return x\n", "def f(x):\n    return 5 * x\n")
    assert not same_source("solver --fine {input}", "solver {input}")


def test_a_change_is_shown_by_its_lines():
    text = source_change("def f(x):\n    a = 1\n    return x", "def f(x):\n    a = 1\n    return 5 * x")
    assert text.splitlines()[1:] == ["     a = 1", "-    return x", "+    return 5 * x"]
    assert len(source_change("\n".join("a" * 99), "\n".join("b" * 99)).splitlines()) == 31


def test_a_command_has_the_text_of_its_files(tmp_path):
    script = tmp_path / "solver.sh"
    script.write_text("cp $1 $2\n")
    before = source_of_command(["sh", str(script), "{input}", "{output}"])
    assert "cp $1 $2" in before
    script.write_bytes(bytes(range(256)) * 400)
    assert "sha256" in source_of_command(["sh", str(script)])
    task = CommandTask(f"sh {script} {{input}} {{output}}", runs.fields(5, 17), ((9,), (17,)), (1, 2))
    assert task.describe_simulator().startswith(f"sh {script} ")


@pytest.mark.parametrize("task", [Burgers(), FunctionTask(simulator, runs.fields(5, 17), (9, 17), (1, 2))])
def test_tasks_describe_their_simulator(task):
    found = task.describe_simulator()
    assert found is None if isinstance(task, Burgers) else "return helper(f) + level" in found


_calls = 0


def counting(f, level):
    global _calls
    _calls += 1
    return f


def test_what_a_simulator_counts_itself_is_no_change_of_its_source():
    before = source_of(counting)
    counting(0, 0)
    assert _calls > 0
    assert source_of(counting) == before

    def around():
        calls = 0

        def solve(f, level):
            nonlocal calls
            calls += 1
            return f

        return solve

    solve = around()
    before = source_of(solve)
    solve(0, 0)
    assert source_of(solve) == before
