"""How much there is to choose: how far a surrogate's errors on single inputs differ, and whether its members know it.

    python -m benchmarks.bench_spread [--tasks burgers diffusion darcy navier-stokes] [--examples 60]

A choice of inputs can pay where some teach more than others. Three members learn from random inputs on the coarsest
mesh and are measured there on 200 others: the mean error, its tenth and ninetieth percentile and their ratio, and the
rank correlation of the members' relative disagreement with the error.
"""

import numpy as np
from scipy.stats import spearmanr

from benchmarks.record import Report, arguments
from mrafno.data.cache import solve_examples
from mrafno.data.dataset import Dataset
from mrafno.grids import Array, relative_l2
from mrafno.surrogate import get_surrogate
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks import TASKS, get_task

ITERATIONS = {1: 800, 2: 400}


def disagreement(prediction: Prediction) -> Array:
    """Standard deviation over members, relative to the size of the mean: ``(n,)``."""
    values = tuple(range(2, prediction.samples.ndim))
    square = np.square(prediction.samples - prediction.samples.mean(0)).sum(values).mean(0)
    size = np.square(prediction.mean).sum(tuple(axis - 1 for axis in values))
    return np.asarray(np.sqrt(square / size))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["burgers", "diffusion", "darcy", "navier-stokes"])
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=400)
    given = parser.parse_args()
    report = Report("spread", "How much there is to choose", __doc__, given)
    table = report.table(
        f"Errors after {given.examples} coarse examples",
        {"task": "", "mean": ".4f", "p10": ".4f", "p90": ".4f", "p90 / p10": ".1f", "correlation": ".2f"},
    )
    for name in given.tasks:
        task = get_task(name)
        sets = []
        for n, seed in ((given.examples, given.seed), (200, given.seed + 1)):
            f = task.sample(n, seed=seed)
            sets.append((task.restrict(f, 0), solve_examples(task, f, 0)))
        surrogate = get_surrogate("ensemble", task.domain, members=3, seed=0)
        data = Dataset.of(task.domain, [sets[0], *[None] * (task.levels - 1)])
        surrogate.fit(data, iterations=ITERATIONS[task.domain.dim])
        prediction = surrogate.predict(sets[1][0], 0)
        error = relative_l2(prediction.mean, sets[1][1])
        low, high = np.quantile(error, [0.1, 0.9])
        known = spearmanr(disagreement(prediction), error).statistic
        table.add(name, *map(float, (error.mean(), low, high, high / low, known)))
    report.save()


if __name__ == "__main__":
    main()
