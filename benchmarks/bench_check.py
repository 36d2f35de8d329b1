"""A few ratios to plain references, quick to measure: a guard against changes that make something slower.

    python -m benchmarks.bench_check --save        measures and writes benchmarks/results/check.json
    python -m benchmarks.bench_check               measures, compares with that file, and fails on a loss

Each ratio is the least processor time of a plain reference by the least of ours, of repetitions that take turns in one
process and one thread: other work on the machine slows both, and the least is of moments when it slowed neither. A
ratio that is less than three quarters of the recorded one is measured again, up to three times; only if it stays below,
the check fails. What a processor cannot do, as products in bfloat16, is left out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, for ours and for the references

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks import bench_acquisition, bench_ledger, bench_step, bench_tasks, paper_way
from benchmarks.bench_surrogate import CASES, Bench, Enough, Training
from benchmarks.record import RESULTS, Report, alternate, arguments, machine
from mrafno.data.dataset import Dataset, Normaliser
from mrafno.storage.ledger import Ledger
from mrafno.surrogate import Ensemble
from mrafno.surrogate.training.low_precision import bfloat16_is_fast
from mrafno.tasks import get_task

Work = Callable[[], object]
#: A reference, ours, and by what the ratio of their times is multiplied because they do different amounts.
Pair = tuple[Work, Work, float]
#: The least share of the recorded ratio that passes, repetitions, and measurements before a loss counts.
LEAST, REPEAT, TRIES = 0.75, 5, 4


def few_steps(training: Training, count: int) -> None:
    """Train for so many steps."""
    done = 0

    def after() -> None:
        nonlocal done
        done += 1
        if done == count:
            raise Enough

    try:
        training(after)
    except Enough:
        return


@contextmanager
def choosing() -> Iterator[Pair]:
    """u-hat candidate by candidate, and of a pool at once."""
    grids, pool, rows = bench_acquisition.PROBLEMS["burgers"], 400, 8
    levels = list(next(bench_acquisition.chunks(rows, grids)))
    plain = partial(bench_acquisition.one_by_one, bench_acquisition.noise_matrix_entropy, levels, rows)
    yield plain, partial(bench_acquisition.both, pool, grids), pool / rows


@contextmanager
def training(name: str) -> Iterator[Pair]:
    """Training steps of one member with torch.fft, and of five members at once."""
    bench, count = Bench(CASES[name]), 4 if name == "1d" else 2
    yield partial(few_steps, bench.plain(), 2 * count), partial(few_steps, bench.alike(), count), 5 / 2


@contextmanager
def half_precision() -> Iterator[Pair]:
    """Training steps in float32, and in bfloat16."""
    whole, half = (bench_step.steps("darcy", None, 5, bfloat16) for bfloat16 in (False, True))
    yield whole, half, 1.0


@contextmanager
def predicting() -> Iterator[Pair]:
    """Predictions of plain networks, member after member, and of an ensemble."""
    task = get_task("burgers")
    f = task.sample(60, seed=0)
    data = Dataset.of(task.domain, [(task.restrict(f[:6], 0),) * 2, (f[6:12],) * 2])
    ensemble, normaliser = Ensemble(task.domain, members=5), Normaliser.fit(data)
    ensemble.fit(data, iterations=1)
    members = [paper_way.Member(data, normaliser, seed) for seed in range(5)]
    yield partial(paper_way.predict, members, f, 1), partial(ensemble.predict, f, 1, check=False), 1.0


@contextmanager
def solving(number: int) -> Iterator[Pair]:
    """Solves one by one as in a textbook, and of a batch."""
    case = bench_tasks.cases()[number]
    plain, ours = partial(case.plain, case.inputs[:1]), partial(case.ours, case.inputs)
    yield plain, ours, float(len(case.inputs))


@contextmanager
def reading(count: int = 20_000) -> Iterator[Pair]:
    """Parsing lines of a ledger and their checksums, and opening it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with patch("os.fsync"), Ledger.create(path) as ledger:
            for number in range(1, count):
                ledger.append("told", **bench_ledger.told(number))
        lines = (path / "ledger.jsonl").read_bytes().splitlines()
        yield (
            lambda: [(json.loads(line), hashlib.sha256(line).hexdigest()) for line in lines],
            partial(Ledger.open, path),
            1.0,
        )


