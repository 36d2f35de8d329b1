"""Training throughput of the surrogate beside neuraloperator and a plain loop, and which transform is faster where.

All train on the same examples with the same width, modes, depth and batch: ours with five members in one pass, the
others member after member, so that one member's throughput is that of all. ``ours`` is the network of the preset
``fast``, ``alike`` the same without corrections from mesh to mesh, its
layers on all points of every mesh. ``plain`` is the oracle of the tests, the last network with torch.fft, and the run
begins by comparing what the two predict.
``neuraloperator`` is its FNO as it comes, ``bare`` the same without the channel networks of its blocks and with a
lifting and a projection of our size. Both have no variance branch and no padding for domains that are not periodic:
less to compute, which counts for them. ``products`` is the share of our time that matrix products take, and
what the ratio would be if nothing else took any.

Every measurement is a process of its own with two threads; the fastest of several rounds counts, and rounds of all take
turns, so that the ratios carry over to other machines. On a machine that is busy with other work two threads wait for
each other and nothing can be measured; ``--threads 1`` can, in processor time. Peak memory is the process's,
``training`` what of it came after everything was imported and the examples were made.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.record import Report, arguments
from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Ensemble
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import FFT_FACTOR, Mesh, convolve
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import adam, train
from mrafno.surrogate.training.objective import example_losses, network_objective
from tests.oracles.fno import plain_member

MEMBERS = 5
EXAMPLES = 100  # of each level
OURS = ("ours", "alike")


@dataclass(frozen=True)
class Case:
    title: str
    domain: Domain
    batch: int
    targets: dict[str, float]  # ours divided by the other's
    points: int = 0


def nodes(*shapes: int) -> Domain:
    return Domain(1, 1, tuple(Grid((n,), ("nodes",)) for n in shapes), ((True, True),))


def cells(n: int) -> Domain:
    return Domain(1, 1, (Grid((n, n), ("cells", "cells")),), ((True, True), (True, True)))


CASES = {
    "1d": Case("33 + 129 nodes, batch 20 + 20", nodes(33, 129), 40, {"neuraloperator": 8, "plain": 3}),
    "2d": Case("32x32, batch 10", cells(32), 10, {"neuraloperator": 5}),
    "fine": Case("128x128, batch 10, trained on 32x32", cells(128), 10, {"neuraloperator": 15}, points=32),
}


Training = Callable[[Callable[[], None]], None]


class Enough(Exception):  # noqa: N818
    """Stops a training that has been timed for long enough."""


class Bench:
    """A case's data and networks. A contestant's function trains, and calls what it is given after every step."""

    def __init__(self, case: Case) -> None:
        self.case = case
        rng = np.random.default_rng(0)
        shapes = [(EXAMPLES, 1, *grid.shape) for grid in case.domain.grids]
        self.data = Dataset.of(case.domain, [(rng.normal(size=s), rng.normal(size=s)) for s in shapes])
        self.surrogate = Ensemble(
            case.domain,
            members=MEMBERS,
            training={"batch": case.batch, "points": case.points, "out_of_fold_share": 0.0},
        )
        settings = self.surrogate.network_settings
        self.default = MemberFNO(settings, MEMBERS).initialise(range(MEMBERS))
        self.network = MemberFNO(replace(settings, stencil_radius=0), MEMBERS).initialise(range(MEMBERS))
        self.batches = Batches(
            self.data, Normaliser.fit(self.data), self.surrogate.training, [[m] for m in range(MEMBERS)]
        )

    def ours(self) -> Training:
        return self._ours(self.default)

    def alike(self) -> Training:
        return self._ours(self.network)

    def _ours(self, network: MemberFNO) -> Training:
        settings = self.surrogate.training
        objective = network_objective(network, self.batches, settings.loss)
        optimiser = adam(network, settings, self.batches.sizes)

        def steps(after: Callable[[], None]) -> None:
            train(objective, optimiser, settings, after_step=lambda _: after())

        return steps

    def plain(self) -> Training:
        network = plain_member(self.network, 0)

        def loss(level: int, mesh: Mesh, f: Tensor, y: Tensor) -> Tensor:
            mean, log_var = network(f, mesh, level, detach_variance=True)
            return example_losses(mean[None], log_var[None], y[None], "composite").sum()

        return self._one_member(network, loss)

    def neuraloperator(self, **settings: Any) -> Training:
        from neuralop.models import FNO

        s = self.surrogate.network_settings
        network = FNO(
            n_modes=(*[2 * k for k in s.modes[:-1]], 2 * s.modes[-1] - 2),  # of the last axis it keeps half and one
            hidden_channels=s.width,
            in_channels=s.in_channels + s.levels,
            out_channels=s.out_channels,
            n_layers=s.layers,
            **settings,
        )

        def loss(level: int, mesh: Mesh, f: Tensor, y: Tensor) -> Tensor:
            resolution = torch.zeros(1, s.levels, *[1] * s.dim)
            resolution[:, level] = 1
            x = torch.cat([f, resolution.expand(len(f), -1, *mesh.shape)], dim=1)
            error = (network(x) - y).flatten(1).norm(dim=1)
            return torch.sum(error / y.flatten(1).norm(dim=1))

        return self._one_member(network, loss)

    def bare(self) -> Training:
        """neuraloperator without the channel networks of its blocks, and with our lifting and projection."""
        s = self.surrogate.network_settings
        return self.neuraloperator(
            lifting_channel_ratio=1, projection_channel_ratio=s.hidden / s.width, use_channel_mlp=False
        )

    def _one_member(self, network: torch.nn.Module, loss: Callable[[int, Mesh, Tensor, Tensor], Tensor]) -> Training:
        """The textbook loop on the domain's own grids."""
        settings, batches = self.surrogate.training, self.batches
        optimiser = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.weight_decay)

        def steps(after: Callable[[], None]) -> None:
            for _ in range(settings.iterations):
                total = torch.zeros(())
                for level, count in zip(batches.levels, batches.counts, strict=True):
                    rows = torch.randint(EXAMPLES, (count,))
                    f, y = batches.inputs[level][rows], batches.outputs[level][rows]
                    total = total + loss(level, batches.meshes[level], f, y)
                optimiser.zero_grad()
                (total / sum(batches.counts)).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                after()

        return steps

    def difference(self) -> float:
        """Largest relative difference between our members and the plain network, over levels."""
        found = 0.0
        for level, mesh in enumerate(self.batches.meshes):
            f = self.batches.inputs[level][None, :4]
            with torch.no_grad():
                ours = self.network(f, mesh, level)[0][0]
                plain = plain_member(self.network, 0)(f[0], mesh, level)[0]
            found = max(found, float((ours - plain).norm() / plain.norm()))
        return found


