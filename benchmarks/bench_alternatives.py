"""What a user would pick instead of mrafno: total cost to equal error, and processor time.

    python -m benchmarks.bench_alternatives [TASK ...] [--budget 600]

==============  ========================================================================================================
``mra-auto``    a run with the settings that come by default
``random fine``  the same surrogate on random inputs of the finest mesh
``FNO loop``    five FNOs of neuraloperator in a loop as one would write it: fine mesh only, four random inputs first,
                then in rounds of two the pool's inputs of the largest variance over members, trained anew in each round
``PCA + MFK``   principal components of inputs (logarithms of parameters beside them) and of outputs, and for each of
                the latter a multi-fidelity Gaussian process (SMT's MFK) on nested random designs of ten coarse for
                each fine solve, both counted
==============  ========================================================================================================

Costs are those of all training simulations; errors are on the same 200 fine test inputs. A cost to reach an error is
interpolated between the logarithms of what was measured. ``make bench-alternatives`` installs neuraloperator and SMT.
"""

import copy
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.record import Report, arguments
from mrafno.grids import Array, relative_l2
from mrafno.run import Run
from mrafno.tasks import Task, get_task

TASKS = ("burgers", "burgers-parameters")
TEST, TEST_SEED, POOL = 200, 60_000, 990
#: Total cost, error and processor seconds so far.
Point = tuple[float, float, float]
#: Share of the variance that components keep of inputs and outputs, and their largest numbers.
KEPT, MOST_INPUT, MOST_OUTPUT = 0.9995, 8, 15


def error_of(mean: Array, test: tuple[Array, Array]) -> float:
    """Mean relative error."""
    return float(relative_l2(mean, test[1]).mean())


class Diary:
    """Notes cost, surrogate and processor time after each fit of a run."""

    def __init__(self) -> None:
        self.notes: list[tuple[float, Any, float]] = []

    def on_trained(self, run: Run, training: object) -> None:
        del training
        cost = sum(one.cost or 0.0 for one in run.state.queries.values() if one.status == "told")
        self.notes.append((cost, run, time.process_time()))
        self.notes[-1] = (cost, copy.copy(run.trainer.surrogate), time.process_time())


def of_run(task: Task, test: tuple[Array, Array], budget: float, seed: int, **settings: Any) -> list[Point]:
    """A run, measured after every fit."""
    diary = Diary()
    start = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        Run.create(Path(folder) / "run", task, seed=seed, test=0, callbacks=[diary], **settings) as run,
    ):
        run.advance(budget=budget)
    return [
        (cost, error_of(surrogate.predict(test[0], check=False).mean, test), when - start)
        for cost, surrogate, when in diary.notes
    ]


def mra_auto(task: Task, test: tuple[Array, Array], budget: float, seed: int) -> list[Point]:
    return of_run(task, test, budget, seed)


def random_fine(task: Task, test: tuple[Array, Array], budget: float, seed: int) -> list[Point]:
    return of_run(task, test, budget, seed, method="random-high", initial=(0,) * (task.levels - 1) + (4,))


