r"""The problems: half of them to build on, half of them held out.

=============  ===  ========  ==============  =====================================  =========  ==================
problem        dim  meshes    costs           what it is                             half       inputs
=============  ===  ========  ==============  =====================================  =========  ==================
cubic          1    17, 65    1 : 16          -u'' + 50 u^3 = f                      building   differ by decades
burgers        1    33, 129   1 : 41          the built-in task                      building   a Gaussian field
layer          1    9, 65     1 : 4           -u''/100 + (1 + u) u' = f, upwind      building   a Gaussian field
middle         1    17 to 65  1 : 30 : 40     u_t = u_xx/50 + 4 u (1 - u^2)          building   a Gaussian field
twin           1    33, 65    1 : 2           -u''/20 + u^3 = f                      building   a Gaussian field
parameters     1    33, 129   1 : 100         -a u'' + k u = a bump at c             held out   numbers, by decades
alias          1    9, 65     1 : 10          -u''/1000 + u + u^3 = f                held out   waves too short for
                                                                                                the coarse mesh
ladder         1    9 to 65   1 : 6 : 36      -u''/50 + u' + 10 u^3 = f, upwind      held out   a Gaussian field
square         2    9, 33     1 : 16          -Laplace(u) + 50 u^3 = f               held out   differ by decades
thin           1    17, 65    1 : 8           -u''/200 + (1 + u^2) u' = f, upwind    held out   a Gaussian field
=============  ===  ========  ==============  =====================================  =========  ==================

``middle`` has a mesh of 25 nodes at nearly the cost of the finest one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.regimes.solvers import gaussian_fields, newton, square, stiffness, upwind, with_ends
from mrafno.grids import Array
from mrafno.tasks import FunctionTask, Task, get_task

#: Inputs of each problem: candidates, initial and test inputs are drawn from them.
_INPUTS = 600


@dataclass(frozen=True)
class Problem:
    """A problem, and the total costs, first examples included, at which methods are compared on it."""

    make: Callable[[], Task]
    half: Literal["building", "held out"]
    costs: tuple[float, ...]


def cubic(f: Array, level: int) -> Array:
    """Solve -u'' + 50 u^3 = f, u = 0 at both ends; ``(n, 1, points)``."""
    del level
    a = stiffness(f.shape[-1])
    return with_ends(_reaction(a, f[:, 0, 1:-1], lambda u: 50 * u**3, lambda u: 150 * u**2))


def layer(f: Array, level: int) -> Array:
    """Solve -u'' / 100 + (1 + u) u' = f with upwind differences."""
    del level
    return with_ends(_advection(f, 0.01, lambda u: 1 + u, np.ones_like))


def thin(f: Array, level: int) -> Array:
    """Solve -u'' / 200 + (1 + u^2) u' = f with upwind differences."""
    del level
    return with_ends(_advection(f, 0.005, lambda u: 1 + u**2, lambda u: 2 * u))


def ladder(f: Array, level: int) -> Array:
    """Solve -u'' / 50 + u' + 10 u^3 = f with upwind differences."""
    del level
    a = stiffness(f.shape[-1]) / 50 + upwind(f.shape[-1])
    return with_ends(_reaction(a, f[:, 0, 1:-1], lambda u: 10 * u**3, lambda u: 30 * u**2))


def twin(f: Array, level: int) -> Array:
    """Solve -u'' / 20 + u^3 = f."""
    del level
    a = stiffness(f.shape[-1]) / 20
    return with_ends(_reaction(a, f[:, 0, 1:-1], lambda u: u**3, lambda u: 3 * u**2))


def alias(f: Array, level: int) -> Array:
    """Solve -u'' / 1000 + u + u^3 = f."""
    del level
    a = stiffness(f.shape[-1]) / 1000 + np.eye(f.shape[-1] - 2)
    return with_ends(_reaction(a, f[:, 0, 1:-1], lambda u: u**3, lambda u: 3 * u**2))


def middle(f: Array, level: int) -> Array:
    """u at t = 1 of u_t = u_xx / 50 + 4 u (1 - u^2) from u = f sin(pi x), implicit in the diffusion."""
    del level
    points = f.shape[-1]
    steps = 2 * (points - 1)
    u = (f[:, 0] * np.sin(np.pi * np.linspace(0, 1, points)))[:, 1:-1]
    inverse = np.linalg.inv(np.eye(points - 2) + stiffness(points) / 50 / steps)
    for _ in range(steps):
        u = (u + 4 / steps * u * (1 - np.clip(u, -3, 3) ** 2)) @ inverse
    return with_ends(u)


def parameters(f: Array, level: int) -> Array:
    """Solve -a u'' + k u = exp(-50 (x - c)^2) with log10 a, log10 k and c as three constant functions."""
    del level
    points = f.shape[-1]
    a, k = 10 ** f[:, 0, :1, None], 10 ** f[:, 1, :1, None]
    right = np.exp(-50 * (np.linspace(0, 1, points)[1:-1] - f[:, 2, :1]) ** 2)
    matrices = a * stiffness(points) + k * np.eye(points - 2)
    return with_ends(np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0], dtype=np.float64))