def now() -> float:
    """Seconds: with one thread of its processor's time, which is the same whatever else the machine does."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def worker(name: str, contestant: str, seconds: float) -> dict[str, float]:
    """Examples per second over all members, and memory in MB."""
    bench = Bench(CASES[name])
    steps: Training = getattr(bench, contestant)()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ends = [now()]

    def tick() -> None:
        ends.append(now())
        if ends[-1] - ends[0] > seconds and len(ends) > 9:
            raise Enough

    with suppress(Enough):
        steps(tick)
    # The first steps make tables and take memory from the system, which later ones do not.
    measured = ends[len(ends) // 3 :]
    n, spent = len(measured) - 1, measured[-1] - measured[0]
    members = MEMBERS if contestant in OURS else 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "products": seconds_in_products(getattr(bench, contestant)(), 20) * n / spent if contestant in OURS else 0.0,
        "rate": members * sum(bench.batches.counts) * n / spent,
        "peak": peak / 1024,
        "training": (peak - before) / 1024,
    }


def seconds_in_products(steps: Training, count: int) -> float:
    """Seconds per step inside matrix products."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done == count:
            raise Enough

    with torch.profiler.profile() as profile, suppress(Enough):
        steps(tick)
    kernels = ("aten::bmm", "aten::baddbmm", "aten::baddbmm_", "aten::mm", "aten::addmm")
    spent = sum(event.self_cpu_time_total for event in profile.key_averages() if event.key in kernels)
    return float(spent) * 1e-6 / count


