"""Looking at runs: nothing is changed, and damage is named."""

import io
import json
import re
import shutil

import pytest
from rich.console import Console

from mrafno.cli.tables import comparison_table
from mrafno.errors import TaskError
from mrafno.run.state import RunState
from mrafno.storage.checksum import seal
from mrafno.storage.ledger import Ledger
from tests.cli.conftest import mrafno, shown
from tests.made_runs import made_run, made_task


def test_json_is_the_state(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    result = mrafno("show", finished, "--json")
    assert result.stdout.count("\n") == 1
    expected = RunState.of(Ledger.open(finished).events).as_json() | {"untaken": [], "undelivered": [], "refused": {}}
    assert json.loads(result.stdout) == expected
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_run_is_shown_while_another_process_writes(finished):
    with Ledger.open(finished, write=True):
        assert shown(finished)["state"] == "finished 4 steps"


def test_the_summary(finished):
    state = shown(finished)
    lines = [line.rstrip() for line in mrafno("show", finished).stdout.splitlines()]
    error = state["steps"][-1]["metrics"]["relative_l2"]
    assert lines[:7] == [
        f"run       {finished}",
        "task      tiny",
        "method    mra-auto, seed 0",
        "state     finished 4 steps",
        "steps     4",
        f"cost      {state['spent']['total']:g} in all: 27 initial, {state['accumulated_cost']:g} chosen, 32 test",
        f"error     {error:.4g} after step 4",
    ]
    assert lines[7].startswith("estimate  ")
    assert re.match(r"time      simulating [0-9.]+ s, training ", lines[8])
    fine = sum(step["level"] for step in state["steps"])
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert cells == [
        ["cost of one", "1", "8"], ["initial", "3", "3"], ["chosen", str(4 - fine), str(fine)], ["test", "0", "4"],
    ]  # fmt: skip


def test_running_and_failed_queries_are_listed(finished):
    with Ledger.open(finished, write=True) as ledger:
        known = RunState.of(ledger.events).queries["q000000"].input.as_json()
        for id in ("q000090", "q000091"):
            query = {"id": id, "kind": "pool", "level": 1, "row": 11, "step": 5, "choice": {}, "input": known}
            ledger.append("asked", queries=[query])
        ledger.append("failed", id="q000090", reason="[red]no convergence[/red]")
    lines = [line.rstrip() for line in mrafno("show", finished).stdout.splitlines()]
    assert "state     waiting for answers" in lines
    assert "asked     q000091 (17); not answered" in lines
    with Ledger.open(finished, write=True):
        held = mrafno("show", finished).stdout
    assert "running   q000091 (17)\n" in "\n".join(line.rstrip() for line in held.splitlines())
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert cells[-1] == ["q000090", "17", "failed", "[red]no convergence[/red]"]


def test_damage_is_refused_and_with_the_option_listed(finished):
    ledger = finished / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if b'"kind":"told"' in line)
    lines[number] = lines[number].replace(b'"cost":1.0', b'"cost":7.0')
    ledger.write_bytes(b"".join(lines))
    result = mrafno("show", finished)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"line {number + 1}" in result.stderr
    result = mrafno("show", finished, "--damaged")
    assert result.exit_code == 0
    assert result.stderr.startswith("damage: ")
    state = json.loads(mrafno("show", finished, "--damaged", "--json").stdout)
    assert f"line {number + 1}" in state["damage"][0]
    assert len(state["steps"]) == 4


def test_events_that_depend_on_a_damaged_one_are_damage(finished):
    """The asked event is lost, so later events about its query cannot be applied."""
    ledger = finished / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if b'"kind":"asked"' in line and b'"q000010"' in line)
    lines[number] = lines[number].replace(b'"kind":"asked"', b'"kind":"Asked"')
    ledger.write_bytes(b"".join(lines))
    state = json.loads(mrafno("show", finished, "--damaged", "--json").stdout)
    assert [step["query"] for step in state["steps"]] == ["q000011", "q000012", "q000013"]
    assert any("(told) makes no sense: KeyError('q000010')" in one for one in state["damage"])


def test_a_damaged_beginning_leaves_nothing_to_show(finished):
    ledger = finished / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"kind":"created"', b'"kind":"Created"', 1))
    result = mrafno("show", finished, "--damaged")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: run {finished}: the first event, which describes the run, is damaged.")


