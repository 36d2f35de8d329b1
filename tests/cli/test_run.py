"""Beginning runs and going on with them, from flags and files."""

import json
import re

import numpy as np
import pytest

from mrafno.run.outcome import Outcome
from mrafno.run.spending import Spent
from tests.cli.conftest import PART, TINY, mrafno, shown, write_solver

LINE = (
    r"step {step} of 4; cost [0-9.]+; error 0\.[0-9]{{2,6}}(, by its own estimate 0\.[0-9]{{2,6}})?; "
    r"examples 9: [0-9]+, 17: [0-9]+; [0-9.]+ s so far(; about [0-9.]+ s left)?"
)


def test_a_run_prints_a_line_for_every_measurement(original):
    """In between is what the simulator prints, its own affair, and on a slow machine how far a fit has come."""
    printed = original[1].stdout.splitlines()
    lines = [line for line in printed if line != "simulating" and "; training " not in line]
    assert len(lines) == 4
    for line, step in zip(lines, (0, 2, 4), strict=False):
        assert re.fullmatch(LINE.format(step=step), line), line
    assert lines[3] == "finished 4 steps"
    assert original[1].stderr == PART


def test_settings_and_call_are_in_the_folder(original):
    folder, _ = original
    settings = shown(folder)["settings"]
    names = ("pool", "initial", "test", "members", "iterations", "evaluate", "update_every")
    assert [settings[name] for name in names] == [12, 3, 4, 2, 3, 2, 10]
    kept = json.loads((folder / "task.source.json").read_text())
    assert len(kept.pop("signature")) == 64
    assert kept == {"task": f"{folder.parent / 'tiny_original.py'}:task", "folder": None, "steps": 4}


def test_resuming_a_finished_run_does_nothing(finished):
    before = shown(finished)
    result = mrafno("resume", finished)
    assert (result.exit_code, result.stdout) == (0, "finished 4 steps\n")
    after = shown(finished)
    assert after["steps"] == before["steps"]


def test_resuming_with_more_steps(finished, original, tmp_path):
    """The queries are those of one longer run up to where it ended; there it was trained once more."""
    result = mrafno("resume", finished, "--steps", 6)
    assert result.exit_code == 0, result.output
    source = f"{original[0].parent / 'tiny_original.py'}:task"
    assert result.stderr == f"loading the task from {source}, the source in {finished}\n"
    assert json.loads((finished / "task.source.json").read_text())["steps"] == 6
    whole = mrafno("run", source, "--out", tmp_path / "whole", *TINY, "--steps", 6)
    assert whole.exit_code == 0, whole.output
    chosen = [
        [(s["query"], s["candidate"], s["level"]) for s in shown(run)["steps"]]
        for run in (finished, tmp_path / "whole")
    ]
    assert [len(steps) for steps in chosen] == [6, 6]
    assert chosen[0][:4] == chosen[1][:4]


def test_a_goal_replaces_the_old_ones(finished):
    """Otherwise a run that has made its steps could not use up a budget."""
    spent = shown(finished)["spent"]["total"]
    result = mrafno("resume", finished, "--budget", spent + 0.5)
    assert result.stdout == f"used up the budget of {spent + 0.5:g}\n"
    kept = json.loads((finished / "task.source.json").read_text())
    assert (kept.get("steps"), kept["budget"]) == (None, spent + 0.5)


def test_json_lines_and_nothing_else(finished):
    result = mrafno("resume", finished, "--steps", 6, "--json")
    assert result.exit_code == 0
    first, last = map(json.loads, result.stdout.splitlines())
    assert (first["event"], first["step"], first["measured_at_step"]) == ("evaluated", 6, 6)
    assert (last["event"], last["outcome"], last["reason"]) == ("ended", "done", "finished 6 steps")
    assert last["accumulated_cost"] == shown(finished)["accumulated_cost"]
    assert last["metrics"] == shown(finished)["steps"][-1]["metrics"]


def test_flags_take_precedence_over_a_settings_file(solver, tmp_path):
    names = {flag.removeprefix("--"): value for flag, value in zip(TINY[:-2:2], TINY[1:-2:2], strict=True)}
    file = tmp_path / "run.toml"
    texts = [f"{name} = {value}" for name, value in names.items()]
    file.write_text(
        "\n".join([f'task = "{solver}:task"', f'out = "{tmp_path / "run"}"', "update_every = 10", "steps = 9", *texts])
    )
    result = mrafno("run", "--config", file, "--steps", 0, "--seed", 3, "--method", "random-low")
    assert result.exit_code == 0, result.output
    state = shown(tmp_path / "run")
    assert (state["method"], state["seed"], state["steps"], state["state"]) == ("random-low", 3, [], "finished 0 steps")
    assert {name: state["settings"][name] for name in (*names, "update_every")} == {
        k: int(v) for k, v in names.items()
    } | {"update_every": 10}


