"""How often a run is right about itself: its estimate, its forecast and its intervals against fine test examples.

    python -m benchmarks.bench_estimate [PROBLEM ...] [--methods mra-auto,random-mix] [--seeds 1] [--steps 40]

Runs on the problems of :mod:`benchmarks.regimes.problems` begin with five examples of each mesh and measure their error
on 150 test examples after every fifth choice. One row per measurement with five fine examples or more, then the
figures: the share of estimates whose interval holds the error, the median of estimate / error, the same for forecasts
of the last error from half of the choices, and the share of values inside the 90 % intervals of predictions. With
``--runs`` the folders of runs that exist are read instead.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Report, arguments
from benchmarks.regimes.problems import PROBLEMS
from mrafno.analysis.forecast import LearningCurve
from mrafno.run import Run, RunReader
from mrafno.run.state import RunState

#: Interval held the error, and predicted / true.
Score = tuple[bool, float]


def estimates(state: RunState, name: str) -> list[Score]:
    """Of each measurement, the estimate of the fit that was measured."""
    found: list[Score] = []
    for evaluation in state.measurements:
        fits = [fit for fit in state.trainings if fit.step <= evaluation.step]
        estimate, error = fits[-1].estimate, float(evaluation.metrics["relative_l2"])
        if estimate is None:
            continue
        held = estimate.low <= error <= estimate.high
        found.append((held, estimate.error / error))
        print(
            f"{name:<28}{evaluation.step:>5}{error:>9.4f}{estimate.error:>9.4f}  {estimate.low:.4f} to "
            f"{estimate.high:.4f}{'' if held else '  missed'}  coverage {evaluation.metrics['coverage']['0.9']:.2f}",
            flush=True,
        )
    return found


def forecasts(state: RunState) -> list[Score]:
    """Of the last error, from the errors measured until half of the choices."""
    measured, first = state.measurements, len(state.of_kind("initial", "told"))
    half = [e for e in measured if e.step <= measured[-1].step / 2]
    curve = LearningCurve.fit([first + e.step for e in half], [float(e.metrics["relative_l2"]) for e in half])
    if curve is None:
        return []
    error = float(measured[-1].metrics["relative_l2"])
    middle, low, high = curve.error_at(first + measured[-1].step)
    return [(low <= error <= high, middle / error)]


def show(report: Report, what: str, scores: list[Score]) -> None:
    """The share that was held, and the median ratio."""
    if scores:
        held, ratios = zip(*scores, strict=True)
        report.ratio(f"{what}: told / true", ratios, [1.0] * len(ratios))
        report.note(f"{what}: {len(scores)}, interval held {np.mean(held):.2f}, median ratio {np.median(ratios):.2f}")


def made(folder: Path, problem: str, method: str, seed: int, steps: int) -> None:
    """Make a run."""
    settings: dict[str, Any] = {"initial": 5, "batch": 5, "evaluate": 5, "test": 150}
    with Run.create(folder, PROBLEMS[problem].make(), method, seed, **settings) as run:
        run.advance(steps=steps)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--methods", default="mra-auto", help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=Path, nargs="+", help="folders of runs with test examples")
    given = parser.parse_args()
    report = Report("estimate", "How often a run is right about itself", __doc__, given)
    told: list[Score] = []
    foretold: list[Score] = []
    covered: list[float] = []

    def judge(folder: Path, name: str) -> None:
        state = RunReader(folder).state
        told.extend(estimates(state, name))
        foretold.extend(forecasts(state))
        covered.extend(e.metrics["coverage"]["0.9"] for e in state.measurements if e.step >= 10)

    if given.runs:
        for folder in given.runs:
            judge(folder, folder.name)
    else:
        for name in given.problems:
            for method in given.methods.split(","):
                for seed in range(given.seeds):
                    with tempfile.TemporaryDirectory() as folder:
                        made(Path(folder) / "run", name, method, seed, given.steps)
                        judge(Path(folder) / "run", f"{name} {method} {seed}")
    show(report, "estimates", told)
    show(report, "forecasts", foretold)
    if covered:
        report.note(
            f"90 % intervals from 20 examples on: {np.mean(covered):.2f} of the values, {min(covered):.2f} at least."
        )
    report.save()


if __name__ == "__main__":
    main()
