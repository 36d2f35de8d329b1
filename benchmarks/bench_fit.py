"""What a change of the training settings does to a fit from scratch: errors on many test inputs, paired by seed.

    python -m benchmarks.bench_fit TASK N,N [--variants bfloat16_share=0.75 iterations=x0.5,rate=6e-3 ...]

``N,N`` are the examples of each mesh. A variant is a list of training settings; ``xQ`` is Q times what the policy
chooses for so many examples, and a setting of Adam's, ``beta1`` or ``beta2``, is one too. The first row has none.
Seeds differ in examples, initial weights and minibatches, and are the same for all variants. Neither the examples nor
the test inputs are those of any reported result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.record import Report, arguments
from mrafno.data.dataset import Dataset
from mrafno.grids import Array, relative_l2
from mrafno.surrogate import Ensemble
from mrafno.tasks import Task, get_task

EXAMPLES, TEST = 5000, 40_000


def solved(task: Task, count: int, seed: int, level: int) -> tuple[Array, Array]:
    """Inputs and outputs of a level."""
    f = task.restrict(task.sample(count, seed=seed), level)
    return f, task.solve(f, level)


@contextmanager
def adam_with(betas: dict[str, float]) -> Iterator[None]:
    """Adam with other constants."""
    step: Any = torch._fused_adamw_
    with mock.patch.object(torch, "_fused_adamw_", lambda *a, **k: step(*a, **{**k, **betas})):
        yield


def parsed(variant: str) -> dict[str, str]:
    """Settings by name."""
    return dict(pair.split("=") for pair in variant.split(",")) if variant else {}


def fit(task: Task, data: Dataset, members: int, seed: int, changes: dict[str, str]) -> tuple[Ensemble, float]:
    """A surrogate and the processor time of its fit."""
    plain = Ensemble(task.domain, members=members, seed=seed)
    chosen = plain.policy.settings("scratch", plain.training, data.sizes).as_json()
    betas = {name: float(value) for name, value in changes.items() if name.startswith("beta")}
    training: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in betas:
            number = chosen[name] * float(value[1:]) if value.startswith("x") else float(value)
            training[name] = round(number) if isinstance(chosen[name], int) else number
    iterations = training.pop("iterations", chosen["iterations"])
    made = Ensemble(task.domain, members=members, seed=seed, training=training)
    start = time.process_time()
    with adam_with(betas):
        made.fit(data, iterations=iterations)
    return made, time.process_time() - start


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("task")
    parser.add_argument("sizes", help="examples of each mesh, as 30,4")
    parser.add_argument("--variants", nargs="*", default=["bfloat16_share=0"])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test", type=int, default=50)
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = get_task(given.task)
    sizes = [int(n) for n in given.sizes.split(",")]
    data = [
        Dataset.of(
            task.domain, [solved(task, n, EXAMPLES + 100 * seed + level, level) for level, n in enumerate(sizes)]
        )
        for seed in range(given.seeds)
    ]
    f, y = solved(task, given.test, TEST, task.levels - 1)
    report = Report(f"fit-{given.task}-{given.sizes}", f"Training settings, {given.task}", __doc__, given)
    table = report.table(
        f"{given.task} {given.sizes}, {given.members} members, {given.test} test inputs",
        {"variant": "", "errors by seed": "", "mean": ".4f", "by the first": ".3f", "processor s": ".1f"},
    )
    first: list[float] = []
    for variant in ("", *given.variants):
        errors, seconds = [], []
        for seed in range(given.seeds):
            made, spent = fit(task, data[seed], given.members, seed, parsed(variant))
            errors.append(float(relative_l2(made.predict(f, check=False).mean, y).mean()))
            seconds.append(spent)
        mean = float(np.mean(errors))
        first = first or errors
        if variant:
            report.ratio(f"{variant}: error by that of the first row", errors, first)
        found = " ".join(f"{error:.4f}" for error in errors)
        table.add(variant or "-", found, mean, mean / float(np.mean(first)), float(np.mean(seconds)))
    report.save()


if __name__ == "__main__":
    main()
