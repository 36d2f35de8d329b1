"""Doing the runs of a study that are missing: several at a time, in processes with one thread each."""

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
from mrafno.data.pool import PoolSizes, draw
from mrafno.errors import MrafnoError
from mrafno.run.state import RunState
from mrafno.simulation.processes import ProcessPool
from mrafno.studies.active import Job, Setup, read, run_job


@dataclass(frozen=True)
class News:
    """How far a run is.

    Attributes:
        error: at the last measurement.
        phase: what it is doing, or ``ended``, ``kept`` (there was nothing left to do), or ``failed``, of which
            ``reason`` says more.
    """

    step: int
    cost: float
    error: float | None
    phase: str
    reason: str = ""

    @staticmethod
    def of(state: RunState | None, phase: str, reason: str = "") -> "News":
        """Of a run that may not have begun."""
        if state is None:
            return News(0, 0.0, None, phase, reason)
        error = state.measurements[-1].metrics["relative_l2"] if state.measurements else None
        return News(state.step, state.cost, error, phase, reason)


Heard = Callable[[Job, News], None]


def do_runs(todo: Sequence[Job], runs: Path, setup: Setup, *, workers: int, heard: Heard) -> dict[str, str]:
    """Do what is missing of the runs, and return what went wrong, by the run's name, when all others are done.

    Interrupting ends all runs where they are; the same call goes on with them. One worker is this process.
    """
    left = []
    for job in todo:
        state = read(job, runs)
        if state is not None and setup.ended(state):
            heard(job, News.of(state, "kept"))
        else:
            left.append(job)
    runs.mkdir(parents=True, exist_ok=True)
    if workers == 1 or not left:
        return _here(left, runs, setup, heard)
    return _elsewhere(left, runs, setup, min(workers, len(left)), heard)


def prepare(todo: Sequence[Job], runs: Path, workers: int) -> None:
    """Have the first examples of all runs in the cache: once for all methods, on all workers, with a bar of its own."""
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
        inputs = draw(task, PoolSizes(s.initial, s.pool, s.test, s.test_seed), job.seed)
        for level, f in enumerate(np.split(inputs.initial, task.levels)):
            solve_examples(task, f, level, workers=workers)
        solve_examples(task, inputs.test, task.levels - 1, workers=workers)


# In this process.


def _here(todo: Sequence[Job], runs: Path, setup: Setup, heard: Heard) -> dict[str, str]:
    failures = {}
    with _one_thread():
        for job in todo:
            reporter = _Reporter(lambda news, job=job: heard(job, news))  # type: ignore[misc]
            try:
                heard(job, News.of(run_job(job, runs, setup, reporter), "ended"))
            except Exception as error:
                failures[job.name] = _why(error, job, runs)
                heard(job, News.of(reporter.state, "failed", failures[job.name]))
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
    """Passes on where a run is when that changes."""

    def __init__(self, tell: Callable[[News], None], stop: Callable[[], bool] = lambda: False) -> None:
        self.tell, self.stop = tell, stop
        self.state: RunState | None = None
        self.phase = ""

    def __call__(self, state: RunState, phase: str) -> None:
        if self.stop():
            raise KeyboardInterrupt
        # The same phase comes again and again while a surrogate is trained; each step has several phases.
        if phase != self.phase:
            self.state, self.phase = state, phase
            self.tell(News.of(state, phase))


# In processes of their own.


class _Child:
    """What a worker process knows of its parent; set when it starts."""

    news: Any = None
    stop: Any = None
    parent: int = 0

    @classmethod
    def orphaned(cls) -> bool:
        """Whether the parent was killed, which it cannot say itself."""
        return os.getppid() != cls.parent


def _elsewhere(todo: Sequence[Job], runs: Path, setup: Setup, workers: int, heard: Heard) -> dict[str, str]:
    context = get_context("spawn")
    news, stop = context.Queue(), context.Event()
    failures = {}
    with ProcessPool(workers, initializer=_begin, initargs=(news, stop, os.getpid())) as pool:
        futures: dict[Future[News], int] = {
            pool.submit(_do, number, job, runs, setup): number for number, job in enumerate(todo)
        }
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for number, one in _arrived(news):
                    heard(todo[number], one)
                for future in done:
                    job = todo[futures[future]]
                    try:
                        heard(job, future.result())
                    except BrokenProcessPool:
                        raise MrafnoError(
                            "study: a worker process died; if memory ran out, use fewer --workers. Nothing is lost: "
                            "the same call goes on where this one stopped."
                        ) from None
                    except Exception as error:
                        failures[job.name] = _why(error, job, runs)
                        heard(job, News.of(read(job, runs), "failed", failures[job.name]))
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return failures


def _arrived(news: Any) -> Iterator[tuple[int, News]]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield news.get_nowait()


def _begin(news: Any, stop: Any, parent: int) -> None:
    """Of a worker process."""
    torch.set_num_threads(1)
    _Child.news, _Child.stop, _Child.parent = news, stop, parent


def _do(number: int, job: Job, runs: Path, setup: Setup) -> News:
    reporter = _Reporter(
        lambda news: _Child.news.put((number, news)), lambda: _Child.stop.is_set() or _Child.orphaned()
    )
    return News.of(run_job(job, runs, setup, reporter), "ended")


def _why(error: Exception, job: Job, runs: Path) -> str:
    """An error in words; of one that nobody foresaw, the traceback goes to a file beside the run."""
    if isinstance(error, MrafnoError):
        return str(error)
    file = runs / f"{job.name}.error.txt"
    file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"{type(error).__name__}: {error}. See {file}."
