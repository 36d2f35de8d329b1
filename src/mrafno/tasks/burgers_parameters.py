r"""Burgers' equation with a viscosity and an amplitude that differ from input to input, each over more than a decade.

.. math:: u_t + u u_x = \nu u_{xx}, \quad x \in [0, 1], \quad u(0, t) = u(1, t) = 0, \quad u(x, 0) = A f(x)

An input is the profile f and the parameters :math:`\nu` and A, both log-uniform. Small viscosities with large
amplitudes make fronts, large viscosities smooth decay, so inputs differ much in how difficult they are. The profiles,
the meshes and the solver are those of :mod:`mrafno.tasks.burgers`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrafno.errors import TaskError
from mrafno.grids import Array, as_shapes
from mrafno.grids.parameters import join
from mrafno.tasks.base import Task, generators, power_law_costs
from mrafno.tasks.burgers import profiles, solve_burgers


class BurgersParameters(Task):
    """Burgers' equation: profile, viscosity and amplitude to the velocity at the final time.

    Args:
        viscosities, amplitudes: smallest and largest values.
        costs: default to the power of the mesh size that ``burgers`` has.
    """

    name = "burgers-parameters"
    input_name = "profile of the initial velocity"
    output_name = "velocity at the final time"
    axis_names = ("x",)
    layout = ("nodes",)
    zero_boundary = ((True, True),)
    in_channels = 3
    parameters = ("viscosity", "amplitude")
    log_parameters = ("viscosity", "amplitude")

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((33,), (129,)),
        costs: Sequence[float] | None = None,
        viscosities: Sequence[float] = (0.005, 0.2),
        amplitudes: Sequence[float] = (0.2, 3.0),
        final_time: float = 1.0,
        tolerance: float = 5e-8,
    ) -> None:
        shapes = as_shapes(resolutions)
        exponent = float(np.log(41.2) / np.log(129 / 33))
        super().__init__(shapes, power_law_costs(shapes, exponent) if costs is None else costs)
        if shapes[0][0] < 5:
            raise TaskError(f"{self.name}: a mesh needs 5 nodes or more, got {shapes[0][0]}.")
        self.viscosities = self._range("viscosities", viscosities)
        self.amplitudes = self._range("amplitudes", amplitudes)
        for setting, value in (("final_time", final_time), ("tolerance", tolerance)):
            if not (np.isfinite(value) and value > 0):
                raise TaskError(f"{self.name}: {setting} must be a positive number, got {value!r}.")
        self.final_time, self.tolerance = float(final_time), float(tolerance)

    def _range(self, setting: str, ends: Sequence[float]) -> tuple[float, float]:
        if len(ends) != 2 or not 0 < ends[0] <= ends[1] < np.inf:
            raise TaskError(f"{self.name}: {setting} must be two positive numbers, the smaller first, got {ends!r}.")
        return float(ends[0]), float(ends[1])

    @property
    def configuration(self) -> dict[str, Any]:
        """Ranges of both parameters, final time and tolerance."""
        ranges = {"viscosities": list(self.viscosities), "amplitudes": list(self.amplitudes)}
        return {**ranges, "final_time": self.final_time, "tolerance": self.tolerance}

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        rngs = generators(indices, seed)
        functions = profiles(rngs, self.grids[-1].axes[0])
        ends = np.log([self.viscosities, self.amplitudes])
        values = np.array([rng.uniform(ends[:, 0], ends[:, 1]) for rng in rngs]).reshape(-1, 2)
        return join(functions[:, None], np.exp(values))

    def _check(self, f: Array) -> None:
        values = self.split(f)[1]
        bad = np.argwhere(values <= 0)
        if len(bad):
            row, column = bad[0]
            what = f"{self.parameters[column]} of input {row} is {values[row, column]:g}"
            raise TaskError(f"{self.name}: {what}, not > 0. Give positive parameters.")

    def _solve(self, f: Array, level: int) -> Array:
        functions, parameters = self.split(f)
        viscosity, amplitude = parameters.T
        u0 = amplitude[:, None] * functions[:, 0]
        u = solve_burgers(u0, viscosity=viscosity, final_time=self.final_time, tolerance=self.tolerance)
        return u[:, None]