def in_a_process(threads: int, *arguments: object) -> Any:
    """What a worker prints, or None if it fails, which it explains itself (neuraloperator may not be installed)."""
    command = [sys.executable, "-m", "benchmarks.bench_surrogate", "--worker", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def throughput(report: Report, names: list[str], rounds: int, seconds: float, threads: int) -> None:
    """A table and ratios for each case."""
    for name in names:
        case = CASES[name]
        found: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            for contestant in (*OURS, "neuraloperator", "bare", "plain"):
                if result := in_a_process(threads, name, contestant, seconds):
                    found.setdefault(contestant, []).append(result)
        table = report.table(
            f"Training, {case.title}, {MEMBERS} members, {threads} threads",
            {
                "network": "", "examples/s": ",.0f", "ours is, times": ".1f", "target": "g", "products": ".0%",
                "with products alone, times": ".1f", "peak MB": ".0f", "training MB": ".0f",
            },
        )  # fmt: skip
        best = {contestant: max(results, key=lambda one: one["rate"]) for contestant, results in found.items()}
        for contestant, result in best.items():
            ratio, own = best.get("ours", result)["rate"] / result["rate"], contestant in OURS
            table.add(
                contestant, result["rate"], None if contestant == "ours" else ratio, case.targets.get(contestant),
                result["products"] if own else None, None if own else ratio / best["ours"]["products"],
                result["peak"], result["training"],
            )  # fmt: skip
            if contestant != "ours":
                rates = [[one["rate"] for one in found[which]] for which in ("ours", contestant)]
                report.ratio(f"{name}: examples per second, ours / {contestant}", *rates)
        report.note(f"{name}: the largest difference of a prediction to plain's is {Bench(case).difference():.0e}.")


# Products or fast transforms.


def transforms() -> list[dict[str, float]]:
    """Seconds of a convolution and its gradient both ways, over sizes of grid and numbers of modes."""
    rows = []
    for dim, sizes in ((1, (64, 128, 256, 512, 1024, 4096)), (2, (32, 64, 128, 256))):
        for n in sizes:
            for modes in (4, 8, 16, 32, 64, 128, 256, 512):
                if 2 * modes > n or (dim == 2 and modes > 64):
                    continue
                mesh = Mesh.of([(np.arange(n) + 0.5) / n] * dim, [1.25] * dim)
                m, c = 2, 16
                batch = max(1, 2**20 // (m * c * n**dim))
                count = modes if dim == 1 else 2 * modes**2
                v = torch.randn(m, *mesh.shape, batch, c, requires_grad=True)
                w = torch.randn(m, count, c, 2 * c, requires_grad=True)
                product, fast = (both_ways(v, w, mesh, (modes,) * dim, fft) for fft in (False, True))
                length = 1.25 * n
                size = 2 * modes * n / length / math.log2(length)
                rows.append({"dim": dim, "n": n, "k": modes, "product": product, "fast": fast, "size": size})
    return rows


def both_ways(v: Tensor, w: Tensor, mesh: Mesh, modes: tuple[int, ...], fft: bool) -> float:
    best = math.inf
    spent = 0.0
    while spent < 0.3:
        start = now()
        convolve(v, w, mesh, modes, fft=fft).sum().backward()  # type: ignore[no-untyped-call]
        best = min(best, now() - start)
        spent += now() - start
    return best


def best_factor(rows: list[dict[str, float]]) -> tuple[float, float]:
    """The factor above which fast transforms cost least in total (in logarithms), and what its mistakes cost."""
    candidates = sorted({row["size"] for row in rows} | {0.0, 1e3})

    def loss(factor: float) -> float:
        chosen = [row["fast"] if row["size"] > factor else row["product"] for row in rows]
        least = [min(row["fast"], row["product"]) for row in rows]
        return sum(math.log(a / b) for a, b in zip(chosen, least, strict=True)) / len(rows)

    best = min(candidates, key=loss)
    above = [c for c in candidates if c > best]
    return (best + above[0]) / 2 if above else best, math.exp(loss(best)) - 1


def transform_tables(report: Report, rows: list[dict[str, float]]) -> None:
    for dim in (1, 2):
        mine = [row for row in rows if row["dim"] == dim]
        modes = sorted({int(row["k"]) for row in mine})
        table = report.table(
            f"Fast transform's time by that of a product, convolution and gradient, {dim}D",
            {"points": "d", **{f"{k} modes": ".2f" for k in modes}},
        )
        for n in sorted({int(row["n"]) for row in mine}):
            found = {row["k"]: row["fast"] / row["product"] for row in mine if row["n"] == n}
            table.add(n, *[found.get(k) for k in modes])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES), help="default: all")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each; the fastest counts (default: 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement, about (default: 4)")
    parser.add_argument("--threads", type=int, default=2, help="of every measurement (default: 2)")
    parser.add_argument("--skip-transforms", action="store_true", help="training throughput only")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work = given.worker
        print(json.dumps(transforms() if work == ["transforms"] else worker(work[0], work[1], float(work[2]))))
        return
    report = Report("surrogate", "Training throughput", __doc__, given)
    throughput(report, given.cases, given.rounds, given.seconds, given.threads)
    if not given.skip_transforms:
        rows = in_a_process(given.threads, "transforms")
        transform_tables(report, rows)
        factor, cost = best_factor(rows)
        report.note(f"FFT_FACTOR: best {factor:.2g} (costs {cost:.1%} over the best choice), now {FFT_FACTOR:g}.")
    report.save()


if __name__ == "__main__":
    main()
