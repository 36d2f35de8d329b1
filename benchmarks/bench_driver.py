"""What a run's driver adds to each simulation, with simulations that take no time.

A query is recorded, sent to a worker, simulated there and spooled, taken back, and recorded. Learning and choosing are
left out: the queries are those of a run's first examples, which nobody chooses. Beside it the same executor maps a
function that does nothing over as many calls, with as many in flight. By the clock, since much of it is waiting for
disks and other processes; the two take turns. Then where the driver's own time goes, with simulations in its process.
"""

import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.run import Run
from mrafno.simulation.child_process import close_children, simulate_in_child
from mrafno.simulation.executors import InProcess, dask_executor, process_pool
from mrafno.simulation.packing import pack_task
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.spool import clear_spool
from mrafno.storage.layout import SPOOL
from mrafno.tasks import FunctionTask

#: Functions whose share of the driver's time is told, by file and name.
PARTS = {
    "fsync": ("", "<built-in method posix.fsync>"),
    "ledger lines": ("ledger.py", "append"),
    "arrays": ("arrays.py", "write_array"),
    "spooling": ("spool.py", "write_result"),
    "clearing the spool": ("spool.py", "clear_spool"),
    "restricting inputs": ("base.py", "restrict"),
}


def made(folder: Path, queries: int) -> Run:
    """A run whose first examples are so many."""
    candidates = np.random.default_rng(0).normal(size=(queries + 1, 129))
    # Input plus level: a function of NumPy's, so that workers need not import this module.
    task = FunctionTask(np.add, candidates, resolutions=(33, 129), costs=(1.0, 41.2))
    return Run.create(folder, task, method="random-mix", initial=queries // 2, test=0)


def driven(run: Run, executor: Executor, workers: int, queries: int, spool: bool = True) -> tuple[float, float]:
    """Per query, of asking, submitting, collecting and telling with all workers kept busy: seconds by the clock, and
    of processor time in this process."""
    place = run.ledger.folder / SPOOL
    with Scheduler(run.task, executor, spool=place if spool else None) as flying:
        start, used = time.perf_counter(), time.process_time()
        left = queries
        while left or flying.running():
            if left and len(flying.running()) < workers:
                [query] = run.ask(1)
                flying.submit(query)
                left -= 1
                continue
            found = flying.next()
            assert found is not None
            assert found.output is not None, found.reason
            run.tell(found.id, found.output, seconds=found.seconds)
            if spool:
                clear_spool(place, [found.id])
        return (time.perf_counter() - start) / queries, (time.process_time() - used) / queries


def mapped(executor: Executor, workers: int, queries: int) -> float:
    """Seconds per call of the executor alone, with as many in flight."""
    start = time.perf_counter()
    flying = set()
    for number in range(queries):
        flying.add(executor.submit(abs, number))
        if len(flying) >= workers:
            flying -= wait(flying, return_when="FIRST_COMPLETED").done
    wait(flying)
    return (time.perf_counter() - start) / queries


@contextmanager
def working(make: Callable[[], Executor], workers: int) -> Iterator[tuple[Executor, float]]:
    """An executor whose workers have started, and how many seconds that took."""
    start = time.perf_counter()
    with make() as executor:
        done = wait([executor.submit(time.sleep, 0.2) for _ in range(4 * workers)]).done
        assert all(future.exception() is None for future in done)
        yield executor, time.perf_counter() - start


def table(report: Report, folder: Path, workers: int, queries: int, rounds: int) -> None:
    found = report.table(
        f"Milliseconds per query, medians of {rounds} rounds of {queries}",
        {
            "executor": "", "workers": "d", "start, s": ".1f", "driver": ".2f", "its CPU": ".2f", "bare call": ".3f",
            "driver / bare call": ".1f",
        },
    )  # fmt: skip
    kinds: list[tuple[str, int, Callable[[], Executor]]] = [
        ("in-process", 1, InProcess),
        ("process pool", workers, partial(process_pool, workers)),
        ("Dask", workers, partial(dask_executor, workers=workers)),
    ]
    for name, number, make in kinds:
        with working(make, number) as (executor, seconds):
            times: list[tuple[float, float, float]] = []
            # Workers import what they need with their first simulation.
            with made(folder / f"first-{name}".replace(" ", "-"), 4 * number) as run:
                driven(run, executor, number, 4 * number, spool=number > 1)
            for turn in range(rounds):
                with made(folder / f"{name}-{turn}".replace(" ", "-"), queries) as run:
                    times.append(
                        (*driven(run, executor, number, queries, spool=number > 1), mapped(executor, number, queries))
                    )
        columns = [list(column) for column in zip(*times, strict=True)]
        ours, own, alone = (1e3 * statistics.median(column) for column in columns)
        ratio = report.ratio(f"{name}, {number} workers: driver / bare call", columns[0], columns[2])
        found.add(name, number, seconds, ours, own, alone, ratio.median)
    report.note("Start: until all workers are there. Bare call: the same executor calls a function that does nothing.")


def profile(report: Report, folder: Path, queries: int) -> None:
    """Shares of the driver's time where everything, spooling included, is done by one process."""
    profiler = cProfile.Profile()
    with made(folder / "profile", queries) as run:
        profiler.enable()
        seconds, _ = driven(run, InProcess(), 1, queries)
        profiler.disable()
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    found = report.table(
        f"Where {1e3 * seconds:.2f} ms per query go, in one process and spooled, profiled",
        {"part": "", "ms per query": ".3f", "share": ".0%"},
    )
    for name, (file, function) in PARTS.items():
        spent = sum(row[3] for key, row in stats.items() if key[0].endswith(file) and key[2] == function)
        found.add(name, 1e3 * spent / queries, spent / (seconds * queries))
    report.note("Parts overlap: ledger lines, arrays and spooling wait for fsync too.")


def isolation(report: Report, folder: Path, simulations: int = 8) -> None:
    """What a child process adds to a simulation: one that stays, and a new one each time."""
    found: dict[bool, float] = {}
    for fresh in (True, False):
        with made(folder / f"isolated-{fresh}", simulations) as run:
            task = pack_task(run.task)
            start = time.perf_counter()
            for query in run.ask(simulations):
                assert simulate_in_child(task, query).output is not None
                if fresh:
                    close_children()
            close_children()
        found[fresh] = (time.perf_counter() - start) / simulations
    report.note(
        f"isolate, limit, memory: {1e3 * found[False]:.0f} ms a simulation with one child for {simulations}, "
        f"{1e3 * found[True]:.0f} ms with a new child for each: ratio {found[False] / found[True]:.2f}."
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--queries", type=int, default=200, help="of each round (default: 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: the system's temporary folder)")
    options = parser.parse_args()
    report = Report("driver", "What a run's driver adds to a simulation", __doc__, options)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        table(report, Path(name), options.workers, options.queries, options.rounds)
        profile(report, Path(name), options.queries)
        isolation(report, Path(name))
    report.save()


if __name__ == "__main__":
    main()