def _reaction(a: Array, right: Array, g: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Array:
    """Solve A u + g(u) = right for many right sides."""
    eye = np.eye(len(a))
    return newton(lambda u: u @ a.T + g(u) - right, lambda u: a + slope(u)[:, :, None] * eye, np.zeros_like(right))


def _advection(f: Array, eps: float, speed: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Array:
    """Solve -eps u'' + speed(u) u' = f, with the difference from the left."""
    points = f.shape[-1]
    a, d, right = eps * stiffness(points), upwind(points), f[:, 0, 1:-1]
    eye = np.eye(points - 2)
    return newton(
        lambda u: u @ a.T + speed(u) * (u @ d.T) - right,
        lambda u: a + speed(u)[:, :, None] * d + (slope(u) * (u @ d.T))[:, :, None] * eye,
        np.zeros_like(right),
    )


def _interval(
    name: str, solve: Callable[[Array, int], Array], inputs: Array, meshes: tuple[int, ...], costs: tuple[float, ...]
) -> Task:
    return FunctionTask(
        solve, inputs, meshes, costs, name=name, in_channels=1 if inputs.ndim == 2 else inputs.shape[1],
        zero_boundary=[(True, True)], batched=True,
    )  # fmt: skip


def _decades(seed: int, width: float, points: int) -> Array:
    scale = np.exp(np.random.default_rng([seed, 1]).uniform(0, width, (_INPUTS, 1)))
    return gaussian_fields(_INPUTS, points, 0.15, seed) * scale


def _waves(seed: int) -> Array:
    """Sums of sines with 5 to 12 periods, which 9 nodes cannot tell from longer ones."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 65)
    waves = np.stack([np.sin(2 * np.pi * n * x) for n in range(5, 13)])
    return np.asarray(rng.normal(size=(_INPUTS, len(waves))) @ waves)


def _numbers(seed: int, points: int) -> Array:
    rng = np.random.default_rng(seed)
    values = np.stack(
        [rng.uniform(-3, 0, _INPUTS), rng.uniform(-1, 2, _INPUTS), rng.uniform(0.2, 0.8, _INPUTS)], axis=1
    )
    return np.repeat(values[:, :, None], points, axis=2)


def _plane(seed: int) -> Array:
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 33)
    kernel = np.exp(-0.5 * ((x[:, None] - x) / 0.25) ** 2) + 1e-9 * np.eye(33)
    factor = np.linalg.cholesky(kernel)
    fields = factor @ rng.normal(size=(400, 33, 33)) @ factor.T
    return np.asarray(fields * np.exp(rng.uniform(1, 5, (400, 1, 1))))


def _square_task() -> Task:
    return FunctionTask(
        lambda f, level: square(f, 50.0), _plane(19), ((9, 9), (33, 33)), (1, 16), name="square", in_channels=1,
        zero_boundary=[(True, True), (True, True)],
    )  # fmt: skip


PROBLEMS: dict[str, Problem] = {
    "cubic": Problem(
        lambda: _interval("cubic", cubic, _decades(7, 4.0, 65), (17, 65), (1, 16)), "building", (100, 150, 250)
    ),
    "burgers": Problem(lambda: get_task("burgers"), "building", (230, 300, 400)),
    "layer": Problem(
        lambda: _interval("layer", layer, gaussian_fields(_INPUTS, 65, 0.15, 11), (9, 65), (1, 4)),
        "building", (40, 60, 150),
    ),
    "middle": Problem(
        lambda: _interval("middle", middle, gaussian_fields(_INPUTS, 73, 0.15, 12), (19, 25, 73), (1, 30, 40)),
        "building", (330, 400, 500),
    ),
    "twin": Problem(
        lambda: _interval("twin", twin, 3 * gaussian_fields(_INPUTS, 65, 0.1, 13), (33, 65), (1, 2)),
        "building", (25, 45, 100),
    ),
    "parameters": Problem(
        lambda: _interval("parameters", parameters, _numbers(15, 129), (33, 129), (1, 100)),
        "held out", (450, 550, 700),
    ),
    "alias": Problem(lambda: _interval("alias", alias, _waves(16), (9, 65), (1, 10)), "held out", (80, 150, 300)),
    "ladder": Problem(
        lambda: _interval("ladder", ladder, 3 * gaussian_fields(_INPUTS, 65, 0.15, 17), (9, 33, 65), (1, 6, 36)),
        "held out", (230, 300, 400),
    ),
    "square": Problem(_square_task, "held out", (120, 200, 300)),
    "thin": Problem(
        lambda: _interval("thin", thin, gaussian_fields(_INPUTS, 65, 0.2, 18), (17, 65), (1, 8)),
        "held out", (60, 100, 160),
    ),
}  # fmt: skip
