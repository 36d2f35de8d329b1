"""Tasks from names, files and modules, and what is said of those that cannot be had."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from mrafno.cli.loading import Source
from mrafno.errors import TaskError
from mrafno.tasks import Burgers, FunctionTask

CODE = """
import numpy as np
from mrafno.tasks import FunctionTask

def solve(f, level):
    return 2.0 * f

task = FunctionTask(solve, np.eye(5), ((3,), (5,)), (1, 4), name="double")

def make():
    return task

number = 3
"""


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch):
    """Loading puts folders on the path and modules into Python's table."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "double_solver.py"
    path.write_text(CODE)
    return path


def said(text):
    with pytest.raises(TaskError) as caught:
        Source.of(text).load()
    return str(caught.value)


def test_a_built_in_task():
    source = Source.of("burgers")
    assert (source.text, source.folder, source.place, source.is_code) == ("burgers", None, None, False)
    assert type(source.load()) is Burgers


def test_a_misspelt_task():
    known = "burgers, darcy, darcy3, diffusion, navier-stokes, burgers-parameters, diffusion3d"
    forms = "Give a problem's name (see `mrafno tasks`), FILE.py:NAME, package.module:NAME or a table, .npz or .h5."
    assert said("burger") == f"unknown task 'burger'. Did you mean 'burgers'? {forms}"
    assert said("heat") == f"unknown task 'heat'. The known ones are {known}. {forms}"


@pytest.mark.parametrize("name", ["task", "make"])
def test_a_task_or_a_factory_in_a_file(file, name):
    source = Source.of(f"{file}:{name}")
    task = source.load()
    assert (source.text, source.place, source.is_code) == (f"{file}:{name}", file, True)
    assert type(task) is FunctionTask
    np.testing.assert_array_equal(task.solve(np.ones((1, 1, 3)), 0), np.full((1, 1, 3), 2.0))


def test_a_relative_file_becomes_an_absolute_one(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert Source.of("double_solver.py:task").text == f"{file}:task"
    assert Source.of("./double_solver.py:task").text == f"{file}:task"


def test_a_file_can_import_its_neighbours(file):
    (file.parent / "neighbour.py").write_text("from double_solver import task as same")
    (file.parent / "other_solver.py").write_text("from neighbour import same")
    assert Source.of(f"{file.parent / 'other_solver.py'}:same").load().name == "double"


def test_a_module_from_the_current_folder(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    source = Source.of("double_solver:task")
    assert (source.text, source.folder, source.place) == ("double_solver:task", file.parent, file.parent)
    monkeypatch.chdir("/")
    assert source.load().name == "double"


def test_a_task_is_pickled_by_name(file):
    """They import the module again, under its name and from the same folder."""
    task = Source.of(f"{file}:task").load()
    assert task.function.__module__ == "double_solver"
    assert b"double_solver" in pickle.dumps(task)
    assert sys.path[0] == str(file.parent)


def test_a_task_is_pickled_by_value(file):
    cloudpickle = pytest.importorskip("cloudpickle")
    task = Source.of(f"{file}:task").load(by_value=True)
    with pytest.raises((pickle.PicklingError, ModuleNotFoundError)):
        pickle.dumps(task)
    data = cloudpickle.dumps(task)
    file.unlink()
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.solve(np.ones((1, 1, 3)), 0), np.full((1, 1, 3), 2.0))
    assert not [name for name in sys.modules if "double_solver" in name]


def test_what_the_code_prints_goes_to_stderr(file, capsys):
    file.write_text(CODE + "print('hello')\n")
    Source.of(f"{file}:task").load()
    assert capsys.readouterr() == ("", "hello\n")


def test_a_file_without_a_name(file):
    assert said(str(file)) == f"task '{file}': it is a file. Name the task in it, as in {file}:task."


def test_a_file_that_is_missing(tmp_path):
    path = tmp_path / "none.py"
    assert said(f"{path}:task").startswith(f"task '{path}:task': there is no file {path}. Give a problem's name")


def test_missing_names(file):
    assert said(f"{file}:tsak") == f"task {file}:tsak: it has no 'tsak'. Did you mean 'task'?"
    assert said(f"{file}:zzz") == f"task {file}:zzz: it has no 'zzz'. Tasks in it: task."
    assert said(f"{file}:").startswith(f"task '{file}:': '' is not the name of a Python object.")


def test_objects_that_are_not_tasks(file):
    assert said(f"{file}:number").startswith(f"task {file}:number: it is a int, not a task. Make one with FunctionTask")


def test_a_simulator_is_not_a_task(file):
    assert said(f"{file}:solve") == (
        f"task {file}:solve: it is a function of (f, level), not a task. If it is the simulator, make a task of it, "
        "task = FunctionTask(solve, inputs, resolutions=..., costs=...) with FunctionTask of mrafno.tasks, and give "
        f"{file}:task."
    )


def test_a_factory_may_have_arguments_with_defaults(file):
    file.write_text(CODE + "def other(n=3, *more, **settings):\n    return task\n")
    assert Source.of(f"{file}:other").load().name == "double"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 1\ny = x / 0\n", "line 2: ZeroDivisionError: division by zero."),
        ("import sys\n\nsys.exit(4)\n", "line 3: exit(4) was called."),
        ("def task():\n    raise KeyError('mesh')\n", "line 2: KeyError: 'mesh'."),
        ("task = (\n", "SyntaxError: '(' was never closed (broken.py, line 1)."),
        ("import no_such_package\n", "line 1: ModuleNotFoundError: No module named 'no_such_package'."),
    ],
)
def test_errors_in_the_file_have_their_line(tmp_path, code, told):
    path = tmp_path / "broken.py"
    path.write_text(code)
    rest = "Correct it; `mrafno --debug ...` shows the traceback."
    assert said(f"{path}:task") == f"task {path}:task: {told} {rest}"


def test_a_module_that_is_missing():
    told = "task no_such_module:task: ModuleNotFoundError: No module named 'no_such_module'."
    assert said("no_such_module:task").startswith(told)


@pytest.mark.parametrize("name", ["json", "a.b"])
def test_a_file_whose_name_another_module_has(tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text(CODE)
    expected = f"task file {path}: {name!r} is not a valid module name, or another module has it. Rename the file."
    assert said(f"{path}:task") == expected


def test_nothing_is_run_before_it_is_loaded(tmp_path):
    path = tmp_path / "writes.py"
    path.write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    assert Source.of(f"{path}:task").place == path
    assert not Path(tmp_path / "trace").exists()
