"""Five kinds of inference on the same fixed examples: Table 1 of the paper.

Each run draws 400 inputs. In the mix ``mixed`` 200 are simulated on the finest mesh and 200 on the coarsest; in
``coarse`` all 400 on the coarsest. Every method is trained on both mixes and measured on the same 200 test examples of
the finest mesh.

The result of a run is a file, named by everything that determines it, so an interrupted study continues.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mrafno._version import __version__
from mrafno.analysis.metrics import evaluate
from mrafno.data.cache import solve_examples
from mrafno.data.dataset import Dataset
from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.simulation.executors import process_pool
from mrafno.studies.summary import write_json
from mrafno.surrogate import SURROGATES, get_surrogate
from mrafno.surrogate.out_of_fold import Watch
from mrafno.tasks import Task, get_task

#: In the order of the paper's table.
METHODS = ("point", "dropout", "sgld", "svi", "ensemble")
MIXES = ("mixed", "coarse")
TEST_SEED = 10_000
#: Test examples of the first seed whose predictions are shown on the page.
SHOWN = 3

#: Li et al. (2024), Table 1: relative L2, NLL, and error increase in percent when fine examples become coarse.
PAPER: dict[str, dict[str, tuple[float, float | None, float]]] = {
    "burgers": {
        "point": (0.0575, None, 296),
        "dropout": (0.0791, 177, 332),
        "sgld": (0.0804, 223, 201),
        "svi": (0.1182, 392, 111),
        "ensemble": (0.0586, 44.6, 287),
    },
    "darcy": {
        "point": (0.0891, None, 219),
        "dropout": (0.1038, 4448, 233),
        "sgld": (0.0933, 3683, 184),
        "svi": (0.0946, 4028, 188),
        "ensemble": (0.0876, 1168, 202),
    },
}


@dataclass(frozen=True)
class Setup:
    """Settings of the study; all are part of a run's name."""

    task: str
    preset: str = "fast"
    examples: int = 200
    tests: int = 200
    iterations: int | None = None

    @staticmethod
    def quick(task: str, preset: str = "fast") -> "Setup":
        """A study that takes a minute or two, and shows that everything works and nothing about accuracy."""
        return Setup(task, preset, examples=20, tests=20, iterations=60)


@dataclass(frozen=True)
class Job:
    """One run: a method, a seed and a mix of examples."""

    setup: Setup
    method: str
    seed: int
    mix: str

    @property
    def file(self) -> str:
        """Name of the result's file."""
        s = self.setup
        size = f"{s.examples}-{s.tests}" + (f"-{s.iterations}" if s.iterations else "")
        return f"{s.task}-{s.preset}-{size}-{self.method}-{self.mix}-{self.seed}.json"


def jobs(setup: Setup, methods: Sequence[str], seeds: int) -> list[Job]:
    """All runs of a study, the first seed's first."""
    for method in methods:
        if method not in SURROGATES:
            raise MrafnoError(f"study: unknown method {method!r}. The known ones are {', '.join(METHODS)}.")
    if setup.task not in PAPER:
        raise MrafnoError(f"study: the fixed-data study has the tasks {' and '.join(PAPER)}, not {setup.task!r}.")
    return [Job(setup, method, seed, mix) for seed in range(seeds) for method in methods for mix in MIXES]


def examples(task: Task, setup: Setup, seed: int, mix: str, *, progress: bool = False) -> Dataset:
    """A run's training examples; the inputs are the same for both mixes."""
    f = task.sample(2 * setup.examples, seed=seed)
    fine = setup.examples if mix == "mixed" else 0
    coarse = task.restrict(f[fine:], 0), solve_examples(task, f[fine:], 0, progress=progress)
    pairs: list[tuple[Array, Array] | None] = [coarse, *[None] * (task.levels - 1)]
    if fine:
        last = task.levels - 1
        pairs[-1] = f[:fine], solve_examples(task, f[:fine], last, progress=progress)
    return Dataset.of(task.domain, pairs)


