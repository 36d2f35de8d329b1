"""A run's surrogate, which goes on from its last weights, beside one trained from scratch on the same examples.

    python -m benchmarks.bench_warm [--steps 50 100 200] [--iterations 4000]

Burgers, mra-uhat. Both are measured on the run's 200 test examples; the scratch one is what `fit` gives by default.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.record import Report, arguments
from mrafno.run import Run
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--iterations", type=int, default=None, help="of the fit from scratch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", default="mra-uhat")
    given = parser.parse_args()
    report = Report("warm", "Training on from the last weights", __doc__, given)
    table = report.table(
        "Errors, and seconds by the clock",
        {
            "step": "d", "examples": "d", "warm": ".4f", "scratch": ".4f", "ratio": ".2f", "warm s": ".0f",
            "scratch s": ".0f",
        },
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for step in given.steps:
            # A run of its own for each: the one fit more at the end of a shorter run is none of a longer one's.
            path = Path(folder, f"run-{step}")
            with Run.create(path, get_task("burgers"), given.method, given.seed, evaluate=1000) as run:
                run.advance(steps=step)
                warm = run.state.evaluations[-1].metrics["relative_l2"]
                spent = sum(training.seconds for training in run.state.trainings)
                scratch = get_surrogate("ensemble", run.task.domain, seed=given.seed)
                started = time.perf_counter()
                scratch.fit(run.examples(), iterations=given.iterations)
                seconds = time.perf_counter() - started
                error = run.metrics(scratch).relative_l2
                n = len(run.state.trained_on)
            report.ratio(f"{step} steps: error, warm / scratch", [warm], [error])
            table.add(step, n, warm, error, warm / error, spent, seconds)
    report.save()


if __name__ == "__main__":
    main()
