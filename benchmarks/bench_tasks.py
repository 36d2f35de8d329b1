"""Milliseconds per solve on the finest mesh of each problem, in a batch of 20, beside the target and a plain reference.

The reference is the oracle of the tests: the same scheme in space, written as in a textbook, one example at a time.
Both are timed in this run on this machine, so their ratio carries over to others; the milliseconds do not.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, for ours and for the reference

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.grids import Array
from mrafno.tasks import Burgers, Darcy, Diffusion, NavierStokes
from mrafno.tasks.base import generators
from mrafno.tasks.navier_stokes import integrate
from mrafno.tasks.random_fields import periodic_field
from tests.oracles import burgers, darcy, diffusion, navier_stokes

BATCH = 20


@dataclass(frozen=True)
class Case:
    name: str
    target: float  # milliseconds per solve
    inputs: Array
    ours: Callable[[Array], Array]
    plain: Callable[[Array], Array]
    plain_solves: int


def cases() -> list[Case]:
    b, d, r, n = Burgers(), Darcy(), Diffusion(), NavierStokes()
    # The target is the whole trajectory to t = 50; sample and solve are half of it each.
    phase = 2 * np.pi * sum(np.ix_(*n.grids[-1].axes))
    flow: dict[str, Any] = {
        "viscosity": n.viscosity,
        "forcing": n.forcing * (np.sin(phase) + np.cos(phase)),
        "times": [n.final_time * k / 40 for k in range(1, 41)],
    }
    start = periodic_field(generators(range(BATCH), 0), (64, 64), scale=7.0**1.5, shift=49.0, power=2.5)
    return [
        Case(
            "burgers 129", 40, b.sample(BATCH), lambda f: b.solve(f, 1),
            lambda f: burgers.solve_burgers(f[:, 0], viscosity=b.viscosity, final_time=b.final_time), 2,
        ),
        Case(
            "darcy 128x128", 80, d.sample(BATCH), lambda f: d.solve(f, 1),
            lambda f: darcy.solve_darcy(f[:, 0]), 4,
        ),
        Case(
            "diffusion 128x128", 40, r.sample(BATCH), lambda f: r.solve(f, 1),
            lambda f: diffusion.solve_reaction_diffusion(f[:, 0], (128, 128), r.diffusivity, r.reaction), 4,
        ),
        Case(
            "navier-stokes 64x64, t = 50", 4000, start, lambda w: integrate(w, **flow),
            lambda w: navier_stokes.integrate(w, **flow), 1,
        ),
    ]  # fmt: skip


def milliseconds(solve: Callable[[Array], Array], inputs: Array) -> tuple[float, Array]:
    """Processor time, which with one thread is the time on a core of one's own, whatever else the machine does."""
    start = time.process_time()
    outputs = solve(inputs)
    return 1e3 * (time.process_time() - start) / len(inputs), outputs


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="batches per problem (default: 3)")
    given = parser.parse_args()
    report = Report("tasks", "Solvers of the built-in problems", __doc__, given)
    table = report.table(
        f"Solves on the finest mesh, per solve in a batch of {BATCH}, one core",
        {"problem": "", "ms": ".1f", "target": "g", "plain ms": ".0f", "plain / ours": ".1f", "difference": ".0e"},
    )
    for case in cases():
        case.ours(case.inputs[:1])  # tables and transform plans are made once
        ours: list[float] = []
        plain: list[float] = []
        for _ in range(given.repeat):
            time_ours, outputs = milliseconds(case.ours, case.inputs)
            time_plain, expected = milliseconds(case.plain, case.inputs[: case.plain_solves])
            ours, plain = [*ours, time_ours], [*plain, time_plain]
        got = outputs[: case.plain_solves].reshape(expected.shape)
        difference = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
        ratio = report.ratio(f"{case.name}: plain / ours", plain, ours)
        table.add(case.name, min(ours), case.target, min(plain), ratio.median, difference)
    report.save()


if __name__ == "__main__":
    main()
