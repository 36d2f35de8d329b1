"""What a wrong layout costs: errors of surrogates of two solvers, on the grid that each has and on a similar one.

::

    python -m benchmarks.bench_layouts                  two seeds, four minutes of one core

Both solvers have 16 points on the coarse mesh and 64 on the fine one, and a coefficient that depends on the position:

==============  ===================================================================  ==================
solver          its points                                                           taken for
==============  ===================================================================  ==================
``transport``   periodic cell centres, (i + 1/2) / n, as py-pde's                     periodic nodes, i/n
``diffusion``   i/n without the last end, not periodic, as subsampled published data  nodes with both ends
==============  ===================================================================  ==================

A wrong layout shifts or stretches the functions of one mesh against those of the other. The error is that on 60 test
examples of the fine mesh, after 40 coarse and 4 fine examples.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Report, arguments
from mrafno import FunctionTask, Run
from mrafno.grids import Array, Layout

SHAPES = (16, 64)
#: Layouts of each solver, the right one first.
LAYOUTS: dict[str, tuple[Layout, Layout]] = {
    "transport": ("periodic-cells", "periodic"),
    "diffusion": ("left", "nodes"),
}
_SETTINGS: dict[str, Any] = {"initial": (40, 4), "test": 60, "members": 2, "iterations": 1000}


def transport(f: Array, level: int) -> Array:
    """u_t + (c(x) u)_x = 0.01 u_xx until t = 0.2 with c = 1 + sin(2 pi x) / 2, periodic, at cell centres."""
    n = f.shape[-1]
    x = (np.arange(n) + 0.5) / n
    speed, wave = 1 + 0.5 * np.sin(2 * np.pi * x), 2j * np.pi * np.fft.fftfreq(n, 1 / n)
    derivative = np.real(np.fft.ifft(wave[:, None] * np.fft.fft(np.eye(n), axis=0), axis=0))
    generator = -derivative * speed + 0.01 * derivative @ derivative
    values, vectors = np.linalg.eig(0.2 * generator)
    end = vectors @ (np.exp(values) * np.linalg.solve(vectors, f[0].astype(complex)))
    return np.asarray(end.real[None])


def diffusion(f: Array, level: int) -> Array:
    """-(c u')' = f with c = 1 + 4 x^2, u(0) = 0 and u'(1) = 0, at the points i/n for i < n."""
    n = f.shape[-1]
    faces = 1 + 4 * ((np.arange(n) + 0.5) / n) ** 2
    matrix = np.zeros((n + 1, n + 1))
    for i, c in enumerate(faces):
        matrix[i : i + 2, i : i + 2] += n * c * np.array([[1.0, -1.0], [-1.0, 1.0]])
    load = np.append(f[0], f[0, -1]) / n
    load[-1] /= 2
    return np.asarray(np.append(0.0, np.linalg.solve(matrix[1:, 1:], load[1:]))[None, :n])


SOLVERS = {"transport": transport, "diffusion": diffusion}


def inputs(solver: str, n: int, seed: int) -> Array:
    """Smooth random functions on the solver's own fine grid."""
    rng, periodic = np.random.default_rng(seed), solver == "transport"
    x = (np.arange(SHAPES[1]) + 0.5 * periodic) / SHAPES[1]
    waves = np.array([[2], [4]] if periodic else [[1], [2], [3], [4]]) * np.pi * x
    sines, cosines = (rng.standard_normal((n, len(waves))) for _ in range(2))
    return np.asarray(sines @ np.sin(waves) + cosines @ np.cos(waves))


def error(folder: Path, solver: str, layout: Layout, seed: int) -> float:
    """The error of a surrogate that takes the solver's grids for those of a layout."""
    task = FunctionTask(SOLVERS[solver], inputs(solver, 120, seed), SHAPES, (1.0, 8.0), layout=layout, name=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Run.create(folder / f"{solver}-{layout}-{seed}", task, seed=seed, **_SETTINGS) as run:
            run.advance(steps=0)
            return float(run.state.evaluations[-1].metrics["relative_l2"])


def main() -> None:
    """A line for each solver."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    report = Report("layouts", "What a wrong layout costs", __doc__, options)
    columns = {"solver": "", "right layout": "", "error": ".4f", "wrong layout": "", "its error": ".4f"}
    table = report.table(f"Errors, geometric means of {options.seeds} seeds", columns)
    for solver, layouts in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = [[error(Path(folder), solver, one, seed) for seed in range(options.seeds)] for one in layouts]
        right, wrong = (float(np.exp(np.mean(np.log(one)))) for one in found)
        report.ratio(f"{solver}: error, wrong / right layout", found[1], found[0])
        table.add(solver, layouts[0], right, layouts[1], wrong)
    report.save()


if __name__ == "__main__":
    main()
