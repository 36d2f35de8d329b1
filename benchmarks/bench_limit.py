"""How much lower a run's error could be if it had chosen better: beside it what nobody can know before simulating.

    python -m benchmarks.bench_limit [RUN] [--steps 100] [--iterations 8000] [--keep FOLDER]

RUN is the folder of a run of a task that ships, as long as it got; without it one of coreset-low is made. Beside it:

knowing     a run like it that has solved the whole pool on the coarse mesh beforehand, and always asks there for the
            candidate with the largest product of true error and distance from what is used
and, trained from scratch with the same iterations, on
its own     the examples of the run
one fine    these and one fine example more, where its error on the fine mesh is truly largest
all coarse  these and the coarse solutions of all candidates that are left: no choice of coarse inputs can teach more

Errors are on the run's test examples; those of the three are followed by the error on their coarse solutions.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.acquisition import Choice, Context, Coreset
from mrafno.analysis.curves import Curve
from mrafno.data.cache import solve_examples
from mrafno.data.dataset import Dataset
from mrafno.grids import Array, relative_l2
from mrafno.run import Run
from mrafno.run.methods import Method
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


class Oracle:
    """Coreset distance on the coarsest mesh, times the true error of each candidate there."""

    name = "oracle"

    def __init__(self, truth: Array) -> None:
        self._truth = truth  # coarse solutions of the pool
        self._run: Run | None = None
        self._distance = Coreset("low")

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``."""
        assert self._run is not None, "it is set when the run is made"
        rows = context.candidates
        inputs = self._run.task.restrict(self._run.inputs.pool[rows], 0)
        errors = relative_l2(self._run.surrogate.predict(inputs, 0).mean, self._truth[rows])
        return self._distance.score(context, chosen) * errors[:, None]


def knowing(like: Run, folder: Path, truth: Array) -> Curve:
    """The curve of a run with the task, seed, settings and length of another, that knows the truth."""
    state, oracle = like.state, Oracle(truth)
    method = Method(acquisition=oracle)
    with Run.create(folder, like.task, method, state.seed, **state.settings.as_json()) as run:
        oracle._run = run
        run.advance(budget=state.cost)
        return curve_of(run)


def curve_of(run: Run) -> Curve:
    """Error against cost of a run that was measured."""
    curve = run.state.error_curve()
    assert curve is not None, "the run has test examples"
    return curve


def compare(report: Report, run: Run, folder: Path, iterations: int) -> None:
    """Print the errors of a run and of what is beside it."""
    task, last = run.task, run.task.levels - 1
    pool = np.asarray(run.inputs.pool)
    coarse = solve_examples(task, pool, 0)
    ours, theirs = curve_of(run), knowing(run, folder, coarse)
    table = report.table(
        f"{task.name}: errors by cost", {"cost": ".0f", run.state.method: ".4f", "knowing": ".4f", "ratio": ".2f"}
    )
    for cost, error in zip(ours.costs, ours.errors, strict=True):
        if theirs.costs[0] <= cost <= theirs.costs[-1]:
            best = float(np.exp(np.interp(cost, theirs.costs, np.log(theirs.errors))))
            table.add(cost, error, best, best / error)

    used = sorted(run.state.used_rows("pool"))
    left = np.setdiff1d(np.arange(len(run.inputs.pool)), used)
    rest = pool[left]
    fine = solve_examples(task, rest, last)
    worst = int(np.argmax(relative_l2(run.surrogate.predict(rest).mean, fine)))
    data = run.examples()
    known = list(zip(data.inputs, data.outputs, strict=True))
    more = _joined(known[last], (rest[[worst]], fine[[worst]]))
    every = _joined(known[0], (task.restrict(rest, 0), coarse[left]))
    tests = solve_examples(task, run.inputs.test, 0)
    table = report.table(
        f"From scratch, {iterations} iterations", {"examples": "", "error": ".4f", "error on coarse": ".4f"}
    )
    for name, pairs in (
        ("its own", known),
        ("one fine", [*known[:-1], more]),
        ("all coarse", [every, *known[1:]]),
    ):
        surrogate = get_surrogate("ensemble", task.domain, members=run.settings.members, seed=run.state.seed)
        surrogate.fit(Dataset.of(task.domain, pairs), iterations=iterations)
        there = relative_l2(surrogate.predict(task.restrict(run.inputs.test, 0), 0).mean, tests).mean()
        table.add(name, float(run.metrics(surrogate).relative_l2), float(there))


def _joined(some: tuple[Array, Array], others: tuple[Array, Array]) -> tuple[Array, Array]:
    """Inputs and outputs of both."""
    return np.concatenate([some[0], others[0]]), np.concatenate([some[1], others[1]])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=100, help="of the run that is made without RUN")
    parser.add_argument("--iterations", type=int, default=8000, help="of the fits from scratch")
    parser.add_argument("--keep", type=Path, help="folder where the runs are kept that this makes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        if given.run is None:
            with Run.create(folder / "run", get_task("burgers"), "coreset-low") as run:
                run.advance(steps=given.steps)
        report = Report("limit", "How much better a choice could be", __doc__, given)
        with Run.open(given.run or folder / "run", write=False) as run:
            compare(report, run, folder / "knowing", given.iterations)
        report.save()


if __name__ == "__main__":
    main()
