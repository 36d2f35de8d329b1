"""Do the missing runs of a study: several at a time, in processes with one thread each."""

import contextlib
import os
import queue
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mrafno.data.cache import solve_examples
from mrafno.data.pool import draw
from mrafno.errors import MrafnoError
from mrafno.run.recorder import sizes_of
from mrafno.run.state import RunState
from mrafno.simulation.processes import ProcessPool
from mrafno.studies.active import Job, Setup, read, run_job


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run.

    Attributes:
        error: at the last measurement.
        phase: of the run, or ``ended``, ``kept`` (it was complete before), or ``failed`` for a ``reason``.
    """

    step: int
    cost: float
    error: float | None
    phase: str
    reason: str = ""

    @staticmethod
    def of(state: RunState | None, phase: str, reason: str = "") -> "RunProgress":
        """From the state of a run; None if it does not exist yet."""
        if state is None:
            return RunProgress(0, 0.0, None, phase, reason)
        error = state.measurements[-1].metrics["relative_l2"] if state.measurements else None
        return RunProgress(state.step, state.cost, error, phase, reason)


Watcher = Callable[[Job, RunProgress], None]


def run_jobs(todo: Sequence[Job], runs: Path, setup: Setup, *, workers: int, watch: Watcher) -> dict[str, str]:
    """Do the missing runs, and return the reasons of failures by run; a failure does not stop the others.

    Ctrl-C stops all runs; the same call continues them. One worker is this process.
    """
    left = []
    for job in todo:
        state = read(job, runs)
        if state is not None and setup.ended(state):
            watch(job, RunProgress.of(state, "kept"))
        else:
            left.append(job)
    runs.mkdir(parents=True, exist_ok=True)
    if workers == 1 or not left:
        return _run_in_this_process(left, runs, setup, watch)
    return _run_in_workers(left, runs, setup, min(workers, len(left)), watch)


def prepare(todo: Sequence[Job], runs: Path, workers: int) -> None:
    """Simulate the initial and test examples of all runs into the cache, once for all methods, on all workers."""
    known = set()
    for job in todo:
        if (runs / job.name).exists():
            continue
        s = job.settings
        key = (job.task, repr(job.task_settings), job.seed, s.pool, s.initial, s.test)
        if key in known:
            continue
        known.add(key)
        task = job.make_task()
        sizes = sizes_of(s, task.levels)
        inputs, levels = draw(task, sizes, job.seed), np.array(sizes.initial_levels(task.levels))
        for level in range(task.levels):
            solve_examples(task, inputs.initial[levels == level], level, workers=workers)
        solve_examples(task, inputs.test, task.levels - 1, workers=workers)


# In this process.


def _run_in_this_process(todo: Sequence[Job], runs: Path, setup: Setup, watch: Watcher) -> dict[str, str]:
    failures = {}
    with _one_thread():
        for job in todo:
            reporter = _Reporter(lambda progress, job=job: watch(job, progress))  # type: ignore[misc]
            try:
                watch(job, RunProgress.of(run_job(job, runs, setup, reporter), "ended"))
            except Exception as error:
                failures[job.name] = _reason(error, job, runs)
                watch(job, RunProgress.of(reporter.state, "failed", failures[job.name]))
    return failures


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Reporter:
    """Sends the progress of a run when its phase changes."""

    def __init__(self, send: Callable[[RunProgress], None], stop: Callable[[], bool] = lambda: False) -> None:
        self.send, self.stop = send, stop
        self.state: RunState | None = None
        self.phase = ""

    def __call__(self, state: RunState, phase: str) -> None:
        if self.stop():
            raise KeyboardInterrupt
        # While a surrogate is trained the same phase is reported many times; each step has several phases.
        if phase != self.phase:
            self.state, self.phase = state, phase
            self.send(RunProgress.of(state, phase))


# In processes of their own.


class _WorkerState:
    """State of a worker process, set when it starts."""

    progress: Any = None
    stop: Any = None
    parent: int = 0

    @classmethod
    def orphaned(cls) -> bool:
        """Whether the parent was killed."""
        return os.getppid() != cls.parent


def _run_in_workers(todo: Sequence[Job], runs: Path, setup: Setup, workers: int, watch: Watcher) -> dict[str, str]:
    context = get_context("spawn")
    progress, stop = context.Queue(), context.Event()
    failures = {}
    with ProcessPool(workers, initializer=_start_worker, initargs=(progress, stop, os.getpid())) as pool:
        futures: dict[Future[RunProgress], int] = {
            pool.submit(_run_in_worker, number, job, runs, setup): number for number, job in enumerate(todo)
        }
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for number, one in _received(progress):
                    watch(todo[number], one)
                for future in done:
                    job = todo[futures[future]]
                    try:
                        watch(job, future.result())
                    except BrokenProcessPool:
                        raise MrafnoError(
                            "study: a worker process died; if memory ran out, use fewer --workers. Nothing is lost: "
                            "the same call continues the runs."
                        ) from None
                    except Exception as error:
                        failures[job.name] = _reason(error, job, runs)
                        watch(job, RunProgress.of(read(job, runs), "failed", failures[job.name]))
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return failures


def _received(progress: Any) -> Iterator[tuple[int, RunProgress]]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield progress.get_nowait()


def _start_worker(progress: Any, stop: Any, parent: int) -> None:
    """Initialise a worker process."""
    torch.set_num_threads(1)
    _WorkerState.progress, _WorkerState.stop, _WorkerState.parent = progress, stop, parent


def _run_in_worker(number: int, job: Job, runs: Path, setup: Setup) -> RunProgress:
    reporter = _Reporter(
        lambda progress: _WorkerState.progress.put((number, progress)),
        lambda: _WorkerState.stop.is_set() or _WorkerState.orphaned(),
    )
    return RunProgress.of(run_job(job, runs, setup, reporter), "ended")


def _reason(error: Exception, job: Job, runs: Path) -> str:
    """The reason of a failure; the traceback of an unexpected error is written to a file beside the run."""
    if isinstance(error, MrafnoError):
        return str(error)
    file = runs / f"{job.name}.error.txt"
    file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"{type(error).__name__}: {error}. See {file}."
