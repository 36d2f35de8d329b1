"""Scoring a whole pool with u-hat, beside scoring it candidate by candidate with five targets; and how both grow.

Given predictions. Reference 1, as published code does it: for each candidate, level and target, three entropies, each
with the noise as a dense d x d matrix and an S x S determinant. Reference 2, by definition: the same three entropies
from dense d x d covariances. Both with A = 5 targets, timed on a part of the pool and multiplied, since each candidate
costs the same. Ours, Gram matrices included, has the whole pool as targets. Processor time in one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, for ours and for the references

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.record import Cell, Report, alternate, arguments
from mrafno.acquisition import PoolGrams, pool_grams, u_hat
from mrafno.surrogate.prediction import Prediction

Grids = tuple[tuple[int, ...], ...]

SAMPLES, POOL, TARGETS = 5, 990, 5
PROBLEMS = {
    "burgers": ((33,), (129,)),
    "navier-stokes": ((16, 16), (64, 64)),  # one of its twenty times
    "darcy3": ((32, 32), (64, 64), (128, 128)),
}
CHUNK_NUMBERS = 250_000
# Every prediction is a view of these numbers, so that making it takes no time beside using it.
NUMBERS = np.random.default_rng(0).standard_normal(4 * CHUNK_NUMBERS)


def chunks(pool: int, grids: Grids) -> Iterator[Iterator[Prediction]]:
    """Predictions of a pool, as many candidates at a time as fit into a chunk."""
    size = max(1, CHUNK_NUMBERS // (SAMPLES * math.prod(grids[-1])))

    def at(start: int, n: int, grid: tuple[int, ...]) -> Prediction:
        first, d = 7919 * start % CHUNK_NUMBERS, math.prod(grid)
        mean = NUMBERS[first : first + SAMPLES * n * d].reshape(SAMPLES, n, 1, *grid)
        return Prediction(mean, NUMBERS[first : first + SAMPLES * n].reshape(SAMPLES, n))

    for start in range(0, pool, size):
        n = min(size, pool - start)
        yield (at(start, n, grid) for grid in grids)


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Least processor time of several runs."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def noise_matrix_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    """log det of the covariance from samples ``(S, d)`` and noise ``(d,)``, as published code computes it."""
    b = (mean - mean.mean(0)).T / math.sqrt(len(mean) - 1)
    inner = b.T @ torch.diag(1 / variance) @ b
    return 0.5 * (variance.log().sum() + torch.logdet(torch.eye(len(mean), dtype=b.dtype) + inner))


def covariance_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    """The same from the dense covariance."""
    b = (mean - mean.mean(0)).T / math.sqrt(len(mean) - 1)
    log_det: Tensor = torch.linalg.slogdet(b @ b.T + torch.diag(variance))[1]
    return 0.5 * log_det


def one_by_one(entropy: Callable[[Tensor, Tensor], Tensor], levels: list[Prediction], rows: int) -> Tensor:
    """u-hat of the first candidates, ``(rows, R)``, with the first five as targets."""

    def flat(level: Prediction, i: int) -> tuple[Tensor, Tensor]:
        mean = torch.as_tensor(level.samples[:, i]).flatten(1)
        return mean, torch.full(mean.shape[1:], float(np.exp(level.log_var[:, i]).mean()), dtype=mean.dtype)

    scores = torch.zeros(rows, len(levels), dtype=torch.float64)
    for r, level in enumerate(levels):
        for i in range(rows):
            y, noise = flat(level, i)
            own = entropy(y, noise)
            for j in range(TARGETS):
                z, other = flat(levels[-1], j)
                joint = entropy(torch.cat([y, z], 1), torch.cat([noise, other]))
                scores[i, r] += (own + entropy(z, other) - joint) / TARGETS
    return scores


def compare(report: Report, repeat: int) -> None:
    table = report.table(
        f"u-hat of {POOL} candidates at all levels, {SAMPLES} samples, in seconds, d values on the finest grid",
        {
            "problem": "", "d": "d", "Gram": ".3f", "u-hat": ".3f", "ref. 1": ".1f", "ref. 1 / ours": ",.0f",
            "ref. 2": ".1f", "ref. 2 / ours": ",.0f", "differ": ".0e",
        },
    )  # fmt: skip
    for name, grids in PROBLEMS.items():
        d = math.prod(grids[-1])
        pool = pool_grams(chunks(POOL, grids))
        grams = seconds(partial(made, POOL, grids), repeat)
        ours = seconds(partial(u_hat, pool.gram), repeat)
        levels = list(next(chunks(POOL, grids)))
        cells: list[Cell] = []
        difference = None
        for which, entropy, most in (("1", noise_matrix_entropy, 5000), ("2", covariance_entropy, 1000)):
            if d > most:  # minutes a candidate, or more memory than there is
                cells += [None, None]
                continue
            rows = 20 if d < 1000 else 1
            one_by_one(entropy, levels, 1)
            works = {"plain": partial(one_by_one, entropy, levels, rows), "ours": partial(both, POOL, grids)}
            times = alternate(works, repeat if d < 1000 else 1, warm=False)
            whole = [POOL / rows * one for one in times["plain"]]
            ratio = report.ratio(f"{name}: reference {which} / ours", whole, times["ours"])
            found = u_hat(pool.gram[:1], pool.gram[:TARGETS, -1])
            difference = float((found / one_by_one(entropy, levels, 1) - 1).abs().max())
            cells += [min(whole), ratio.median]
        table.add(name, d, grams, ours, *cells, difference)
    report.note(
        "Where a reference has no figure, it would take minutes for each candidate, or more memory than there is."
    )


def made(pool: int, grids: Grids) -> PoolGrams:
    return pool_grams(chunks(pool, grids))


def both(pool: int, grids: Grids) -> Tensor:
    """Gram matrices and u-hat."""
    return u_hat(made(pool, grids).gram)


def growth(report: Report, repeat: int) -> None:
    table = report.table(
        "Growth with the pool P and the grid (two levels, d and d / 4)",
        {
            "P": "d", "d": "d", "Gram s": ".3f", "ns / P d": ".1f", "kept MB": ".2f", "all MB": ",.0f",
            "u-hat s": ".3f", "ns / P²": ".0f",
        },
    )  # fmt: skip
    report.note(
        "Gram matrices: time grows with P d, what is kept with P, where all predictions would take 'all' MB. u-hat "
        "with all targets: P², whatever the grid."
    )
    for pool, d in ((500, 1024), (1000, 1024), (2000, 1024), (4000, 1024), (1000, 4096), (1000, 16384)):
        grids = ((d // 4,), (d,))
        kept = made(pool, grids)
        grams = seconds(partial(made, pool, grids), repeat)
        score = seconds(partial(u_hat, kept.gram), min(repeat, 3))
        megabytes = (kept.gram.nbytes + kept.log_noise.nbytes) / 1e6
        table.add(
            pool, d, grams, 1e9 * grams / (pool * d), megabytes, 8e-6 * pool * SAMPLES * (d + d // 4),
            score, 1e9 * score / pool**2,
        )  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each (default: 5)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    report = Report("acquisition", "Scoring a pool", __doc__, given)
    compare(report, given.repeat)
    growth(report, given.repeat)
    report.save()


if __name__ == "__main__":
    main()