def fno_loop(task: Task, test: tuple[Array, Array], budget: float, seed: int) -> list[Point]:
    """An ensemble of neuraloperator's FNOs, as a person may write it."""
    from neuralop.models import FNO

    rng, dim = np.random.default_rng(seed), task.domain.dim
    pool, fee = task.sample(POOL, seed=seed), task.costs[-1]
    rows = list(map(int, rng.choice(POOL, 4, replace=False)))
    y = task.solve(pool[rows], task.levels - 1)
    found: list[Point] = []
    start = time.process_time()

    def trained(member: int, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.nn.Module:
        torch.manual_seed(1000 * seed + member)
        channels = task.domain.in_channels
        network: torch.nn.Module = FNO(
            n_modes=(16,) * dim, hidden_channels=32, in_channels=channels, out_channels=task.domain.out_channels
        )
        epochs, batch = 500, 16
        optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
        for _ in range(epochs):
            for part in torch.split(torch.randperm(len(inputs)), batch):
                difference = (network(inputs[part]) - outputs[part]).flatten(1).norm(dim=1)
                loss = (difference / outputs[part].flatten(1).norm(dim=1)).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            schedule.step()
        return network

    def normalised(f: Array, mean: Array, scale: Array) -> torch.Tensor:
        return torch.as_tensor((f - mean) / scale).float()

    while True:
        axes = (0, *range(2, 2 + dim))
        mean, scale = (part(pool[rows], axis=axes, keepdims=True) for part in (np.mean, np.std))
        size = float(np.std(y))
        inputs = normalised(pool[rows], mean, scale)
        networks = [trained(member, inputs, torch.as_tensor(y / size).float()) for member in range(5)]

        def predictions(f: Array) -> Array:
            with torch.no_grad():
                parts = [network(normalised(f, mean, scale)).double().numpy() for network in networks]  # noqa: B023
            return size * np.stack(parts)  # noqa: B023

        spent = time.process_time() - start
        found.append((len(rows) * fee, error_of(predictions(test[0]).mean(0), test), spent))
        if (len(rows) + 2) * fee > budget:
            return found
        variance = predictions(pool).var(axis=0).reshape(POOL, -1).mean(1)
        variance[rows] = -1
        more = [int(row) for row in np.argsort(-variance)[:2]]
        y = np.concatenate([y, task.solve(pool[more], task.levels - 1)])
        rows += more


class Components:
    """Principal components of rows, standardised."""

    def __init__(self, rows: Array, most: int) -> None:
        self.mean = rows.mean(0)
        _, values, vectors = np.linalg.svd(rows - self.mean, full_matrices=False)
        shares = np.cumsum(values**2) / np.sum(values**2)
        count = min(most, int(np.searchsorted(shares, KEPT)) + 1)
        self.vectors = vectors[:count]
        self.scale = np.maximum(((rows - self.mean) @ self.vectors.T).std(0), 1e-12)

    def of(self, rows: Array) -> Array:
        return np.asarray((rows - self.mean) @ self.vectors.T / self.scale)

    def back(self, numbers: Array) -> Array:
        return np.asarray(self.mean + (numbers * self.scale) @ self.vectors)


def pca_mfk(task: Task, test: tuple[Array, Array], budget: float, seed: int) -> list[Point]:
    """A reduced basis with a multi-fidelity Gaussian process, on growing nested designs."""
    from smt.applications import MFK

    from mrafno.grids import resample

    pool, last = task.sample(POOL, seed=seed), task.levels - 1
    order = np.random.default_rng(seed).permutation(POOL)
    found: list[Point] = []
    start = time.process_time()

    def numbers(f: Array) -> tuple[Array, Array]:
        functions, parameters = task.split(f)
        return functions.reshape(len(f), -1), np.log(parameters) if parameters.size else parameters

    whole = numbers(pool)
    functions = Components(whole[0], MOST_INPUT)
    centre, scale = (whole[1].mean(0), whole[1].std(0)) if whole[1].size else (0.0, 1.0)

    def features(f: Array) -> Array:
        flat, parameters = numbers(f)
        return np.concatenate([functions.of(flat), (parameters - centre) / scale], axis=1)

    fine = 2
    while fine * (task.costs[-1] + 10 * task.costs[0]) <= budget:
        rows = order[: 10 * fine]
        low = task.solve(task.restrict(pool[rows], 0), 0)
        low = resample(low, task.grids[0], task.grids[last]).reshape(len(rows), -1)
        high = task.solve(pool[rows[:fine]], last).reshape(fine, -1)
        outputs = Components(low, MOST_OUTPUT)
        x, z = features(pool[rows]), features(test[0])
        columns = []
        for column in range(len(outputs.vectors)):
            model = MFK(theta0=[0.1] * x.shape[1], print_global=False)
            model.set_training_values(x, outputs.of(low)[:, [column]], name=0)
            model.set_training_values(x[:fine], outputs.of(high)[:, [column]])
            model.train()
            columns.append(model.predict_values(z)[:, 0])
        mean = outputs.back(np.stack(columns, 1)).reshape(test[1].shape)
        cost = fine * (task.costs[-1] + 10 * task.costs[0])
        found.append((cost, error_of(mean, test), time.process_time() - start))
        fine += max(1, fine // 3)
    return found


WAYS: dict[str, Callable[[Task, tuple[Array, Array], float, int], list[Point]]] = {
    "mra-auto": mra_auto,
    "random fine": random_fine,
    "FNO loop": fno_loop,
    "PCA + MFK": pca_mfk,
}


def cost_to(error: float, points: list[Point]) -> float | None:
    """The cost at which an error was reached first; None if it was not."""
    below = next((number for number, point in enumerate(points) if point[1] <= error), None)
    if below is None:
        return None
    if below == 0:
        return points[0][0]
    (left, high, _), (right, low, _) = points[below - 1], points[below]
    share = np.log(high / error) / np.log(high / low)
    return float(np.exp((1 - share) * np.log(left) + share * np.log(right)))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--ways", default=",".join(WAYS), help="comma-separated")
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    report = Report("alternatives", "Against what a user would pick instead", __doc__, given)
    for name in given.tasks:
        task = get_task(name)
        f = task.sample(TEST, seed=TEST_SEED)
        test = f, task.solve(f, task.levels - 1)
        table = report.table(
            f"{name}: errors by total cost",
            {"": "", "cost": ",.0f", "error": ".4f", "processor s": ",.0f"},
        )
        curves: dict[str, list[Point]] = {}
        for way in given.ways.split(","):
            curves[way] = WAYS[way](task, test, given.budget, given.seed)
            last = -np.inf
            for cost, error, seconds in curves[way]:
                if cost >= 1.3 * last or cost == curves[way][-1][0]:
                    table.add(way, cost, error, seconds)
                    last = cost
        reached = report.table(
            f"{name}: total cost to reach an error",
            {"error": ".3f", **dict.fromkeys(curves, ",.0f")},
        )
        for error in (0.2, 0.1, 0.07, 0.05, 0.03, 0.02):
            costs = {way: cost_to(error, points) for way, points in curves.items()}
            if any(costs.values()):
                reached.add(error, *costs.values())
                ours = costs.get("mra-auto")
                for way, theirs in costs.items():
                    if ours and theirs and way != "mra-auto":
                        report.ratio(f"{name}: cost to an error of {error:g}, {way} / mra-auto", [theirs], [ours])
    report.note("An empty cell: the error was not reached within the budget.")
    report.save()


if __name__ == "__main__":
    main()
