"""Scoring a whole pool with u-hat, beside scoring it candidate by candidate with five targets; and how both grow.

Given predictions. Reference 1, as published code does it: for each candidate, level and target, three entropies, each
with the noise as a dense d x d matrix and an S x S determinant. Reference 2, by definition: the same three entropies
from dense d x d covariances. Both with A = 5 targets, timed on a part of the pool and multiplied, since each candidate
costs the same. Ours, Gram matrices included, has the whole pool as targets. Processor time in one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, for ours and for the references

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor

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


def compare(console: Console, repeat: int) -> None:
    console.print(
        f"u-hat of {POOL} candidates at all levels, {SAMPLES} samples, one core, in seconds. Ours (Gram matrices, then "
        f"u-hat) has all {POOL} as targets, the references {TARGETS}. d: values on the finest grid."
    )
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for heading in ("problem", "d", "Gram", "u-hat", "ref. 1", "ratio", "ref. 2", "ratio", "differ"):
        table.add_column(heading, justify="left" if heading == "problem" else "right", no_wrap=True)
    for name, grids in PROBLEMS.items():
        d = math.prod(grids[-1])
        pool = pool_grams(chunks(POOL, grids))
        grams = seconds(partial(made, POOL, grids), repeat)
        ours = seconds(partial(u_hat, pool.gram), repeat)
        levels = list(next(chunks(POOL, grids)))
        cells, difference = [name, str(d), f"{grams:.3f}", f"{ours:.3f}"], ""
        for entropy, most in ((noise_matrix_entropy, 5000), (covariance_entropy, 1000)):
            if d > most:  # minutes a candidate, or more memory than there is
                cells += ["too big", ""]
                continue
            rows = 20 if d < 1000 else 1
            one_by_one(entropy, levels, 1)
            plain = seconds(partial(one_by_one, entropy, levels, rows), repeat if d < 1000 else 1) * POOL / rows
            found = u_hat(pool.gram[:1], pool.gram[:TARGETS, -1])
            difference = f"{float((found / one_by_one(entropy, levels, 1) - 1).abs().max()):.0e}"
            cells += [f"{plain:.1f}", f"{plain / (ours + grams):.0f}"]
        table.add_row(*cells, difference)
    console.print(table)


def made(pool: int, grids: Grids) -> PoolGrams:
    return pool_grams(chunks(pool, grids))


def growth(console: Console, repeat: int) -> None:
    console.print(
        "Growth with the pool P and the grid (two levels, d and d / 4). Gram matrices: time grows with P d, what is "
        "kept with P, where all predictions would take 'all' MB. u-hat with all targets: P², whatever the grid."
    )
    table = Table(box=SIMPLE)
    for heading in ("P", "d", "Gram s", "ns / P d", "kept MB", "all MB", "u-hat s", "ns / P²"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pool, d in ((500, 1024), (1000, 1024), (2000, 1024), (4000, 1024), (1000, 4096), (1000, 16384)):
        grids = ((d // 4,), (d,))
        kept = made(pool, grids)
        grams = seconds(partial(made, pool, grids), repeat)
        score = seconds(partial(u_hat, kept.gram), min(repeat, 3))
        megabytes = (kept.gram.nbytes + kept.log_noise.nbytes) / 1e6
        table.add_row(
            str(pool), str(d), f"{grams:.3f}", f"{1e9 * grams / (pool * d):.1f}", f"{megabytes:.2f}",
            f"{8e-6 * pool * SAMPLES * (d + d // 4):.0f}", f"{score:.3f}", f"{1e9 * score / pool**2:.0f}",
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each; the fastest counts (default: 5)")
    repeat = parser.parse_args().repeat
    torch.set_num_threads(1)
    console = Console()
    compare(console, repeat)
    growth(console, repeat)


if __name__ == "__main__":
    main()