def test_a_misspelt_name_in_a_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "burgers"\nmethd = "mra-u"\n')
    result = mrafno("run", "--config", file, "--out", tmp_path / "run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: config {file}, line 2: unknown setting 'methd'. Did you mean 'method'?\n"
    assert not (tmp_path / "run").exists()


def test_a_run_needs_a_task_and_a_folder(tmp_path):
    for arguments, missing in ((["--out", tmp_path / "run"], "TASK"), (["burgers"], "--out DIR")):
        result = mrafno("run", *arguments)
        assert result.exit_code == 2
        assert f"Invalid value for {missing}: missing. Give it, or" in result.stderr


def test_wrong_values_are_errors_of_usage(tmp_path):
    for wrong in (
        ["--steps", "ten"],
        ["--steps", "-1"],
        ["--members", "1"],
        ["--max-failure-rate", "2"],
        ["--stpes", "3"],
    ):
        assert mrafno("run", "burgers", "--out", tmp_path / "run", *wrong).exit_code == 2
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_not_overwritten(finished, original):
    source = f"{original[0].parent / 'tiny_original.py'}:task"
    before = (finished / "ledger.jsonl").read_bytes()
    result = mrafno("run", source, "--out", finished, *TINY)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: run {finished}")
    assert (finished / "ledger.jsonl").read_bytes() == before


def test_without_a_goal_it_takes_a_hundred_steps(solver, tmp_path, monkeypatch):
    from mrafno.run import Run

    goals = {}
    monkeypatch.setattr(Run, "advance", lambda self, **given: goals.update(given) or Outcome("done", 0, Spent()))
    for number, flags in enumerate(([], ["--budget", "300"], ["--target", ".1"])):
        assert mrafno("run", f"{solver}:task", "--out", tmp_path / f"{number}", *TINY, *flags).exit_code == 0
        assert {name: goals.get(name) for name in ("total_steps", "budget", "target")} == {
            "total_steps": None if flags else 100,
            "budget": 300.0 if "--budget" in flags else None,
            "target": 0.1 if "--target" in flags else None,
        }
        goals.clear()


def test_flags_become_arguments_of_the_run(solver, tmp_path, monkeypatch):
    from mrafno.run import Run
    from mrafno.simulation.executors import dask_executor, process_pool

    got = {}
    monkeypatch.setattr(Run, "advance", lambda self, **given: got.update(given) or Outcome("done", 0, Spent()))

    def flags(*flags):
        got.clear()
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        result = mrafno("run", f"{solver}:task", "--out", folder, *TINY, *flags)
        return result, got.get("executor"), folder

    result, made, _ = flags(
        "--workers", 3, "--async", "--limit", 5, "--isolate", "--memory", 2, "--max-failure-rate", 0.25
    )
    assert (made.func, made.args, result.stderr) == (process_pool, (3,), PART)
    names = ("workers", "asynchronous", "limit", "isolate", "memory", "max_failure_rate")
    assert [got[name] for name in names] == [3, True, 5.0, True, 2_000_000_000, 0.25]

    result, made, folder = flags("--workers", 3, "--batch", 2)
    assert result.stderr == (
        f"{PART}note: with --batch 2 and without --async, at most 2 of 3 workers simulate at a time after the initial "
        "examples.\n"
    )
    assert [got[name] for name in names] == [3, False, None, False, None, 0.5]
    assert json.loads((folder / "task.source.json").read_text())["workers"] == 3

    made = flags("--workers", 1)[1]
    assert made is None

    made = flags("--dask", "local", "--workers", 2)[1]
    assert (made.func, made.args) == (dask_executor, (None, 2))

    made = flags("--dask", "tcp://10.0.0.1:8786", "--async", "--workers", 8)[1]
    assert (made.func, made.args, got["workers"]) == (dask_executor, ("tcp://10.0.0.1:8786",), 8)

    result, _, folder = flags("--dask", "tcp://10.0.0.1:8786", "--async")
    assert result.exit_code == 1
    assert "give --workers, the number of simulations to keep running" in result.stderr

    # What was said of workers before does not hold for another cluster.
    assert mrafno("resume", folder, "--workers", 2).exit_code == 0
    assert (got["executor"].func, got["executor"].args, got["asynchronous"]) == (process_pool, (2,), True)
    kept = json.loads((folder / "task.source.json").read_text())
    assert (kept["workers"], kept["async"], "dask" in kept) == (2, True, False)


def test_too_many_failures_have_their_own_exit_code_and_the_run_can_be_resumed(solver, tmp_path):
    folder = tmp_path / "run"
    result = mrafno("run", f"{solver}:task", "--out", folder, *TINY, "--steps", 2, TINY_FAILS="1")
    assert result.exit_code == 3
    assert result.stderr == (
        f"{PART}error: run {folder}: 5 simulations failed, 100 % of all, more than 50 %. The last reason: tiny: the "
        f"simulator, given shape (1, 17) on level 1, raised ValueError ({solver.name}:15): no convergence. "
        "Everything is kept: correct the simulator and resume.\n"
    )
    state = shown(folder)
    assert [one["query"] for one in state["failed"]] == [f"q{number:06d}" for number in range(5)]
    watched = mrafno("--debug", "resume", folder, TINY_FAILS="1")
    assert watched.exit_code == 3
    assert f"({solver.name}:15): no convergence. Everything" in watched.stderr.splitlines()[-1]
    resumed = mrafno("resume", folder)
    assert resumed.exit_code == 0, resumed.output
    assert resumed.stdout.splitlines()[-1] == "finished 2 steps"


def test_fewer_steps_than_done_do_nothing(finished):
    before = (finished / "ledger.jsonl").read_bytes()
    result = mrafno("resume", finished, "--steps", 2)
    assert (result.exit_code, result.stdout) == (0, "nothing to do: 4 steps are done\n")
    assert (finished / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("flags", [(), ("--steps", 4)])
def test_a_folder_without_a_run_cannot_be_resumed(tmp_path, flags):
    result = mrafno("resume", tmp_path, *flags)
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: {tmp_path / 'ledger.jsonl'} is missing. Give the folder of a run, or restore it from a copy.\n"
    )


def test_a_run_with_an_unknown_task(finished, original):
    (finished / "task.source.json").unlink()
    result = mrafno("resume", finished)
    assert result.exit_code == 1
    assert result.stderr == f"error: run {finished}: it has no goal. Give --steps, --budget or --target.\n"
    result = mrafno("resume", finished, "--steps", 4)
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: run {finished}: the source of its task 'tiny' is not known. Give it with --task FILE.py:NAME, or "
        "simulate outside of mrafno with `mrafno ask` and `mrafno tell`.\n"
    )
    result = mrafno("resume", finished, "--steps", 4, "--task", f"{original[0].parent / 'tiny_original.py'}:task")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "finished 4 steps\n", "")
    # From now on it knows.
    assert mrafno("resume", finished).exit_code == 0


