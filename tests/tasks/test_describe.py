"""The table of tasks."""

import io

import pytest
from rich.console import Console

from mrafno.errors import TaskError
from mrafno.tasks import TASKS
from mrafno.tasks.describe import task_table


def shown(*names):
    file = io.StringIO()
    Console(width=200, file=file).print(task_table(list(names)))
    return file.getvalue()


def test_every_task_is_listed_with_meshes_and_costs():
    text = shown()
    assert all(name in text for name in TASKS)
    assert "41.2" in text
    only = shown("burgers")
    assert "33" in only
    assert "129" in only
    assert "darcy" not in only


def test_an_unknown_task_is_an_error():
    with pytest.raises(TaskError, match="unknown task 'burger'"):
        shown("burger")
