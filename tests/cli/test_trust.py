"""Code that a run of somebody else names is not executed without a question."""

import json
import os
import pty
import stat
import subprocess
import sys

import pytest

from mrafno.cli.call_file import Call, read_call, write_call
from mrafno.cli.loading import Source
from mrafno.cli.trust import is_signed, key_file, signature
from tests.cli.conftest import TINY, mrafno


def of_somebody_else(folder, **changes):
    """The same call with a signature that means nothing here."""
    path = folder / "task.source.json"
    record = json.loads(path.read_text()) | {"signature": "0" * 64} | changes
    path.write_text(json.dumps(record))


def test_a_signature_is_of_this_content_and_this_key(tmp_path, monkeypatch):
    record = {"task": "x.py:task", "steps": 4}
    mine = signature(record)
    assert is_signed(record, mine)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    for other in ({**record, "task": "y.py:task"}, {**record, "steps": 5}, {}):
        assert not is_signed(other, mine)
    assert not any(is_signed(record, found) for found in (None, "", 3, [], "\u00e4"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert not is_signed(record, mine)


def test_without_a_home_nothing_is_signed(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert signature({}) is None
    assert not is_signed({}, None)
    write_call(tmp_path, Call(Source("burgers"), {"steps": 4}))
    assert not read_call(tmp_path).signed


def test_code_that_somebody_else_named_needs_a_flag_once(tmp_path, solver):
    folder, trace = tmp_path / "run", tmp_path / "trace"
    assert mrafno("run", f"{solver}:task", "--out", folder, *TINY, "--steps", 1).exit_code == 0
    of_somebody_else(folder)
    with solver.open("a") as file:
        file.write(f"\nopen({str(trace)!r}, 'a').write('x')\n")
    result = mrafno("resume", folder, "--steps", 2)
    assert result.exit_code == 1
    assert f"names {solver}:task and was not written by you" in result.stderr
    assert f"mrafno resume {folder} --trust" in result.stderr
    assert not trace.exists()
    sys.modules.pop(solver.stem, None)
    assert mrafno("resume", folder, "--steps", 2, "--trust").exit_code == 0
    assert trace.exists()
    assert mrafno("resume", folder, "--steps", 3).exit_code == 0
    of_somebody_else(folder)
    assert mrafno("resume", folder, "--steps", 4, "--task", f"{solver}:task").exit_code == 0


def test_a_built_in_task_needs_no_trust_but_an_address_does(tmp_path):
    folder = tmp_path / "run"
    assert mrafno("create", "burgers", "--out", folder, *TINY).exit_code == 0
    of_somebody_else(folder, dask="tcp://127.0.0.1:1", steps=1)
    result = mrafno("resume", folder)
    assert "names tcp://127.0.0.1:1 and was not written by you" in result.stderr
    result = mrafno("resume", folder, "--dask", "tcp://127.0.0.1:1")
    assert "no scheduler answers" in result.stderr


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_on_a_terminal_there_is_a_question(tmp_path, solver, answer, code):
    folder = tmp_path / "run"
    assert mrafno("create", f"{solver}:task", "--out", folder, *TINY).exit_code == 0
    of_somebody_else(folder)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mrafno", "resume", str(folder), "--steps", "0"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.write(ours, f"{answer}\n".encode())
        _, err = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    assert "Whoever wrote it decides what that does. Go on? [y/N]" in err
    assert process.returncode == code, err
