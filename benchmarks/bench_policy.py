"""What each rule of the training policy buys: runs with and without it, on three tasks.

    python -m benchmarks.bench_policy [TASK ...] [--variants NAME,...] [--seed 0]

Tasks: ``own``, -u'' + 50 u^3 = f on 17 and 65 nodes with inputs of very different size, 60 steps; ``burgers``, 60
steps; ``darcy``, 25 steps with three members. One row per run: the error at its end, the geometric mean of the errors
that were evaluated on the way, and processor time. Test inputs have a seed of their own, which no reported result uses.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.record import Report, arguments
from benchmarks.regimes.problems import cubic
from mrafno.run import Run
from mrafno.run.trainer import Trainer
from mrafno.tasks import FunctionTask, Task, get_task

VARIANTS: dict[str, dict[str, Any]] = {
    "policy": {},
    "no updates": {"update_every": 1_000_000},
    "never from scratch": {"training": {"scratch_below": 0}},
    "no refit at the end": {},
    "all iterations on few examples": {"training": {"scale_iterations": False}},
    "the same and levels start apart": {"training": {"scale_iterations": False, "full_size": 0}},
}


def own() -> Task:
    """A task as a person may bring it."""
    x, rng = np.linspace(0, 1, 65), np.random.default_rng(7)
    kernel = np.exp(-0.5 * ((x[:, None] - x) / 0.15) ** 2) + 1e-9 * np.eye(65)
    inputs = rng.normal(size=(400, 65)) @ np.linalg.cholesky(kernel).T * np.exp(rng.uniform(0, 4, (400, 1)))
    return FunctionTask(cubic, inputs, (17, 65), (1, 16), name="cubic", zero_boundary=[(True, True)], batched=True)


TASKS: dict[str, tuple[Callable[[], Task], int, dict[str, Any]]] = {
    "own": (own, 60, {"test": 100}),
    "burgers": (lambda: get_task("burgers"), 60, {"test": 100, "test_seed": 30_000}),
    "darcy": (lambda: get_task("darcy"), 25, {"test": 40, "test_seed": 30_000, "members": 3, "pool": 200}),
}


def without_last_refit(self: Trainer, watch: Any = None, *, last: bool = False) -> None:
    """As the trainer's own method, but without the refit at the end of a run."""
    _IF_DUE(self, watch)
    if last and self.state.outdated:
        self.evaluate()


_IF_DUE = Trainer.train_and_evaluate_if_due


def measure(task: str, variant: str, seed: int) -> tuple[float, float, float]:
    """Error at the end, geometric mean of the errors after the first, seconds of processor time."""
    make, steps, settings = TASKS[task]
    method = without_last_refit if variant == "no refit at the end" else _IF_DUE
    started = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(Trainer, "train_and_evaluate_if_due", method),
        Run.create(Path(folder) / "run", make(), seed=seed, **settings, **VARIANTS[variant]) as run,
    ):
        run.advance(steps=steps)
        errors = np.array([e.metrics["relative_l2"] for e in run.state.evaluations])
    return float(errors[-1]), float(np.exp(np.log(errors[1:]).mean())), time.process_time() - started


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=f"of {', '.join(TASKS)}")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    report = Report("policy", "Rules of the training policy", __doc__, given)
    table = report.table(
        "Errors and processor time", {"task": "", "variant": "", "error": ".4f", "mean": ".4f", "seconds": ".0f"}
    )
    for task in given.tasks:
        for variant in given.variants.split(","):
            error, mean, seconds = measure(task, variant, given.seed)
            table.add(task, variant, error, mean, seconds)
    report.save()


if __name__ == "__main__":
    main()