def test_code_inside_the_run_directory_is_not_run_unasked(finished, tmp_path):
    """Opening a received run must not execute its code."""
    evil = write_solver(finished, "tiny_evil")
    evil.write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    kept = {"task": f"{evil}:task", "folder": None, "steps": 4}
    (finished / "task.source.json").write_text(json.dumps(kept))
    result = mrafno("resume", finished)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {finished / 'task.source.json'} names code inside the run's own folder")
    kept = {"task": "tiny_evil:task", "folder": str(finished), "steps": 4}
    (finished / "task.source.json").write_text(json.dumps(kept))
    assert mrafno("resume", finished).exit_code == 1
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"task": 3, "folder": null}', '{"folder": null}', '{"task": "burgers", "folder": null, "steps": "x"}'],
)
def test_a_damaged_call_file_is_refused(finished, content):
    path = finished / "task.source.json"
    path.write_text(content)
    result = mrafno("resume", finished)
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: {path} is damaged, or was not written by mrafno. Remove it, and give `mrafno resume` the task and "
        "the goal with --task and --steps.\n"
    )


def test_a_link_in_place_of_the_call_file_is_refused(finished, tmp_path):
    path = finished / "task.source.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    result = mrafno("resume", finished)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path} is a symbolic link, which is not followed.")


def test_another_task_is_refused(finished):
    result = mrafno("resume", finished, "--task", "burgers")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: burgers: it is not the task that the run began with; different: name")


@pytest.mark.parametrize("how", [("run",), ("run", "--dry-run"), ("create",)])
def test_a_task_file_or_a_table_whose_costs_fall_is_refused(tmp_path, solver, how):
    solver.write_text(solver.read_text().replace("(1, 8)", "(8, 1)"))
    f = np.random.default_rng(0).normal(size=(20, 1, 17))
    np.savez(tmp_path / "table.npz", inputs=f, output_0=f[..., ::2], output_1=f, costs=(8.0, 1.0))
    for task in (f"{solver}:task", tmp_path / "table.npz"):
        done = mrafno(*how, task, "--out", tmp_path / "run", *TINY)
        assert done.exit_code == 1
        assert "fall: 1 for 17 is less than 8 for 9" in done.stderr
        assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_a_run_is_refused_before_anything_else(finished):
    """The task, which does not exist, is not looked for."""
    result = mrafno("run", "no/such/file.py:task", "--out", finished)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: run {finished} exists already. Go on with it (mrafno resume {finished}")
    result = mrafno("create", "burgers", "--out", finished, "--setting", "initial=1")
    assert "exists already" in result.stderr


def test_a_task_file_that_moved_is_asked_for(tmp_path, solver):
    folder = tmp_path / "run"
    assert mrafno("run", f"{solver}:task", "--out", folder, *TINY, "--steps", 1).exit_code == 0
    solver.rename(tmp_path / "elsewhere.py")
    result = mrafno("resume", folder, "--steps", 2)
    assert result.exit_code == 1
    assert f"its task came from {solver}:task, and there is no {solver} any more" in result.stderr
    assert f"mrafno resume {folder} --task FILE.py:task" in result.stderr
    assert mrafno("resume", folder, "--steps", 2, "--task", f"{tmp_path}/elsewhere.py:task").exit_code == 0
