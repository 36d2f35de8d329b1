"""Where the time of a training step goes: processor time by kind of operation, and the rate of its matrix products.

    python -m benchmarks.bench_step [TASK ...] [--batch 20] [--members 5] [--bfloat16]

Network, grids, strides and batch are those of a run's fit from scratch on 100 + 10 examples, in one thread. Times are
processor time, the median of several steps, so other work on the machine matters little. ``peak`` is the rate of a
product of two square matrices in the same precision.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.record import Report, arguments
from mrafno.data.dataset import Dataset, Normaliser
from mrafno.surrogate import Ensemble
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import adam
from mrafno.surrogate.training.memory import steady_memory
from mrafno.surrogate.training.objective import network_objective
from mrafno.tasks import get_task

TASKS = ("burgers", "darcy", "navier-stokes", "diffusion3d")
SIZES = (100, 10)
#: Kinds of operations, by a part of their names.
KINDS = {
    "products": ("bmm", "aten.mm"),
    "activation": ("gelu",),
    "optimiser": ("adamw", "foreach"),
    "copies": ("copy", "clone", "cat", "index", "contiguous", "fill", "zero"),
}


class Spent(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Processor time by kind of operation, and the floating-point operations of products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: dict[str, float] = defaultdict(float)
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = time.thread_time()
        result = function(*args, **(kwargs or {}))
        name = str(function)
        kind = next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "sums and others")
        self.seconds[kind] += time.thread_time() - start
        if kind == "products":
            left, right = args[-2:]
            self.operations += 2 * left.numel() * right.shape[-1]
        return result


def steps(task: str, batch: int | None, members: int, bfloat16: bool) -> Callable[[], None]:
    """What makes one training step on random examples."""
    domain = get_task(task).domain
    rng = np.random.default_rng(0)
    shapes = [(n, *grid.shape) for n, grid in zip(SIZES, domain.grids, strict=True)]
    pairs = [
        (rng.normal(size=(n, domain.in_channels, *grid)), rng.normal(size=(n, domain.out_channels, *grid)))
        for n, *grid in shapes
    ]
    data = Dataset.of(domain, pairs)
    ensemble = Ensemble(domain, members=members, training={"batch": batch} if batch else None)
    network = MemberFNO(ensemble.network_settings, members).initialise(range(members))
    batches = Batches(data, Normaliser.fit(data), ensemble.training, [[m] for m in range(members)])
    objective = network_objective(network, batches, ensemble.training.loss, bfloat16_steps=10**9 * bfloat16)
    optimiser = adam(network, ensemble.training, data.sizes)

    def step() -> None:
        losses = objective()
        for parameter in network.parameters():
            parameter.grad = None
        losses.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def peak(dtype: torch.dtype, n: int = 1024) -> float:
    """Operations per second of a product of two square matrices."""
    a = torch.randn(n, n).to(dtype)
    return 2 * n**3 / min(seconds_of(lambda: torch.mm(a, a), 8))


def seconds_of(call: Callable[[], Any], times: int) -> list[float]:
    """Processor time of each of several calls."""
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return found


def rows(tasks: list[str], count: int, **options: Any) -> Iterator[tuple[str, float, Spent]]:
    for task in tasks:
        step = steps(task, **options)
        with steady_memory():
            seconds_of(step, 3)  # make tables and take memory from the system
            whole = median(seconds_of(step, count))
            with Spent() as spent:
                seconds_of(step, count)
        yield task, whole, spent


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--batch", type=int, help="examples per step (default: the preset's)")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--count", type=int, default=8, help="steps that are measured (default: 8)")
    parser.add_argument("--bfloat16", action="store_true", help="steps in bfloat16")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kinds = [*KINDS, "sums and others"]
    best = peak(torch.bfloat16 if given.bfloat16 else torch.float32)
    precision = "bfloat16" if given.bfloat16 else "float32"
    report = Report("step-" + precision, f"Where the time of a training step goes, {precision}", __doc__, given)
    numbers = dict.fromkeys((*kinds, "Python"), ".1f")
    table = report.table(
        f"Milliseconds of a training step, {given.members} members, {precision}; peak {best / 1e9:.0f} GFLOP/s",
        {"task": "", "ms": ".0f", **numbers, "GFLOP": ".2f", "GFLOP/s of products": ".0f", "step of peak": ".0%"},
    )
    for task, whole, spent in rows(
        given.tasks, given.count, batch=given.batch, members=given.members, bfloat16=given.bfloat16
    ):
        shares = [spent.seconds[kind] / given.count for kind in kinds]
        operations = spent.operations / given.count
        table.add(
            task,
            1e3 * whole,
            *[1e3 * share for share in shares],
            1e3 * max(0.0, whole - sum(shares)),
            operations / 1e9,
            operations / shares[0] / 1e9,
            operations / whole / best,
        )
    report.save()


if __name__ == "__main__":
    main()