def run_job(job: Job, folder: Path, watch: Watch | None = None) -> dict[str, Any]:
    """The result of a run, from its file if that exists, else computed and written."""
    path = folder / job.file
    if path.exists():
        return dict(json.loads(path.read_text()))
    task = get_task(job.setup.task)
    data = examples(task, job.setup, job.seed, job.mix)
    f = task.sample(job.setup.tests, seed=TEST_SEED)
    truth = solve_examples(task, f, task.levels - 1, progress=False)
    training = {"iterations": job.setup.iterations} if job.setup.iterations else {}
    surrogate = get_surrogate(job.method, task.domain, preset=job.setup.preset, seed=job.seed, training=training)
    start = time.perf_counter()
    fit = surrogate.fit(data, watch=watch)
    result: dict[str, Any] = {
        "job": asdict(job),
        "version": __version__,
        "seconds": time.perf_counter() - start,
        "threads": torch.get_num_threads(),
        "out_of_fold_error": fit.out_of_fold_error if math.isfinite(fit.out_of_fold_error) else None,
        "shift": fit.shift,
        "events": list(fit.events),
        "metrics": evaluate(surrogate, f, truth).as_json(),
    }
    if job.seed == 0 and job.mix == "mixed":
        shown = surrogate.predict(f[:SHOWN], check=False)
        result["shown"] = {"mean": shown.mean.tolist(), "std": shown.std.tolist()}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    return result


def run_study(
    todo: Sequence[Job],
    folder: Path,
    *,
    workers: int = 1,
    watch: Callable[[Job, float, float, float], None] | None = None,
    done: Callable[[Job, dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """All results, in the order of ``todo``.

    One worker uses all cores for one run after another; several share the cores, which is faster for the whole study.
    ``watch`` is called with the progress inside a run (with one worker only), ``done`` after every run.
    """
    results: dict[Job, dict[str, Any]] = {}
    if workers == 1:
        for job in todo:
            own: Watch | None = (lambda d, loss, e, job=job: watch(job, d, loss, e)) if watch else None
            results[job] = run_job(job, folder, own)
            if done:
                done(job, results[job])
    else:
        with process_pool(workers) as pool:
            futures = [(job, pool.submit(run_job, job, folder)) for job in todo]
            try:
                for job, future in futures:
                    results[job] = future.result()
                    if done:
                        done(job, results[job])
            except KeyboardInterrupt:  # the workers ignore it, and a run takes minutes
                pool.kill()
                raise
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return [results[job] for job in todo]


@dataclass(frozen=True)
class Row:
    """A row of the table: means and standard deviations of a method over seeds."""

    method: str
    seeds: int
    error: tuple[float, float]
    nll: tuple[float, float]
    nll_per_value: tuple[float, float]
    increase: tuple[float, float]
    coverage: dict[str, float]
    seconds: float


def table(results: Sequence[dict[str, Any]]) -> list[Row]:
    """Results summarised by method."""
    rows = []
    for method in METHODS:
        mixed, coarse = (
            {r["job"]["seed"]: r for r in results if r["job"]["method"] == method and r["job"]["mix"] == mix}
            for mix in MIXES
        )
        seeds = sorted(mixed.keys() & coarse.keys())
        if not seeds:
            continue
        metrics = [mixed[s]["metrics"] for s in seeds]
        ratios = [100 * (coarse[s]["metrics"]["relative_l2"] / mixed[s]["metrics"]["relative_l2"] - 1) for s in seeds]
        rows.append(
            Row(
                method=method,
                seeds=len(seeds),
                error=_mean_std([m["relative_l2"] for m in metrics]),
                nll=_mean_std([m["nll"] for m in metrics]),
                nll_per_value=_mean_std([m["nll_per_value"] for m in metrics]),
                increase=_mean_std(ratios),
                coverage={p: float(np.mean([m["coverage"][p] for m in metrics])) for p in metrics[0]["coverage"]},
                seconds=float(np.mean([mixed[s]["seconds"] for s in seeds])),
            )
        )
    return rows


def _mean_std(values: Sequence[float | None]) -> tuple[float, float]:
    numbers = np.asarray(values, dtype=np.float64)  # with NaN for what was not finite
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
