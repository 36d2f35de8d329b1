"""Memory and time of a choice from pools of 10^3, 10^4 and 10^5 inputs at 128x128, and what scoring a part loses.

::

    python -m benchmarks.bench_pool                     memory and time, the inputs in a file of up to 6.6 GB
    python -m benchmarks.bench_pool --part              what a choice from a part of 2,000 candidates is worth
    python -m benchmarks.bench_pool --runs              errors of runs that score a part of 2,000 candidates, or all

Times are those of the processor, of all threads together: other work on the machine does not add to them. Each pool is
measured in a process of its own. Its inputs are drawn into a file before, which is removed afterwards.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Report, arguments
from mrafno import FunctionTask, Run
from mrafno.run.chooser import Chooser
from mrafno.tasks import Burgers

POOLS = (1_000, 10_000, 100_000)
SHAPE = (128, 128)
SETTINGS: dict[str, Any] = {"initial": 5, "test": 0, "iterations": 5}  # how well it is trained does not matter here
CHOICES = 2


def smoothed(f, level):  # type: ignore[no-untyped-def]
    """A cheap solver: nobody waits for it here."""
    return np.cumsum(np.cumsum(f, axis=-1), axis=-2) / f.shape[-1] ** 2


def draw(folder: Path, n: int) -> Path:
    """Smooth random fields in a file, single precision, block by block."""
    path = folder / "inputs.npy"
    x = np.linspace(0, 1, SHAPE[0])
    waves = np.array([np.cos(np.pi * k * x) / (1 + k) for k in range(6)]).astype(np.float32)
    # Written, not memory-mapped: a child's peak memory is at least that of the process which started it.
    with path.open("wb") as file:
        described = {"descr": "<f4", "fortran_order": False, "shape": (n, *SHAPE)}
        np.lib.format.write_array_header_1_0(file, described)
        for start in range(0, n, 1000):
            size = min(1000, n - start)
            weights = np.random.default_rng(start).standard_normal((size, 6, 6), dtype=np.float32)
            file.write(np.einsum("nij,ix,jy->nxy", weights, waves, waves, optimize=True).astype("<f4").tobytes())
    return path


def measure(path: Path, folder: Path) -> None:
    """Create a run on a pool and choose; prints what it took."""
    started = time.process_time()
    inputs = np.load(path, mmap_mode="r")
    task = FunctionTask(smoothed, inputs, ((32, 32), SHAPE), (1.0, 16.0))
    with Run.create(folder / "run", task, **SETTINGS) as run:
        created = time.process_time() - started
        run.advance(steps=0)
        started = time.process_time()
        run.ask(1)  # makes the pool on the scoring grid
        first = time.process_time() - started
        times = []
        for _ in range(CHOICES):
            for query in [run.query(q) for q in run.state.running]:
                run.tell(query.id, task.solve(query.f[None], query.level)[0])
            run.train("refit")
            started = time.process_time()
            run.ask(1)
            times.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_disk = sum(file.stat().st_size for file in (folder / "run").rglob("*") if file.is_file())
    found = {"created": created, "first": first, "choice": float(np.median(times)), "peak": peak, "disk": on_disk}
    print(json.dumps(found))


def memory_and_time(report: Report, folder: Path, pools: tuple[int, ...]) -> None:
    """One line for each pool."""
    table = report.table(
        "Processor seconds, and memory",
        {
            "pool": ",d", "file GB": ".2f", "create": ".1f", "first choice": ".1f", "a choice": ".2f",
            "peak MiB": ",.0f", "run MB": ".0f",
        },
    )  # fmt: skip
    for n in pools:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            path = draw(Path(place), n)
            command = [sys.executable, "-m", "benchmarks.bench_pool", "--measure", str(path), "--folder", place]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            table.add(
                n, path.stat().st_size / 1e9, found["created"], found["first"], found["choice"],
                found["peak"] / 2**20, found["disk"] / 1e6,
            )  # fmt: skip


def worth_of_a_part(report: Report, folder: Path, draws: int, steps: int) -> None:
    """What a choice from a part of 2,000 candidates has of the largest u-hat per cost of all of them.

    One run scores all of them. From its surrogate a choice is made from each of several random parts, whose u-hat is an
    average over the part, and valued by the u-hat that averages over all.
    """
    task = Burgers(resolutions=(17, 65), viscosity=0.02)
    with Run.create(folder / "run", task, "mra-uhat", 0, candidates=None, pool=2000, initial=10, test=0) as run:
        run.advance(steps=steps)
        surrogate, state, method = run.surrogate, run.state, run.method
        assert surrogate is not None, "it was trained"
        assert method is not None, "the run chooses"

        def chooser(candidates: int | None, seed: int) -> Chooser:
            return Chooser(task, method, replace(run.chooser.settings, candidates=candidates), seed, run.inputs)

        context = chooser(None, 0).context(surrogate, state)
        values = method.acquisition.score(context, []) / np.asarray(context.cost_weights)
        best, rows = values.max(), {int(row): i for i, row in enumerate(context.candidates)}
        table = report.table(
            "Worth of a choice, by the largest of all 2,000 candidates",
            {"scored": "", "choices": "d", "mean worth": ".3f", "least": ".3f"},
        )
        each = values.max(axis=1) / best
        table.add("one at random", len(each), float(each.mean()), float(each.min()))
        for scored in (50, 200, 500, 1000):
            found = []
            for seed in range(draws):
                [(choice, _)] = chooser(scored, seed).choose(surrogate, state, 1)
                found.append(values[rows[choice.candidate], choice.level] / best)
            table.add(str(scored), draws, float(np.mean(found)), float(min(found)))


def part_and_whole(report: Report, folder: Path, seeds: int, steps: int) -> None:
    """Errors at equal numbers of steps of runs that score 200 or 500 of 2,000 candidates, or all of them."""
    task = Burgers(resolutions=(17, 65), viscosity=0.02)
    settings: dict[str, Any] = {"pool": 2000, "initial": 4, "test": 100, "evaluate": steps // 3}
    table = report.table(
        "Errors of runs that score a part, or all", {"method": "", "scored": "", "seed": "", "cost: error": ""}
    )
    for method in ("mra-auto", "mra-uhat"):
        for scored in (200, 500, None):
            ends = []
            for seed in range(seeds):
                place = folder / f"{method}-{scored}-{seed}"
                with Run.create(place, task, method, seed, candidates=scored, **settings) as run:
                    run.advance(steps=steps)
                    curve = run.state.error_curve("chosen")
                assert curve is not None, "there are test examples"
                ends.append(curve.errors[-1])
                pairs = "  ".join(f"{c:.0f}: {e:.4f}" for c, e in zip(curve.costs, curve.errors, strict=True))
                table.add(method, str(scored or "all"), str(seed), pairs)
                shutil.rmtree(place)
            mean = float(np.exp(np.mean(np.log(ends))))
            spread = float(np.exp(np.std(np.log(ends)))) - 1
            table.add(method, str(scored or "all"), "mean", f"{mean:.4f}, from seed to seed {100 * spread:.0f} %")


def main() -> None:
    """Run what the command line asks for."""
    parser = arguments(__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=POOLS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the files are made")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.measure is not None:
        measure(words.measure, words.folder)
        return
    report = Report("pool" + "-part" * words.part + "-runs" * words.runs, "Large pools", __doc__, words)
    with tempfile.TemporaryDirectory(dir=words.folder) as place:
        if words.part:
            worth_of_a_part(report, Path(place), words.draws, steps=10)
        elif words.runs:
            part_and_whole(report, Path(place), words.seeds, words.steps)
        else:
            memory_and_time(report, Path(place), tuple(words.pools))
    report.save()


if __name__ == "__main__":
    main()