GUARDS: dict[str, Callable[[], Any]] = {
    "choosing: candidate by candidate / u-hat of a pool": choosing,
    "training in 1D: torch.fft member by member / ours": partial(training, "1d"),
    "training in 2D: torch.fft member by member / ours": partial(training, "2d"),
    "training darcy: float32 / bfloat16": half_precision,
    "predicting burgers: plain members / ours": predicting,
    "solving burgers: one by one / a batch": partial(solving, 0),
    "solving darcy: one by one / a batch": partial(solving, 1),
    "opening a run: parser and checksums / ours": reading,
}


def possible(name: str) -> bool:
    """Whether this processor can do it."""
    return "bfloat16" not in name or bfloat16_is_fast(torch.device("cpu"))


def measured(make: Callable[[], Any], repeat: int = REPEAT) -> tuple[list[float], list[float]]:
    """Least times of the reference, multiplied, and of ours: one of each half of the repetitions, and of all."""
    with make() as (plain, ours, factor):
        times = alternate({"plain": plain, "ours": ours}, repeat)
    half = max(1, repeat // 2)
    parts = (slice(None), slice(None, half), slice(half, None))
    return [factor * min(times["plain"][part]) for part in parts], [min(times["ours"][part]) for part in parts]


def losses(found: dict[str, float], recorded: dict[str, float]) -> dict[str, float]:
    """Shares of the recorded ratios, of those that are lower than what passes."""
    shares = {name: ratio / recorded[name] for name, ratio in found.items() if name in recorded}
    return {name: share for name, share in shares.items() if share < LEAST}


def compare(recorded: dict[str, float]) -> dict[str, float]:
    """Measure all, print, and return what was lost, by name."""
    lost: dict[str, float] = {}
    for name, make in GUARDS.items():
        if not possible(name) or name not in recorded:
            print(f"{name}: left out, {'it is not recorded' if possible(name) else 'this processor cannot do it'}")
            continue
        best = 0.0
        for number in range(TRIES):
            start = time.perf_counter()
            plain, ours = measured(make)
            best = max(best, plain[0] / ours[0])
            print(
                f"{name}: {best:.3g}, recorded {recorded[name]:.3g}, {best / recorded[name]:.0%} "
                f"({time.perf_counter() - start:.0f} s{', measured again' * bool(number)})",
                flush=True,
            )
            if not losses({name: best}, recorded):
                break
        lost.update(losses({name: best}, recorded))
    return lost


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--save", action="store_true", help="write what was measured, to compare with later")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.save:
        report = Report("check", "Ratios that are guarded", __doc__, given)
        table = report.table("Milliseconds for the same amount of work", {"of": "", "reference": ".1f", "ours": ".1f"})
        for name, make in GUARDS.items():
            if possible(name):
                plain, ours = measured(make, 2 * REPEAT)
                report.ratio(name, plain, ours)
                table.add(name, 1e3 * plain[0], 1e3 * ours[0])
        report.save()
        return
    path = RESULTS / "check.json"
    kept = json.loads(path.read_text())
    here, there = machine()["processor"], kept["machine"]["processor"]
    if here != there:
        print(f"Recorded on {there}, measured on {here}: ratios of different processors differ.")
    lost = compare({name: ratio["median"] for name, ratio in kept["ratios"].items()})
    if lost:
        shares = "; ".join(f"{name} is at {share:.0%} of what was recorded" for name, share in lost.items())
        sys.exit(f"bench-check: {shares}. If the loss is meant, record it: make bench-check-save")
    print(f"No ratio is below {LEAST:.0%} of the recorded one.")


if __name__ == "__main__":
    main()
