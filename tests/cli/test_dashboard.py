"""The command that serves the page: what it says, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

from tests.cli.conftest import mrafno
from tests.made_runs import made_run


def test_it_prints_its_address_and_stops_at_ctrl_c(tmp_path):
    made_run(tmp_path / "run", levels=(0,))
    command = [sys.executable, "-m", "mrafno", "dashboard", str(tmp_path), "--port", "0"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        said = process.stdout.readline()
        url = re.match(r"(http://127\.0\.0\.1:\d+/) shows the runs under ", said)[1]
        with urllib.request.urlopen(f"{url}api/runs", timeout=30) as answer:
            assert [run["name"] for run in json.load(answer)["runs"]] == ["run"]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "stopped.\n")
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_a_public_address_has_a_warning(tmp_path, monkeypatch):
    from mrafno.dashboard import Server

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    monkeypatch.setattr(Server, "warm_up", lambda self: None)
    open_to_all = mrafno("dashboard", tmp_path, "--host", "0.0.0.0", "--port", 0)
    assert open_to_all.exit_code == 0
    assert "warning: 0.0.0.0 can be reached from other machines" in open_to_all.stderr
    assert "there is no password" in open_to_all.stderr
    assert "warning" not in mrafno("dashboard", tmp_path, "--port", 0).stderr


def test_a_browser_is_opened_on_request(tmp_path, monkeypatch):
    from mrafno.dashboard import Server

    opened = []
    monkeypatch.setattr(Server, "serve_forever", lambda self: None)
    monkeypatch.setattr(Server, "warm_up", lambda self: None)
    monkeypatch.setattr("typer.launch", opened.append)
    mrafno("dashboard", tmp_path, "--port", 0)
    assert opened == []
    said = mrafno("dashboard", tmp_path, "--port", 0, "--open").stdout
    assert [url for url in opened if said.startswith(url)] == opened
    assert len(opened) == 1


def test_a_folder_that_is_not_there_is_one_paragraph(tmp_path):
    result = mrafno("dashboard", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: dashboard: {tmp_path / 'none'} is not a folder.")
