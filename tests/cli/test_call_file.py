"""The call of a run, kept in its folder."""

import json
from pathlib import Path

import pytest

from mrafno.cli.call_file import Call, check_trusted, read_call, write_call
from mrafno.cli.loading import Source
from mrafno.errors import LedgerError
from mrafno.storage.layout import TASK_SOURCE


@pytest.mark.parametrize(
    "call",
    [
        Call(Source("burgers"), {"steps": 4, "async": True, "limit": 2.5}),
        Call(Source("package.module:task", Path("/folder")), {"budget": 10.0, "count": "training"}),
        Call(None, {}),
    ],
)
def test_a_call_is_read_back(tmp_path, call):
    write_call(tmp_path, call)
    assert read_call(tmp_path) == call


def test_a_budget_keeps_what_it_covers(tmp_path):
    write_call(tmp_path, Call(None, {"budget": 10.0}))
    assert read_call(tmp_path).values == {"budget": 10.0, "count": "total"}


def test_a_budget_of_an_earlier_version_covers_the_chosen_examples(tmp_path):
    (tmp_path / TASK_SOURCE).write_text(json.dumps({"task": None, "folder": None, "budget": 10.0}))
    assert read_call(tmp_path).values == {"budget": 10.0, "count": "chosen"}


def test_without_a_file_the_call_is_empty(tmp_path):
    assert read_call(tmp_path) == Call()


def test_a_name_of_version_0_1_is_read(tmp_path):
    (tmp_path / TASK_SOURCE).write_text(json.dumps({"task": None, "folder": None, "patience": 0.25}))
    assert read_call(tmp_path).values == {"max_failure_rate": 0.25}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"task": 3, "folder": null}', '{"task": null, "folder": null, "x": 1}']
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, text):
    (tmp_path / TASK_SOURCE).write_text(text)
    with pytest.raises(LedgerError, match=rf"{TASK_SOURCE} is damaged"):
        read_call(tmp_path)


def test_code_inside_the_run_is_not_run(tmp_path):
    inside, outside = tmp_path / "run" / "solver.py", tmp_path / "solver.py"
    check_trusted(Source(f"{outside}:task"), tmp_path / "run")
    check_trusted(Source("burgers"), tmp_path / "run")
    with pytest.raises(LedgerError, match="code inside the run's own folder"):
        check_trusted(Source(f"{inside}:task"), tmp_path / "run")
