"""Methods compared at equal total cost on small problems that differ in what choosing is about.

    python -m benchmarks.regimes [PROBLEM ...] [--half building] [--methods NAME,...] [--seeds 3] [--out build/regimes]

Problems are those of :mod:`benchmarks.regimes.problems`; half of them are held out while a method is built. A method is
a name, or one with a rate, ``mra-uhat@0.5``. All begin with the same examples, which the total has: ten of the coarsest
mesh and two of each finer one, on inputs that are typical of all. A run is kept in the output folder.

One table per problem: relative L2 error on fine test examples at each total cost, geometric mean over seeds, and the
ratio to the best method in hindsight at that cost. The last table has, per method, the geometric mean of that ratio
over all problems and costs, and the worst.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.regimes.problems import PROBLEMS, Problem
from mrafno.analysis.curves import Curve, at_costs
from mrafno.grids import Array
from mrafno.run import Run, RunReader

METHODS = (
    "mra-auto", "mra-uhat@0.005", "mra-uhat@0.05", "mra-uhat@0.5", "random-low", "random-high", "random-mix",
    "coreset-low", "coreset-high", "coreset-mix", "lcmd-low", "lcmd-high", "lcmd-mix",
)  # fmt: skip


def measured(name: str, problem: Problem, method: str, seed: int, settings: dict[str, Any], folder: Path) -> Curve:
    """Errors against what all examples but the test ones have cost, from a run that is made if it is not there."""
    path = folder / f"{name}-{method}-{seed}"
    rate = method.partition("@")[2]
    if not path.exists():
        started = time.process_time()
        unfinished = path.with_name(f".{path.name}-{time.time_ns()}")
        more: dict[str, Any] = {"alpha": float(rate)} if rate else {}
        task = problem.make()
        more["initial"] = (10, *[2] * (task.levels - 1))
        with Run.create(unfinished, task, method.partition("@")[0], seed, **settings, **more) as run:
            run.advance(budget=problem.costs[-1], count="training")
        unfinished.rename(path)
        print(f"{path.name}: {time.process_time() - started:.0f} s of processor time", flush=True)
    curve = RunReader(path).state.error_curve(count="training")
    assert curve is not None, "a run with test examples measures its error"
    return curve


def errors_at(curves: list[Curve], costs: tuple[float, ...]) -> Array:
    """Geometric mean over seeds of the error at each cost; after a curve's end its last error stays."""
    reached = [
        Curve((*curve.costs, max(costs[-1], curve.costs[-1])), (*curve.errors, curve.errors[-1])) for curve in curves
    ]
    return np.asarray(np.exp(np.mean(np.log(at_costs(reached, costs)), axis=0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--half", choices=("building", "held out"), help="all problems of one half")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--costs", type=int, default=3, help="compare at the first of the costs only")
    parser.add_argument("--out", type=Path, default=Path("build/regimes"))
    given = parser.parse_args()
    names = given.problems or [n for n, p in PROBLEMS.items() if given.half in (None, p.half)]
    methods = given.methods.split(",")
    settings = {"design": "spread", "batch": given.batch, "test": 150, "evaluate": max(5, given.batch)}
    ratios: dict[str, list[float]] = {method: [] for method in methods}
    for name in names:
        problem = PROBLEMS[name]
        problem = replace(problem, costs=problem.costs[: given.costs])
        found = {
            method: errors_at(
                [measured(name, problem, method, seed, settings, given.out) for seed in range(given.seeds)],
                problem.costs,
            )
            for method in methods
        }
        best = np.min(list(found.values()), axis=0)
        print(f"\n{name} ({problem.half})\n{'total cost':<16}" + "".join(f"{cost:>16g}" for cost in problem.costs))
        for method, errors in found.items():
            print(f"{method:<16}" + "".join(f"{e:>9.4f} ({e / b:4.2f})" for e, b in zip(errors, best, strict=True)))
            ratios[method] += [float(ratio) for ratio in errors / best]
    print(f"\n{'ratio to the best in hindsight':<32}{'mean':>8}{'worst':>8}")
    for method, values in sorted(ratios.items(), key=lambda item: float(np.mean(np.log(item[1])))):
        print(f"{method:<32}{np.exp(np.mean(np.log(values))):>8.3f}{max(values):>8.2f}")


if __name__ == "__main__":
    main()