def test_comparing(finished, tmp_path):
    other = shutil.copytree(finished, tmp_path / "other")
    evaluations = RunState.of(Ledger.open(finished).events).evaluations
    worst, best = evaluations[0].metrics["relative_l2"], min(e.metrics["relative_l2"] for e in evaluations)
    found = json.loads(mrafno("compare", finished, other, finished, "--errors", f"{worst},{best / 2}", "--json").stdout)
    row = {
        "run": str(finished),
        "task": "tiny",
        "method": "mra-auto",
        "seed": 0,
        "state": "finished 4 steps",
        "steps": 4,
        "accumulated_cost": shown(finished)["accumulated_cost"],
        "spent": shown(finished)["spent"],
        "cost": shown(finished)["spent"]["total"],
        "error": evaluations[-1].metrics["relative_l2"],
        "reached": {f"{worst:g}": 59.0, f"{best / 2:g}": None},
    }
    assert found == {"errors": [worst, best / 2], "count": "total", "runs": [row, {**row, "run": str(other)}]}
    lines = mrafno("compare", finished, other, "--errors", f"{worst},{best / 2}").stdout.splitlines()
    assert lines[0].strip() == "task tiny, seed 0"
    assert [line.split() for line in lines if "mra-auto" in line] == [
        [str(folder), "mra-auto", "4", f"{row['cost']:g}", f"{row['error']:.4g}", "59", "\u2013"]
        for folder in (finished, other)
    ]


def test_a_comparison_fits_a_narrow_terminal():
    """Figures are whole, and so are the names of methods; runs may be broken."""
    runs = [
        {"run": f"runs/long-name-of-a-run-{seed}", "task": "navier-stokes", "method": "mra-uhat-full", "seed": seed,
         "steps": 100, "cost": 1234.56, "error": 0.012345, "reached": {"0.1": 123.456, "0.05": None}}
        for seed in range(2)
    ]  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_table({"errors": [0.1, 0.05], "count": "total", "runs": runs}))
    lines = console.file.getvalue().splitlines()
    assert lines[0].strip() == "task navier-stokes"
    assert max(map(len, lines)) <= 80
    assert [line.split()[1:] for line in lines if "mra-" in line] == [
        ["mra-uhat-full", str(seed), "100", "1234.56", "0.01235", "123.5", "\u2013"] for seed in range(2)
    ]
    assert "…" not in console.file.getvalue()


@pytest.mark.parametrize("errors", ["x", "0", "-1", ".1,,.2", "inf"])
def test_invalid_errors(finished, errors):
    result = mrafno("compare", finished, "--errors", errors)
    assert result.exit_code == 2
    assert "is not a list of positive numbers" in result.stderr


def test_reporting(finished, tmp_path):
    out = tmp_path / "page.html"
    result = mrafno("report", finished, "--out", out)
    assert (result.exit_code, result.stdout) == (0, f"wrote {out}\n"), result.output
    assert out.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "file").write_text("")
    result = mrafno("report", finished, "--out", tmp_path / "file" / "page.html")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_names_and_reasons_of_somebody_else_do_not_command_the_terminal(tmp_path):
    """Clearing the screen, changing its title, and writing backwards, from everything that a ledger says."""
    evil = "\x1b[2J\x1b]0;owned\x07\u202e"
    folder = made_run(tmp_path / "run\x1b[31m", levels=(0,), failures=[f"no {evil}"], stopped=f"stopped {evil}")
    ledger = folder / "ledger.jsonl"
    lines, after = [], b"0" * 16
    for line in ledger.read_bytes().splitlines():
        text = line[: line.index(b',"sum":')].replace(b'"name":"made"', b'"name":"made\\u001b[2J"')
        lines.append(seal(text[:-17] + after + b'"}', "sum", separators=(",", ":")))
        after = lines[-1][-18:-2]
    ledger.write_bytes(b"\n".join(lines) + b"\n")
    for command in (
        ["show", folder],
        ["show", folder, "--json"],
        ["compare", folder],
        ["show", tmp_path / "no\x1b[2J"],
    ):
        result = mrafno(*command)
        said = result.stdout + result.stderr
        assert not [c for c in said if not c.isprintable() and c != "\n"], repr(said)
    assert "made" in mrafno("show", folder).stdout
    assert r"\x1b[2J" in mrafno("show", folder).stdout


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "", "a\nb", 3])
def test_a_task_needs_a_printable_name(name):
    with pytest.raises(TaskError, match="its name must be a text of printable characters"):
        made_task(name=name)
