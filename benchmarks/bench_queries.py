"""What is lost where queries are not chosen one by one: errors at equal cost, of batches and of asynchronous queries.

    python -m benchmarks.bench_queries [--steps 48] [--seeds 2]

Runs of mra-auto on burgers with 17 and 65 nodes. Batches of 1, 4 and 16 are chosen together; asynchronous queries are
chosen as workers become free, 4 or 16 of them, with simulations that wait as long as a fit takes. Errors are on 100
fine test inputs, measured on the way and read at equal total costs; the ratio is the geometric mean over the costs that
all runs of a seed passed, against choices one by one.
"""

import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.bench_parallel import SETTINGS
from benchmarks.record import Report, arguments
from benchmarks.waiting import problem, task_of
from mrafno.analysis.curves import Curve
from mrafno.grids import Array
from mrafno.run import Run

#: Batch, and workers of an asynchronous run, or 0.
WAYS = {
    "one by one": (1, 0),
    "batches of 4": (4, 0),
    "batches of 16": (16, 0),
    "asynchronous, 4 workers": (1, 4),
    "asynchronous, 16 workers": (1, 16),
}
TEST, COSTS = 100, 12


def curve(way: str, steps: int, seed: int, seconds: float) -> tuple[Curve, float]:
    """The error curve of a run, and the mean seconds of its fits."""
    batch, workers = WAYS[way]
    task = task_of(seconds if workers else 0.0)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {**SETTINGS, "test": TEST, "batch": batch, "evaluate": max(batch, steps // 8)}
        with Run.create(Path(folder) / "run", task, seed=seed, **settings) as run:
            for query in run.ask(1000):
                run.tell(query.id, problem().solve(query.f[None], query.level)[0])
            if workers:
                with ThreadPoolExecutor(workers) as executor:
                    run.advance(steps=steps, executor=executor, workers=workers, asynchronous=True)
            else:
                run.advance(steps=steps)
            found = run.state.error_curve("training")
            fits = statistics.mean(fit.seconds for fit in run.state.trainings)
    assert found is not None, "there are test examples"
    return found, fits


def at(costs: Array, one: Curve) -> Array:
    """Errors at these costs."""
    return np.asarray(np.exp(np.interp(costs, one.costs, np.log(one.errors))))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    report = Report("quality", "What batches and asynchronous queries lose", __doc__, given)
    curves: dict[str, list[Curve]] = {way: [] for way in WAYS}
    for seed in range(given.seeds):
        seconds = 0.0
        for way in WAYS:
            one, fits = curve(way, given.steps, seed, seconds)
            seconds = seconds or fits
            curves[way].append(one)
    table = report.table(
        f"After {given.steps} choices, {given.seeds} seeds",
        {"queries": "", "last error": ".4f", "cost": ",.0f", "error by that of one by one": ".2f"},
    )
    means: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(given.seeds):
        ours = [curves[way][seed] for way in WAYS]
        low, high = max(one.costs[0] for one in ours), min(one.costs[-1] for one in ours)
        costs = np.geomspace(low, high, COSTS + 1)[1:]
        for way in WAYS:
            means[way].append(float(np.exp(np.log(at(costs, curves[way][seed])).mean())))
    for way, found in curves.items():
        ratio = report.ratio(f"error at equal cost, {way} / one by one", means[way], means["one by one"])
        last, cost = (float(np.exp(np.mean(np.log([values[-1] for values in column])))) for column in (
            [one.errors for one in found], [one.costs for one in found]
        ))  # fmt: skip
        table.add(way, last, cost, ratio.median)
    report.save()


if __name__ == "__main__":
    main()
