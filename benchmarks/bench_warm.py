"""A run's surrogate, which goes on from its last weights, beside one trained from scratch on the same examples.

    python -m benchmarks.bench_warm [--steps 50 100 200] [--iterations 4000]

Burgers, mra-uhat. Both are measured on the run's 200 test examples; the scratch one is what `fit` gives by default.
"""

import argparse
import tempfile
import time
from pathlib import Path

from mrafno.run import Run
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--iterations", type=int, default=None, help="of the fit from scratch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", default="mra-uhat")
    arguments = parser.parse_args()
    print(f"{'step':>5} {'examples':>9} {'warm':>8} {'scratch':>8} {'ratio':>6} {'warm s':>8} {'scratch s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for step in arguments.steps:
            # A run of its own for each: the one fit more at the end of a shorter run is none of a longer one's.
            path = Path(folder, f"run-{step}")
            with Run.create(path, get_task("burgers"), arguments.method, arguments.seed, evaluate=1000) as run:
                run.advance(steps=step)
                warm = run.state.evaluations[-1].metrics["relative_l2"]
                spent = sum(training.seconds for training in run.state.trainings)
                scratch = get_surrogate("ensemble", run.task.domain, seed=arguments.seed)
                started = time.perf_counter()
                scratch.fit(run.examples(), iterations=arguments.iterations)
                seconds = time.perf_counter() - started
                error = run.metrics(scratch).relative_l2
                n = len(run.state.trained_on)
            print(f"{step:>5} {n:>9} {warm:>8.4f} {error:>8.4f} {warm / error:>6.2f} {spent:>8.0f} {seconds:>10.0f}")


if __name__ == "__main__":
    main()
