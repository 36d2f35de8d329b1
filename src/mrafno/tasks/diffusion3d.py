r"""Diffusion with a cubic sink and a steady random source, in a cube.

.. math:: u_t = D \Delta u - k u^3 + f(x), \quad x \in [0, 1]^3, \; t \in [0, T], \quad
    u = 0 \text{ on the boundary and at } t = 0

f is a Gaussian random field with covariance proportional to :math:`(-\Delta + s)^{-p}` (Neumann). The output is u at T.

Discretisation: cell-centred finite volumes, so that f is given and u is found at cell centres, second order in space.
The sine transform diagonalises the discrete Laplacian, with eigenvalues

.. math:: -\lambda_k = -\sum_i 4 n_i^2 \sin^2(\pi k_i / 2 n_i), \quad k_i = 1 \dots n_i,

so that diffusion with a steady source is exact in time, as is the sink alone,
:math:`u \mapsto u / \sqrt{1 + 2 k \tau u^2}`. Strang's splitting combines the two, second order in time and stable for
every step; there are as many equal steps as the grid has cells along its longest axis.

References: Strang, On the construction and comparison of difference schemes (1968), and The discrete cosine transform
(1999), for the transform that fits each boundary condition.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.fft

from mrafno.errors import TaskError
from mrafno.grids import Array, as_shapes
from mrafno.tasks.base import Task, generators, power_law_costs
from mrafno.tasks.random_fields import neumann_field


class Diffusion3D(Task):
    """Diffusion in a cube: source to the concentration at the final time.

    ``costs`` default to the number of cells times the number of steps, 1 : 256 for the default meshes.
    """

    name = "diffusion3d"
    input_name = "source"
    output_name = "concentration at the final time"
    axis_names = ("x", "y", "z")
    layout = ("cells", "cells", "cells")
    zero_boundary = ((True, True), (True, True), (True, True))

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((8, 8, 8), (32, 32, 32)),
        costs: Sequence[float] | None = None,
        diffusivity: float = 0.05,
        sink: float = 4.0,
        final_time: float = 1.0,
        strength: float = 2.0,
        shift: float = 20.0,
        power: float = 3.0,
    ) -> None:
        shapes = as_shapes(resolutions)
        super().__init__(shapes, power_law_costs(shapes, 4.0) if costs is None else costs)
        positive = {"diffusivity": diffusivity, "final_time": final_time, "strength": strength}
        for setting, value in (positive | {"shift": shift, "power": power}).items():
            if not (np.isfinite(value) and value > 0):
                raise TaskError(f"{self.name}: {setting} must be a positive number, got {value!r}.")
        if not (np.isfinite(sink) and sink >= 0):
            raise TaskError(f"{self.name}: sink must be 0 or a positive number, got {sink!r}.")
        self.diffusivity, self.sink, self.final_time = float(diffusivity), float(sink), float(final_time)
        self.strength, self.shift, self.power = float(strength), float(shift), float(power)

    @property
    def configuration(self) -> dict[str, Any]:
        """Coefficients, final time, and the source's standard deviation, shift and power."""
        names = ("diffusivity", "sink", "final_time", "strength", "shift", "power")
        return {name: getattr(self, name) for name in names}

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        shape = self.resolutions[-1]
        field = neumann_field(generators(indices, seed), shape, shift=self.shift, power=self.power)
        # The variance, averaged over the cube, is the sum of the covariance's eigenvalues.
        squares = sum(np.ix_(*[np.arange(n, dtype=float) ** 2 for n in shape]))
        variance = float(np.sum((np.pi**2 * squares + self.shift) ** -self.power))
        return np.asarray(self.strength / np.sqrt(variance) * field[:, None])

    def _solve(self, f: Array, level: int) -> Array:
        steps = max(self.resolutions[level])
        return solve_diffusion(f[:, 0], self.diffusivity, self.sink, self.final_time, steps)[:, None]


def solve_diffusion(source: Array, diffusivity: float, sink: float, final_time: float, steps: int) -> Array:
    """Concentrations ``(n, *cells)`` at ``final_time`` for sources ``(n, *cells)``, in any number of dimensions.

    Rows do not influence each other.
    """
    axes = tuple(range(1, source.ndim))
    tau = final_time / steps
    waves = [4.0 * n**2 * np.sin(np.pi * np.arange(1, n + 1) / (2 * n)) ** 2 for n in source.shape[1:]]
    rates = diffusivity * np.asarray(sum(np.ix_(*waves)))
    decay = np.exp(-tau * rates)
    gain = -np.expm1(-tau * rates) / rates * scipy.fft.dstn(source, type=2, axes=axes, norm="ortho")

    def sunk(u: Array, time: float) -> Array:
        return np.asarray(u / np.sqrt(1.0 + 2.0 * sink * time * u**2))

    u = np.zeros_like(source)
    for step in range(steps):
        # The half steps of the sink at the end of one step and at the beginning of the next are one.
        u = sunk(u, tau if step else tau / 2)
        spectrum = decay * scipy.fft.dstn(u, type=2, axes=axes, norm="ortho") + gain
        u = np.asarray(scipy.fft.idstn(spectrum, type=2, axes=axes, norm="ortho"))
    return sunk(u, tau / 2)
