"""What corrections from mesh to mesh are worth: the same network with and without them, on the same examples.

    python -m benchmarks.bench_local_correction [--task burgers] [--examples 60+10 200+10 ...] [--iterations 1000]

Random inputs, trained from scratch; errors on 200 fine examples that nothing else uses, and on their coarse solutions.
"""

import time

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.data.cache import make_inputs
from mrafno.data.dataset import Dataset
from mrafno.grids import Array, relative_l2, resample
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--task", default="burgers")
    parser.add_argument("--examples", nargs="+", default=["10+10", "60+10", "200+10", "200+50", "200+200"])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--stencil-radius", type=int, default=2)
    parser.add_argument("--seed", type=int, default=200)
    parser.add_argument("--tested", type=int, default=200)
    given = parser.parse_args()
    task = get_task(given.task)
    domain, last = task.domain, len(task.resolutions) - 1

    def solved(inputs: Array, level: int) -> tuple[Array, Array]:
        on_mesh = task.restrict(inputs, level)
        return on_mesh, task.solve(on_mesh, level)

    sizes = [tuple(int(n) for n in text.split("+")) for text in given.examples]
    most = [max(n[i] for n in sizes) for i in (0, 1)]
    inputs = make_inputs(task, sum(most), given.seed)
    coarse, fine = solved(inputs[: most[0]], 0), solved(inputs[most[0] :], last)
    tests = make_inputs(task, given.tested, given.seed + 1)
    test, test_coarse = solved(tests, last), solved(tests, 0)
    gap = relative_l2(resample(test_coarse[1], domain.grids[0], domain.grids[last]), test[1]).mean()
    report = Report("local-correction", "Corrections from mesh to mesh", __doc__, given)
    table = report.table(
        f"{given.task}: coarse solutions, interpolated, are {gap:.4f} from fine ones",
        {"coarse": "d", "fine": "d", "reach": "d", "error": ".4f", "on coarse": ".4f", "seconds": ".0f"},
    )
    for n_coarse, n_fine in sizes:
        examples = [
            [np.zeros((0, channels, *grid.shape)) for grid in domain.grids]
            for channels in (domain.in_channels, domain.out_channels)
        ]
        for i in (0, 1):
            examples[i][0], examples[i][last] = coarse[i][:n_coarse], fine[i][:n_fine]
        errors = []
        for stencil_radius in (0, given.stencil_radius):
            surrogate = get_surrogate(
                "ensemble", domain, members=given.members, seed=7, network={"stencil_radius": stencil_radius}
            )
            started = time.perf_counter()
            surrogate.fit(Dataset(domain, tuple(examples[0]), tuple(examples[1])), iterations=given.iterations)
            seconds = time.perf_counter() - started
            error = relative_l2(surrogate.predict(test[0]).mean, test[1]).mean()
            below = relative_l2(surrogate.predict(test_coarse[0], 0).mean, test_coarse[1]).mean()
            errors.append(float(error))
            table.add(n_coarse, n_fine, stencil_radius, errors[-1], float(below), seconds)
        report.ratio(f"{n_coarse} + {n_fine}: error, with / without corrections", errors[1:], errors[:1])
    report.save()


if __name__ == "__main__":
    main()
