"""Runs whose simulations wait: how much quicker workers make them, by the clock, and how near that is to ideal.

    python -m benchmarks.bench_parallel [--workers 1,2,4,8,16] [--rounds 8] [--dask] [--synchronous]

A simulation sleeps, so that it takes no processor, and solves burgers. Its seconds are ten times those of a fit, as
many, or a tenth; a fit's are the mean of all fits of a run whose simulations do not wait. First examples are told
before the clock starts, and workers have started. The clock stops when the last output is told: the fit at the end of a
run, on everything and with no simulation beside it, is left out. Ideal is every worker simulating all the time: chosen
simulations times their seconds, by the workers. On a busy machine fits take longer than those before did, so the last
column has the ratio that there was.
"""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.record import Report, Table, arguments
from benchmarks.waiting import problem, task_of
from mrafno.run import Run
from mrafno.simulation.executors import dask_executor, process_pool

#: Seconds of a simulation by those of a fit, and the share of ideal that was to be reached.
TIMES: dict[float, float | None] = {10.0: 0.9, 1.0: 0.7, 0.1: None}
#: Small networks and short fits, so that simulations of ten fits do not take minutes.
SETTINGS: dict[str, Any] = {
    "test": 0,
    "initial": (30, 4),
    "members": 2,
    "network": {"width": 24, "hidden": 32},
    "training": {"iterations": 150},
}


class Times:
    """When outputs were told, and how long fits took."""

    def __init__(self) -> None:
        self.told: list[float] = []
        self.fits: list[float] = []

    def on_told(self, run: Run, query: object) -> None:
        del run, query
        self.told.append(time.perf_counter())

    def on_trained(self, run: Run, training: Any) -> None:
        del run
        self.fits.append(training.seconds)


def advanced(
    seconds: float, steps: int, seed: int, settings: dict[str, Any] | None = None, **how: Any
) -> tuple[float, Times]:
    """Seconds until the last of so many simulations is told, and the times of the run."""
    times, task = Times(), task_of(seconds)
    with tempfile.TemporaryDirectory() as folder:
        with Run.create(Path(folder) / "run", task, seed=seed, **{**SETTINGS, **(settings or {})}) as run:
            for query in run.ask(1000):
                run.tell(query.id, problem().solve(query.f[None], query.level)[0])
            run.train()
        with Run.open(Path(folder) / "run", task, callbacks=[times]) as run:
            start = time.perf_counter()
            run.advance(steps=steps, **how)
    return times.told[-1] - start, times


def warmed(make: Callable[[], Executor], workers: int) -> Executor:
    """An executor whose workers are there and have imported what they need."""
    executor = make()
    f = problem().restrict(problem().sample(1), 0)
    futures: list[Future[Any]] = []
    for _ in range(4 * workers):
        futures.append(executor.submit(task_of(0.0).solve, f, 0))
        # It keeps a worker busy for a moment, so that others get the next call.
        futures.append(executor.submit(time.sleep, 0.1))
    for future in futures:
        future.result()
    return executor


def measure(table: Table, report: Report, fit: float, workers: int, given: Any) -> None:
    """Add the rows of a number of workers."""
    kind = "Dask" if given.dask else "pool"
    make = partial(dask_executor, workers=workers) if given.dask else partial(process_pool, workers)
    how: dict[str, Any] = {} if given.synchronous else {"workers": workers, "asynchronous": True}
    changes = {"batch": workers} if given.synchronous else {}
    with warmed(make, workers) as executor:
        for times, aim in TIMES.items():
            seconds, steps = times * fit, given.rounds * workers
            spent, found = advanced(seconds, steps, given.seed, changes, executor=executor, **how)
            ideal = given.rounds * seconds
            name = f"{kind}, {workers} workers, simulations of {times:g} fits"
            report.ratio(f"{name}: ideal / measured", [ideal], [spent])
            table.add(
                kind, workers, times, seconds, steps, steps * seconds, ideal, spent, steps * seconds / spent,
                ideal / spent, aim, len(found.fits), float(np.mean(found.fits)), seconds / float(np.mean(found.fits)),
            )  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--workers", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=8, help="simulations of each worker (default: 8)")
    parser.add_argument("--fit", type=float, help="seconds of a fit (default: they are measured)")
    parser.add_argument("--dask", action="store_true", help="Dask instead of a pool of processes")
    parser.add_argument("--synchronous", action="store_true", help="batches of as many as there are workers")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    name = "parallel" + "-dask" * given.dask + "-synchronous" * given.synchronous
    report = Report(name, "Simulations in parallel", __doc__, given)
    table = report.table(
        "Seconds by the clock",
        {
            "workers": "", "number": "d", "sim. / fit": "g", "a sim.": ".2f", "sims": "d", "one by one": ".0f",
            "ideal": ".1f", "measured": ".1f", "speed-up": ".1f", "of ideal": ".0%", "aim": ".0%", "fits": "d",
            "a fit": ".2f", "sim. / fit there": ".1f",
        },
    )  # fmt: skip
    fit = given.fit
    if fit is None:
        _, alone = advanced(0.0, 24, given.seed)
        fit = float(np.mean(alone.fits[:-1]))
        report.note(f"Without waiting a fit of such a run takes {fit:.2f} s in the mean of {len(alone.fits) - 1}.")
    for workers in map(int, given.workers.split(",")):
        measure(table, report, fit, workers, given)
    report.save()


if __name__ == "__main__":
    main()
