"""Real processes: Ctrl-C, pipes, a terminal, machines, and exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from mrafno.cli import advance as advancing
from tests.cli.conftest import TINY, mrafno, shown


def environment(**more):
    """The same number of threads as here, so that numbers are the same to the bit."""
    return {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "COLUMNS": "120", "TERM": "xterm", **more}


def started(*arguments, **more):
    command = [sys.executable, "-m", "mrafno", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more))


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_ctrl_c_in_a_long_simulation_and_resume(solver, tmp_path, original):
    """The second choice hangs for ten minutes; the run stops in seconds, and goes on as if nothing had been."""
    folder = tmp_path / "a run"
    process = started("run", f"{solver}:task", "--out", folder, *TINY, "--steps", 4, TINY_HANGS_AT="12")
    ledger = folder / "ledger.jsonl"
    until(lambda: ledger.exists() and ledger.read_bytes().count(b'"kind":"asked"') == 3)
    time.sleep(0.2)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - pressed < 20
    assert process.returncode == 130
    assert err.endswith(f"stopped; resume with: mrafno resume '{folder}'\n")
    assert re.fullmatch(r"step 0 of 4; .* so far", out.splitlines()[10])
    state = shown(folder)
    assert (state["state"], state["running"], len(state["steps"])) == ("interrupted", ["q000011"], 1)
    result = mrafno("resume", folder)
    assert result.exit_code == 0, result.output
    told = ("query", "candidate", "level", "accumulated_cost", "metrics")
    assert [[step[name] for name in told] for step in shown(folder)["steps"]] == [
        [step[name] for name in told] for step in shown(original[0])["steps"]
    ]


def test_json_output_and_exit_code(solver, tmp_path):
    """What the simulator prints, in workers too, goes elsewhere."""
    process = started(
        "run",
        f"{solver}:task",
        "--out",
        tmp_path / "run",
        *TINY,
        "--workers",
        2,
        "--batch",
        2,
        "--json",
        TINY_FAILS="1",
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3
    [line] = out.splitlines()
    last = json.loads(line)
    assert (last["event"], last["outcome"], last["step"], last["failed"]) == ("ended", "failed", 0, 5)
    assert err.endswith(f"error: {last['reason']}\n")
    assert "simulating" in err


def test_a_terminal_gets_one_block_that_stays(solver, tmp_path):
    here, there = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "mrafno",
        "run",
        f"{solver}:task",
        "--out",
        tmp_path / "run",
        *TINY,
        "--steps",
        "1",
    ]
    process = subprocess.Popen(list(map(str, command)), stdout=there, stderr=there, env=environment())
    os.close(there)
    shown = b""
    while True:
        try:
            part = os.read(here, 65536)
        except OSError:  # the other end is closed
            break
        shown += part
        if not part:
            break
    os.close(here)
    assert process.wait(60) == 0
    text = shown.decode()
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is hidden, and back
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in text.rpartition("\x1b[2K")[2].splitlines()]
    names = [line.split()[0] for line in lines if line]
    assert names[:7] == ["run", "step", "cost", "error", "examples", "time", "now"]
    assert lines[1].split(maxsplit=1)[1] == "1 of 1"
    assert lines[6].split(maxsplit=1)[1] == "finished 1 step"


def test_ctrl_c_waits_for_a_safe_point():
    before = signal.getsignal(signal.SIGINT)
    with advancing.safe_interrupts() as safe_point:
        safe_point()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            safe_point()
        # The timer is off: nothing hits what is being tidied up.
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_does_not_wait_forever(monkeypatch):
    monkeypatch.setattr(advancing, "_GRACE_SECONDS", 0.05)
    before = signal.getsignal(signal.SIGALRM)
    with advancing.safe_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_second_ctrl_c_does_not_wait():
    with advancing.safe_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
