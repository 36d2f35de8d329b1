"""What a coarse mesh is worth in three dimensions: the same budget spent on both meshes and on the fine one alone.

    python -m benchmarks.bench_3d [--task diffusion3d] [--examples 100+10] [--seeds 1]

Random inputs, the default network trained from scratch; errors on fine examples that nothing else uses. What is left of
the budget when the coarse examples are left out buys more fine ones, rounded up.
"""

import argparse
import math
import time

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.grids import relative_l2
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="diffusion3d")
    parser.add_argument("--examples", default="100+10")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--tested", type=int, default=30)
    parser.add_argument("--stencil-radius", type=int, default=None)
    arguments = parser.parse_args()
    task = get_task(arguments.task)
    domain, (cheap, dear) = task.domain, task.costs
    coarse, fine = (int(n) for n in arguments.examples.split("+"))
    budget = coarse * cheap + fine * dear
    alone = math.ceil(budget / dear)
    network = {} if arguments.stencil_radius is None else {"stencil_radius": arguments.stencil_radius}
    print(f"{arguments.task}, costs {cheap:g} : {dear:g}, budget {budget:g}; {arguments.tested} test examples")
    print(f"{'seed':>5} {'coarse':>7} {'fine':>5} {'cost':>7} {'error':>8} {'seconds':>8}")
    for seed in range(arguments.seeds):
        f = task.sample(coarse + alone + arguments.tested, seed=seed)
        test, rest = f[: arguments.tested], f[arguments.tested :]
        truth = task.solve(test, 1)
        dear_ones = rest[:alone], task.solve(rest[:alone], 1)
        low = task.restrict(rest[alone:], 0)
        cheap_ones = low, task.solve(low, 0)
        errors = []
        for examples, number in ((cheap_ones, fine), (None, alone)):
            surrogate = get_surrogate("ensemble", domain, members=arguments.members, seed=seed, network=network)
            started = time.perf_counter()
            surrogate.fit(Dataset.of(domain, [examples, (dear_ones[0][:number], dear_ones[1][:number])]))
            seconds = time.perf_counter() - started
            means = [surrogate.predict(one[None]).mean for one in test]
            errors.append(float(relative_l2(np.concatenate(means), truth).mean()))
            count = 0 if examples is None else coarse
            cost = count * cheap + number * dear
            print(f"{seed:>5} {count:>7} {number:>5} {cost:>7g} {errors[-1]:>8.4f} {seconds:>8.0f}", flush=True)
        print(f"{'':>5} both meshes have {errors[0] / errors[1]:.2f} times the error of the fine one alone", flush=True)


if __name__ == "__main__":
    main()
