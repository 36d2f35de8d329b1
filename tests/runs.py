"""Tiny tasks and runs, importable, so that pools and processes of their own can have them too.

Workers import this module for its simulators, so torch comes in only where a run is made.
"""

import atexit
import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from functools import cache, partial
from pathlib import Path

import numpy as np

from mrafno.tasks import Burgers, Darcy, FunctionTask

COSTS = (1.0, 5.0)
SETTINGS = {
    "pool": 12, "initial": 3, "test": 4, "members": 2, "iterations": 1, "evaluate": 2, "update_every": 99,
}  # fmt: skip


# Simulators.


def smooth(f, level):
    return np.tanh(2 * f) + 0.2 * (1 - level) * f


def counted(f, level):
    """Takes a moment, and leaves a line in the file $COUNTS when it is done."""
    time.sleep(0.015)
    with Path(os.environ["COUNTS"]).open("a") as file:
        file.write(f"{digest(f, level)}\n")
    return smooth(f, level)


def whereabouts(f, level):
    """Leaves the process's id in the file $COUNTS."""
    time.sleep(0.1)
    with Path(os.environ["COUNTS"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return smooth(f, level)


def digest(f, level):
    return f"{level} {hashlib.sha256(np.ascontiguousarray(f).tobytes()).hexdigest()}"


def sick(f, level):
    """Fails on some inputs, in one of several ways."""
    number = int(3000 * abs(f[0, 0])) % 9
    if number == 0:
        raise ArithmeticError("no convergence")
    return {1: np.full_like(f, np.nan), 2: f[..., 1:], 3: 1j * f}.get(number, smooth(f, level))


def broken(f, level):
    raise ArithmeticError(f"nothing works on level {level}")


def hangs(f, level):
    if f[0, 0] > 0.5:
        time.sleep(600)
    return smooth(f, level)


def end_process(code):
    """As compiled code does it; ``os._exit`` is an exception in a simulation."""
    ctypes.CDLL(None)._exit(code)


def leaves(f, level):
    if f[0, 0] > 0.5:
        end_process(3)
    return smooth(f, level)


def deadly(f, level):
    """Ends its process, in the way that $DEADLY says, on some inputs."""
    if f[0, 0] > 1:
        if os.environ["DEADLY"] == "exit":
            end_process(0)
        os.kill(os.getpid(), signal.SIGSEGV)
    return smooth(f, level)


def immovable():
    """The same as a function that cannot be sent to another process."""
    lock = threading.Lock()

    def holds_a_lock(f, level):
        with lock:
            return deadly(f, level)

    return holds_a_lock


def gluttonous(f, level):
    if f[0, 0] > 0.5:
        hoard = np.ones(400_000_000)
        return hoard[: f.size]
    return smooth(f, level)


# Tasks.


def fields(n, points, seed=0):
    x = np.linspace(0, 1, points)
    draws = np.random.default_rng(seed).normal(size=(n, 3))
    return np.array([a * np.sin(2 * np.pi * x + b) + c for a, b, c in draws])


def tiny(solve=smooth, resolutions=((9,), (17,)), costs=COSTS, n=40, **more):
    return FunctionTask(solve, fields(n, resolutions[-1][0]), resolutions, costs, **{"name": "tiny", **more})


def tiny3(solve=smooth):
    return tiny(solve, ((5,), (9,), (17,)), (1.0, 2.0, 5.0))


def tiny_burgers():
    return Burgers(resolutions=((9,), (17,)), viscosity=0.05)


def tiny_darcy():
    return Darcy(resolutions=((6, 6), (8, 8), (12, 12)))


# Runs.


def create(folder, method="mra-uhat", task=None, seed=0, **settings):
    from mrafno.run import Run

    return Run.create(folder, task or tiny(), method, seed, **{**SETTINGS, **settings})


def answer(run, queries, **how):
    """Simulate and tell."""
    for query in queries:
        run.tell(query.id, run.task.solve(query.f[None], query.level)[0], **how)


def set_up(run):
    """Have the initial and the test examples."""
    answer(run, run.ask(1000))
    return run


@cache
def _template(method, settings):
    """A run with its first examples, trained on them; settings as JSON, which can be hashed."""
    folder = Path(tempfile.mkdtemp(prefix="mrafno-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with create(folder / "run", method, **json.loads(settings)) as run:
        set_up(run).train_and_evaluate_if_due()
    return folder / "run"


def ready(folder, method="mra-uhat", task=None, **settings):
    """A run of the tiny task that has its first examples and has learnt from them; made once, then copied."""
    from mrafno.run import Run

    shutil.copytree(_template(method, json.dumps(settings, sort_keys=True)), folder)
    return Run.open(folder, task or tiny())


def files(folder):
    """Everything in a folder: names and contents."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def ledger_bytes(run):
    return (run.ledger.folder / "ledger.jsonl").read_bytes()


def decisions(state):
    """All that must be the same whatever happened to the driver, and not what tells times."""
    queries = [
        (q.id, q.kind, q.row, q.level, q.step, q.cost, q.status, {k: v for k, v in q.choice.items() if k != "seconds"})
        for q in state.queries.values()
    ]
    trainings = [(t.added, t.step, t.loss, t.out_of_fold_error, t.shift, t.prequential_errors) for t in state.trainings]
    evaluations = [(e.step, e.cost, e.metrics) for e in state.evaluations]
    return {"queries": queries, "trainings": trainings, "evaluations": evaluations}


def choices(state):
    return [(q.row, q.level) for q in state.of_kind("pool")]


def weights(run):
    """The surrogate's bits."""
    found = {name: value.numpy().tobytes() for name, value in run.surrogate.weights.items()}
    return found, run.surrogate.shift, run.surrogate.normaliser


def saved_weights(folder):
    """Digest of the weights in the checkpoint, and how many fits made them."""
    described = json.loads((folder / "surrogate" / "surrogate.json").read_bytes())
    content = (folder / "surrogate" / f"weights-{described['tensors'][:16]}.safetensors").read_bytes()
    return hashlib.sha256(content).hexdigest(), described["fits"]


@contextlib.contextmanager
def advanced(folder, steps=6, method="mra-uhat", task=None, seed=0, settings=None, **how):
    """A run that was advanced."""
    with create(folder, method, task, seed, **(settings or {})) as run:
        run.advance(total_steps=steps, **how)
        yield run


def loop_of(run, **options):
    """The loop of a run by itself, without goals."""
    from mrafno.run.goals import Goals, SimulationOptions
    from mrafno.run.loop import Loop

    parts = (run.recorder, run.session, run.trainer, run.task)
    how = {"goals": Goals(), "options": SimulationOptions(**options), "watch": lambda phase, done=None: None}
    return Loop(*parts, ask=run.ask_for_loop, **how)


# Drivers that die.


def drive(folder, steps, settings, checkpoint, phase, how):
    """Begin a run or go on with it, to its end; ``phase`` is told what it is doing."""
    import torch

    from mrafno.run import Run
    from mrafno.run import trainer as learning

    torch.set_num_threads(1)
    learning._CHECKPOINT_SECONDS = checkpoint
    task = tiny(counted)

    def watch(now, done=None):
        phase[:1] = now[:1].encode()

    exists = (folder / "ledger.jsonl").exists()
    with Run.open(folder, task) if exists else create(folder, task=task, **settings) as run:
        run.advance(total_steps=steps, watch=watch, **how)


def forked(work):
    """A child that does the work; it ends with 0, with 2 if it was interrupted, and else with 1."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except KeyboardInterrupt:
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def die_in_file_operation(number):
    """Kill this process instead of its file operation with this number; if that is a write, in the middle of it."""
    left = number

    def mortal(call, name):
        def counting(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write":
                    call(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return counting

    for name in ("write", "fsync", "replace", "rename", "unlink", "ftruncate"):
        setattr(os, name, mortal(getattr(os, name), name))


def finished_simulations(folder):
    """What nobody may simulate again: what was told, and what workers have spooled."""
    from mrafno.run.state import RunState
    from mrafno.simulation.spool import read_spool
    from mrafno.storage.ledger import Ledger

    if not (folder / "ledger.jsonl").exists():
        return set()
    ledger = Ledger.open(folder)
    state = RunState.of(ledger.events)
    spooled = read_spool(folder / "spool").observations
    done = [q for q in state.queries.values() if q.status == "told" or q.id in spooled]
    return {digest(ledger.read_array(q.input), q.level) for q in done}


@cache
def _warm_up():
    """Load here what a first fit loads, or every child would; with one thread this process stays one that can fork."""
    os.environ["COUNTS"] = os.devnull
    with tempfile.TemporaryDirectory() as folder:
        drive(Path(folder, "run"), 0, {}, 30.0, bytearray(1), {})


def torment(folder, *, deaths, seed, manner, steps=6, settings=None, workers=0):
    """Kill a run and resume it, again and again; if it ends too early, another one. What came of it, as JSON values.

    Args:
        manner: ``time`` and ``interrupt`` end the driver after a random time, with SIGKILL and SIGINT, and ``file`` in
            a random file operation.
    """
    from mrafno.run.state import RunState
    from mrafno.simulation.executors import process_pool
    from mrafno.storage.ledger import Ledger

    rng = np.random.default_rng(seed)
    settings = settings or {}
    phase = mmap.mmap(-1, 1)
    how = {"executor": partial(process_pool, workers)} if workers else {}

    def attempt(name, checkpoint, before=None):
        os.environ["COUNTS"] = str(folder / f"{name}.counts")

        def work():
            if before is not None:
                before()
            drive(folder / name, steps, settings, checkpoint, phase, how)

        return forked(work)

    def outcome(name):
        state = RunState.of(Ledger.open(folder / name).events)
        return decisions(state), saved_weights(folder / name)

    _warm_up()
    start = time.perf_counter()
    if os.waitstatus_to_exitcode(os.waitpid(attempt("reference", 30.0), 0)[1]):
        raise RuntimeError("the reference did not get to its end")
    # A pool takes its time to begin, again after every death.
    max_failure_rate = max(0.4, (1.0 if workers else 0.3) * (time.perf_counter() - start))
    expected = outcome("reference")
    report = {"deaths": 0, "runs": 0, "different": 0, "again": [], "lost": 0, "phases": {}, "codes": [], "stopped": 0}
    report |= {"slowest": 0.0, "unsafe": 0}
    while report["deaths"] < deaths:
        name = f"run-{report['runs']}"
        report["runs"] += 1
        kept, done = b"", []
        while True:
            dies = report["deaths"] < deaths
            before = partial(die_in_file_operation, int(rng.integers(1, 120))) if dies and manner == "file" else None
            pid = attempt(name, float(rng.choice([0.0, 30.0])), before)
            if dies and manner != "file":
                time.sleep(rng.uniform(0.005, max_failure_rate))
                os.kill(pid, signal.SIGINT if manner == "interrupt" else signal.SIGKILL)
            told = time.perf_counter()
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code == 0:
                break
            report["slowest"] = max(report["slowest"], time.perf_counter() - told) if manner != "file" else 0.0
            if code not in (-signal.SIGKILL, 2):
                report["codes"].append(code)
                break
            report["deaths"] += 1
            now = phase[:1].decode().strip("\0")
            report["phases"][now] = report["phases"].get(now, 0) + 1
            # What was recorded stays where it is, to the last byte.
            ledger = folder / name / "ledger.jsonl"
            content = ledger.read_bytes() if ledger.exists() else b""
            report["lost"] += not content.startswith(kept)
            report["stopped"] += b'"kind":"stopped","data":{"reason":"interrupted"}' in content[len(kept) :]
            kept = content[: content.rfind(b"\n") + 1]
            lines = (folder / f"{name}.counts").read_text().splitlines() if (folder / f"{name}.counts").exists() else []
            done.append((len(lines), finished_simulations(folder / name)))
            report["unsafe"] = max(report["unsafe"], len(set(lines) - done[-1][1]))
        report["lost"] += not (folder / name / "ledger.jsonl").read_bytes().startswith(kept)
        report["different"] += outcome(name) != expected
        lines = (folder / f"{name}.counts").read_text().splitlines()
        report["again"] += [line for offset, known in done for line in lines[offset:] if line in known]
    return {**report, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    print(json.dumps([torment(Path(job.pop("folder")), **job) for job in json.loads(sys.argv[1])]))
