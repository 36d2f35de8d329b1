"""How time and memory of a step grow with the pool, the grid, members, levels and examples.

    python -m benchmarks.bench_scaling [--full] [--pictures] [AXIS ...]

Each measurement is a process of its own: a run with so many first examples is made, trained for a few iterations, and
then an update (the short fit after an observation) and a choice by mra-auto after it are timed, in processor time of
one thread. Memory is the most that the process held, less what it held after its imports. One quantity is varied at a
time; the others are those of the first row. Exponents are the slopes of straight lines through the logarithms, and the
promise is what the design says of them. ``--full`` has the largest sizes, which take half an hour and 10 GB.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.record import ROOT, Report, Table, arguments

PICTURE = ROOT / "docs" / "pictures" / "scaling.svg"


@dataclass(frozen=True)
class Sizes:
    """Of a run: the points per axis are those of the finest mesh."""

    pool: int = 300
    points: int = 32
    dim: int = 2
    members: int = 5
    levels: int = 2
    examples: int = 40

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all meshes, from an eighth of the points per axis, or 8 (half of 8), to the finest."""
        coarsest = min(max(self.points // 8, 8), self.points // 2)
        return [(round(n),) * self.dim for n in np.linspace(coarsest, self.points, self.levels)]


@dataclass(frozen=True)
class Axis:
    """A quantity that is varied."""

    name: str
    base: Sizes
    small: tuple[int, ...]
    full: tuple[int, ...]
    #: Exponents of an update, of a choice and of memory, as the design has them.
    promises: tuple[str, str, str]

    def of(self, value: int) -> Sizes:
        """The sizes with a value of the quantity."""
        return replace(self.base, **{self.name: value})

    def measure(self, value: int) -> float:
        """What exponents refer to: points in all, for the grid."""
        return float(value**self.base.dim if self.name == "points" else value)


AXES = {
    "pool": Axis("pool", Sizes(), (100, 300, 1000, 3000), (10_000, 100_000), ("0", "1; 0 from 1,000 on", "1")),
    "grid-2d": Axis("points", Sizes(), (32, 64, 128), (256,), ("0 from 32x32 on", "0 from 16x16 on", "1")),
    "grid-3d": Axis("points", Sizes(dim=3, points=8), (8, 16, 32), (64,), ("0 from 8x8x8 on", "0", "1")),
    "members": Axis("members", Sizes(), (2, 5, 10), (20,), ("1", "1 to 3", "1 to 2")),
    "levels": Axis("levels", Sizes(points=64), (2, 3, 4), (5,), ("0", "1", "1")),
    "examples": Axis("examples", Sizes(), (20, 100, 500), (5000,), ("0", "0", "1")),
}


def resident() -> float:
    """Most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def smoothed(f, level):  # type: ignore[no-untyped-def]
    """A cheap solver: sums along all axes."""
    for axis in range(2, f.ndim):
        f = np.cumsum(f, axis=axis) / f.shape[axis]
    return f


def measured(sizes: Sizes, repeat: int = 3) -> dict[str, float]:
    """Seconds of an update and of a choice, and MB."""
    import torch

    from mrafno import FunctionTask, Run

    torch.set_num_threads(1)
    before = resident()
    rng = np.random.default_rng(0)
    shape = sizes.shapes[-1]
    waves = [np.cos(np.pi * np.outer(np.arange(4), np.linspace(0, 1, n))) for n in shape]
    count = sizes.pool + sizes.examples + 1
    inputs = np.empty((count, *shape), dtype=np.float32)
    letters = "ijk"[: sizes.dim], "xyz"[: sizes.dim]
    rule = f"n{letters[0]},{','.join(a + b for a, b in zip(*letters, strict=True))}->n{letters[1]}"
    for start in range(0, count, 1000):
        some = inputs[start : start + 1000]
        some[:] = np.einsum(rule, rng.normal(size=(len(some), *[4] * sizes.dim)), *waves, optimize=True)
    costs = [float(4**level) for level in range(sizes.levels)]
    task = FunctionTask(smoothed, inputs, sizes.shapes, costs, batched=True)
    # Almost all of them on the coarsest mesh, as in a run.
    initial = (sizes.examples - 3 * (sizes.levels - 1), *[3] * (sizes.levels - 1))
    found: dict[str, list[float]] = {"update": [], "choice": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        Run.create(
            Path(folder) / "run", task, test=0, initial=initial, design="random", members=sizes.members, iterations=5
        ) as run,
    ):
        for query in run.ask(sizes.examples):
            run.tell(query.id, task.solve(query.f[None], query.level)[0])
        run.train()
        run.ask(1)  # makes the pool on the scoring grid
        for _ in range(repeat):
            for record in run.state.running:
                query = run.query(record)
                run.tell(query.id, task.solve(query.f[None], query.level)[0])
            start_time = time.process_time()
            run.train("update")
            found["update"].append(time.process_time() - start_time)
            start_time = time.process_time()
            run.ask(1)
            found["choice"].append(time.process_time() - start_time)
    return {**{name: float(np.median(times)) for name, times in found.items()}, "MB": resident() - before}


def in_a_process(sizes: Sizes) -> dict[str, float]:
    """The same of a process that has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.bench_scaling", "--measure", json.dumps(asdict(sizes))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: list[float], values: list[float]) -> float:
    """Slope of the straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-6)), 1)[0])


Series = dict[str, tuple[list[float], dict[str, list[float]]]]


def exponents(table: Table, found: Series) -> None:
    """A row for each quantity, of all values and of the last two."""
    for name, (sizes, columns) in found.items():
        for (what, values), promise in zip(columns.items(), AXES[name].promises, strict=True):
            table.add(name, what, exponent(sizes, values), exponent(sizes[-2:], values[-2:]), promise)


def draw(found: Series) -> None:
    """Log-log plots of all of it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scaling", "font.size": 9})
    figure, panels = plt.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
    for panel, (name, (sizes, columns)) in zip(panels.flat, found.items(), strict=False):
        for (what, values), colour in zip(columns.items(), ("#3b4cc0", "#b40426", "#555555"), strict=True):
            scale = 1e-3 if what == "MB" else 1.0
            label = "GB" if what == "MB" else f"{what}, s"
            panel.loglog(sizes, np.array(values) * scale, "o-", color=colour, label=label)
        panel.set_xlabel(f"{name}: points" if name.startswith("grid") else name)
        panel.grid(True, which="major", color="#dddddd")
    panels.flat[0].legend()
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("axes", nargs="*", default=list(AXES), help=f"of {', '.join(AXES)}")
    parser.add_argument("--full", action="store_true", help="the largest sizes too")
    parser.add_argument("--pictures", action="store_true", help="draw docs/pictures/scaling.svg, with matplotlib")
    parser.add_argument("--measure", help="for processes that this starts")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(Sizes(**json.loads(given.measure)))))
        return
    report = Report("scaling", "How cost grows", __doc__, given)
    table = report.table(
        "An update, a choice, and memory",
        {"varied": "", "value": ",d", "update, s": ".3f", "choice, s": ".3f", "memory, MB": ",.0f"},
    )
    found: Series = {}
    for name in given.axes:
        axis = AXES[name]
        columns: dict[str, list[float]] = {"update": [], "choice": [], "MB": []}
        values = axis.small + axis.full * given.full
        for value in values:
            one = in_a_process(axis.of(value))
            for what, column in columns.items():
                column.append(one[what])
            table.add(name, value, one["update"], one["choice"], one["MB"])
        found[name] = [axis.measure(value) for value in values], columns
    exponents(
        report.table(
            "Exponents, for grids of the number of points",
            {"varied": "", "of": "", "of all": ".2f", "of the last two": ".2f", "promised": ""},
        ),
        found,
    )
    if given.pictures:
        draw(found)
        report.picture(PICTURE.name, "Time of an update and of a choice, and memory, against each quantity")
    report.save()


if __name__ == "__main__":
    main()
