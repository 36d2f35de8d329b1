"""What a coarse mesh is worth in three dimensions: the same budget spent on both meshes and on the fine one alone.

    python -m benchmarks.bench_3d [--task diffusion3d] [--examples 100+10] [--seeds 1]

Random inputs, the default network trained from scratch; errors on fine examples that nothing else uses. What is left of
the budget when the coarse examples are left out buys more fine ones, rounded up.
"""

import math
import time

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.data.dataset import Dataset
from mrafno.grids import relative_l2
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--task", default="diffusion3d")
    parser.add_argument("--examples", default="100+10")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--tested", type=int, default=30)
    parser.add_argument("--stencil-radius", type=int, default=None)
    given = parser.parse_args()
    task = get_task(given.task)
    domain, (cheap, dear) = task.domain, task.costs
    coarse, fine = (int(n) for n in given.examples.split("+"))
    budget = coarse * cheap + fine * dear
    alone = math.ceil(budget / dear)
    network = {} if given.stencil_radius is None else {"stencil_radius": given.stencil_radius}
    report = Report("3d", "A coarse mesh in three dimensions", __doc__, given)
    table = report.table(
        f"{given.task}, costs {cheap:g} : {dear:g}, budget {budget:g}; {given.tested} test examples",
        {"seed": "d", "coarse": "d", "fine": "d", "cost": "g", "error": ".4f", "seconds": ".0f"},
    )
    both: list[float] = []
    alone_only: list[float] = []
    for seed in range(given.seeds):
        f = task.sample(coarse + alone + given.tested, seed=seed)
        test, rest = f[: given.tested], f[given.tested :]
        truth = task.solve(test, 1)
        dear_ones = rest[:alone], task.solve(rest[:alone], 1)
        low = task.restrict(rest[alone:], 0)
        cheap_ones = low, task.solve(low, 0)
        errors = []
        for examples, number in ((cheap_ones, fine), (None, alone)):
            surrogate = get_surrogate("ensemble", domain, members=given.members, seed=seed, network=network)
            started = time.perf_counter()
            surrogate.fit(Dataset.of(domain, [examples, (dear_ones[0][:number], dear_ones[1][:number])]))
            seconds = time.perf_counter() - started
            means = [surrogate.predict(one[None]).mean for one in test]
            errors.append(float(relative_l2(np.concatenate(means), truth).mean()))
            count = 0 if examples is None else coarse
            cost = count * cheap + number * dear
            table.add(seed, count, number, cost, errors[-1], seconds)
        both, alone_only = [*both, errors[0]], [*alone_only, errors[1]]
    report.ratio("error, both meshes / the fine one alone", both, alone_only)
    report.save()


if __name__ == "__main__":
    main()
