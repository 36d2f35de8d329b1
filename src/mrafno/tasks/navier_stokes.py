r"""Incompressible flow on the unit torus, in vorticity form.

.. math:: w_t + u \cdot \nabla w = \nu \Delta w + g, \quad u = (\psi_y, -\psi_x), \quad -\Delta \psi = w,
    \quad g = a\,(\sin 2 \pi (x + y) + \cos 2 \pi (x + y))

from :math:`w_0 \sim N(0, 7^{3/2} (-\Delta + 49)^{-5/2})` to t = 50, recorded 40 times. The first 20 frames are the
input, the next 20 the output.

Space: Fourier-Galerkin with the modes :math:`|k_i| \le K_i = \lfloor (n_i - 1)/3 \rfloor` of a grid with :math:`n_i`
points, products on the grid; by the 2/3 rule these are free of aliasing, so energy and enstrophy change by viscosity
and forcing only. With :math:`z = u_x + i u_y` and :math:`\kappa = 2 \pi (k_x + i k_y)` velocity and advection are

.. math:: \hat z_k = \hat w_k / \bar\kappa, \qquad
    -\widehat{u \cdot \nabla w}_k = c_k \widehat{z^2}_k + \overline{c_k \widehat{z^2}_{-k}}, \quad c = \bar\kappa^2 / 4i

(the curl of the divergence of :math:`u u^T`), so that one right-hand side is one inverse and one forward complex
transform: the work of four real ones, where the advective and the flux form need five.

Time: ETDRK4, order 4; viscosity and steady forcing alone are integrated exactly. Step: the interval between two frames
is divided evenly into steps of at most 1/16 and 2.5 / max(n); an example whose Courant number (step, times speed, times
largest wave number) exceeds 2.8 in an interval, or that overflows, takes that interval again with half the step. No
example depends on the others of its batch.

References: Li et al. (2024), section 6; Li et al., Fourier neural operator for parametric partial differential
equations (2021), A.3.3; Basdevant, J. Comput. Phys. 50 (1983), for the form of the product; Kassam & Trefethen, SIAM
J. Sci. Comput. 26 (2005), for ETDRK4.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array, as_shapes
from mrafno.tasks.base import Task, generators, power_law_costs
from mrafno.tasks.random_fields import periodic_field

Complex = NDArray[np.complex128]

_STEP = 1 / 16  # largest step on any grid: the flow's own time scale, for an error in time below 1e-6
_STEP_POINTS = 2.5  # and this over the points of the longer axis: a fine grid's shorter scales
_COURANT = 2.8  # ETDRK4 without viscosity is RK4, stable up to this on the imaginary axis
_MAX_DOUBLINGS = 12
_CHUNK_POINTS = 32768  # examples advanced together: eight on 64 x 64, so that their arrays stay in cache


class NavierStokes(Task):
    """Vorticity in the first half of the time to vorticity in the second half.

    THE INPUTS ARE THEMSELVES SIMULATED: ``sample`` runs the finest grid for the first half of the time, and so costs as
    much as solving on the finest level. A pool of 990 on 64 x 64 takes about 5 minutes on one core; make it through the
    example cache of :mod:`mrafno.data.cache`, once.

    ``frames`` is the number of input channels and of output channels; frame k = 1, 2, ... is the vorticity at
    ``final_time * k / (2 * frames)``. A level continues from the last input frame on its own grid; earlier frames are
    for the surrogate. ``forcing`` is the amplitude a. ``costs`` default to the published ratio 1 : 7 for the published
    meshes, and to the power of the mesh size that it implies for others.
    """

    name = "navier-stokes"
    input_name = "vorticity, first half of the time"
    output_name = "vorticity, second half"
    layout = ("periodic", "periodic")

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((16, 16), (64, 64)),
        costs: Sequence[float] | None = None,
        viscosity: float = 1e-3,
        forcing: float = 0.1,
        final_time: float = 50.0,
        frames: int = 20,
    ) -> None:
        shapes = as_shapes(resolutions)
        if costs is None:
            published = shapes == ((16, 16), (64, 64))
            costs = (1.0, 7.0) if published else power_law_costs(shapes, np.log(7.0) / np.log(4.0))
        super().__init__(shapes, costs)
        if min(min(shape) for shape in shapes) < 4:
            raise TaskError(f"{self.name}: {shapes} cannot hold the forcing. Give every axis 4 points or more.")
        if isinstance(frames, bool) or not isinstance(frames, int) or frames < 1:
            raise TaskError(f"{self.name}: frames must be a whole number, 1 or more, got {frames!r}.")
        if not (np.isfinite(final_time) and final_time > 0):
            raise TaskError(f"{self.name}: final_time must be positive, got {final_time!r}.")
        if not (np.isfinite(viscosity) and viscosity >= 0 and np.isfinite(forcing)):
            raise TaskError(
                f"{self.name}: viscosity {viscosity!r} or forcing {forcing!r} is not usable. "
                "Give a viscosity of 0 or more and a finite forcing amplitude."
            )
        self.viscosity = float(viscosity)
        self.forcing = float(forcing)
        self.final_time = float(final_time)
        self.frames = self.in_channels = self.out_channels = frames

    @property
    def configuration(self) -> dict[str, Any]:
        """Viscosity, forcing amplitude, final time and frames."""
        return {
            "viscosity": self.viscosity,
            "forcing": self.forcing,
            "final_time": self.final_time,
            "frames": self.frames,
        }

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        shape = self.resolutions[-1]
        initial = periodic_field(generators(indices, seed), shape, scale=7.0**1.5, shift=49.0, power=2.5)
        return self._simulate(initial, self.levels - 1)

    def _solve(self, f: Array, level: int) -> Array:
        return self._simulate(f[:, -1], level)

    def _simulate(self, vorticity: Array, level: int) -> Array:
        """Half of the time: ``(n, *grid)`` to ``(n, frames, *grid)``."""
        x, y = self.grids[level].axes
        phase = 2 * np.pi * (x[:, None] + y[None, :])
        forcing = self.forcing * (np.sin(phase) + np.cos(phase))
        times = [self.final_time * k / (2 * self.frames) for k in range(1, self.frames + 1)]
        return integrate(vorticity, viscosity=self.viscosity, forcing=forcing, times=times)

    def _check(self, f: Array) -> None:
        last = f[:, -1]
        mean = np.abs(last.mean(axis=(1, 2)))
        size = np.sqrt((last**2).mean(axis=(1, 2)))
        bad = np.flatnonzero(mean > 1e-6 * size)
        if bad.size:
            i = int(bad[0])
            raise TaskError(
                f"{self.name}: vorticity on a torus has zero mean, got {mean[i]:.3g} in the last frame of input {i}. "
                "Subtract the mean, or sample inputs with task.sample."
            )


def integrate(
    vorticity: Array, *, viscosity: float, forcing: Array, times: Sequence[float], step: float | None = None
) -> Array:
    """Vorticity at ``times`` (increasing, after 0), ``(n, len(times), *grid)``, from ``(n, *grid)`` at time 0.

    ``forcing`` is a steady source of vorticity on the grid, ``(*grid)``. Modes above a third of the points per axis,
    and means, which are zero on a torus, are dropped. ``step`` replaces the largest step of this file's rule.
    """
    shape = vorticity.shape[1:]
    if len(shape) != 2 or min(shape) < 2 or forcing.shape != shape:
        raise TaskError(
            f"navier-stokes: vorticity of shape {vorticity.shape} and forcing of shape {forcing.shape} do not fit. "
            "Give (n, *grid) and (*grid) on one two-dimensional grid."
        )
    durations = np.diff([0.0, *times])
    if not (np.isfinite(durations).all() and (durations > 0).all()):
        raise TaskError("navier-stokes: the times must be positive and increasing.")
    largest = min(_STEP, _STEP_POINTS / max(shape)) if step is None else step
    if not largest > 0:
        raise TaskError(f"navier-stokes: the step must be positive, got {step!r}.")
    flow = _Flow((shape[0], shape[1]), viscosity, forcing)
    frames = np.empty((len(vorticity), len(durations), *shape))
    chunk = max(1, _CHUNK_POINTS // (shape[0] * shape[1]))
    for start in range(0, len(vorticity), chunk):
        part = slice(start, start + chunk)
        state = flow.to_modes(vorticity[part])
        for k, duration in enumerate(durations):
            # The tolerance keeps an interval that is a whole number of steps from getting one more by rounding.
            steps = int(np.ceil(duration / largest * (1 - 1e-9)))
            with np.errstate(over="ignore", invalid="ignore"):  # too large a step shows in the Courant number
                state = _advance(flow, state, float(duration), steps, start)
            frames[part, k] = flow.to_grid(state)
    return frames


def _advance(flow: "_Flow", state: Complex, duration: float, steps: int, first: int) -> Complex:
    """All examples over ``duration`` in ``steps`` steps, or as many doublings of that as an example needs by itself."""
    result = np.empty_like(state)
    todo = np.arange(len(state))
    for doubling in range(_MAX_DOUBLINGS + 1):
        number = steps * 2**doubling
        # An example that is too fast from the start need not try.
        slow_enough = flow.courant(state[todo], duration / number) <= _COURANT
        rows = todo[slow_enough]
        result[rows], courant = flow.march(state[rows], duration / number, number)
        todo = np.concatenate([todo[~slow_enough], rows[~(courant <= _COURANT)]])
        if not todo.size:
            return result
    raise SimulationError(
        f"navier-stokes: input {first + int(todo.min())} still flows too fast for steps of {duration / number:.2g}. "
        "Use a larger viscosity or a smaller forcing."
    )


class _Flow:
    """The equation on one grid: states are coefficients ``(n, 2 K + 1, L + 1)`` of k_x = -K..K and k_y = 0..L.

    The modes -K..K stand in this order in the first 2 K + 1 places of the padded transforms. That multiplies z on the
    grid by a phase, whose square moves z^2 to the places K..3 K, below n: no mode has to be shuffled anywhere.
    """

    def __init__(self, shape: tuple[int, int], viscosity: float, forcing: Array) -> None:
        self.shape = shape
        self.kx, self.ky = ((n - 1) // 3 for n in shape)
        K, L = self.kx, self.ky
        kappa = 2 * np.pi * (np.arange(-K, K + 1)[:, None] + 1j * np.arange(-L, L + 1)[None, :])
        self.decay = -viscosity * np.abs(kappa[:, L:]) ** 2
        kappa[K, L] = 1.0  # no division by zero; the mean is set to zero instead
        self.velocity = 1 / np.conj(kappa)
        self.product = np.conj(kappa[:, L:]) ** 2 / 4j
        self.velocity[K, L] = self.product[K, 0] = 0.0
        self.largest_wave = 2 * np.pi * float(np.hypot(K, L))
        self.forcing = self.to_modes(forcing[None])[0]
        self._weights: dict[float, tuple[Array, ...]] = {}

    def to_modes(self, w: Array) -> Complex:
        """Values ``(n, *grid)`` to coefficients."""
        rows = np.arange(-self.kx, self.kx + 1) % self.shape[0]
        modes = np.asarray(scipy.fft.rfft2(w, norm="forward"))[:, rows, : self.ky + 1]
        modes[:, self.kx, 0] = 0.0
        return np.ascontiguousarray(modes)

    def to_grid(self, state: Complex) -> Array:
        """Coefficients to values ``(n, *grid)``."""
        spectrum = np.zeros((len(state), self.shape[0], self.shape[1] // 2 + 1), dtype=complex)
        spectrum[:, np.arange(-self.kx, self.kx + 1) % self.shape[0], : self.ky + 1] = state
        return np.asarray(scipy.fft.irfft2(spectrum, s=self.shape, norm="forward"))

    def speed(self, state: Complex) -> Complex:
        """Velocity z on the grid, ``(n, *grid)``, times a phase."""
        n, K, L = self.shape[0], self.kx, self.ky
        modes = np.zeros((len(state), n, 2 * L + 1), dtype=complex)
        np.multiply(state, self.velocity[:, L:], out=modes[:, : 2 * K + 1, L:])
        # The vorticity is real: its other half is the conjugate of this one, mirrored.
        np.multiply(np.conj(state[:, ::-1, :0:-1]), self.velocity[:, :L], out=modes[:, : 2 * K + 1, :L])
        z = scipy.fft.ifft(modes, axis=1, norm="forward", overwrite_x=True)
        return np.asarray(scipy.fft.ifft(z, n=self.shape[1], axis=2, norm="forward"))

    def advection(self, z: Complex) -> Complex:
        """Coefficients of forcing minus advection from the velocity, which is overwritten."""
        K, L = self.kx, self.ky
        z *= z
        columns = scipy.fft.fft(z, axis=2, norm="forward", overwrite_x=True)[:, :, L : 3 * L + 1]
        square = scipy.fft.fft(columns, axis=1, norm="forward")[:, K : 3 * K + 1]
        rate = square[:, ::-1, L::-1] * self.product
        np.conj(rate, out=rate)
        rate += square[:, :, L:] * self.product
        rate += self.forcing
        return np.asarray(rate)

    def courant(self, state: Complex, step: float) -> Array:
        """Courant numbers ``(n,)``; NaN for what is not finite."""
        return self._courant(self.speed(state), step)

    def _courant(self, z: Complex, step: float) -> Array:
        largest = (z.real**2 + z.imag**2).reshape(len(z), -1).max(axis=1)
        return np.asarray(step * self.largest_wave * np.sqrt(largest))

    def march(self, state: Complex, step: float, number: int) -> tuple[Complex, Array]:
        """``number`` steps of ETDRK4: the new state and the largest Courant number on the way, ``(n,)``."""
        half, full, q, f1, f2, f3 = self._etd(step)
        courant = np.zeros(len(state))
        if not len(state):
            return state, courant
        for _ in range(number):
            z = self.speed(state)
            np.maximum(courant, self._courant(z, step), out=courant)  # keeps NaN
            n0 = self.advection(z)
            middle = half * state
            a = q * n0
            a += middle
            n1 = self.advection(self.speed(a))
            b = q * n1
            b += middle
            n2 = self.advection(self.speed(b))
            c = 2.0 * n2
            c -= n0
            c *= q
            a *= half
            c += a
            n3 = self.advection(self.speed(c))
            n1 += n2
            state = full * state
            for weight, rate in ((f1, n0), (f2, n1), (f3, n3)):
                rate *= weight
                state += rate
        np.maximum(courant, self.courant(state, step), out=courant)
        return state, courant

    def _etd(self, step: float) -> tuple[Array, ...]:
        """Weights of ETDRK4 for every mode: means over a circle, where the formulas have no cancellation."""
        if step not in self._weights:
            x = step * self.decay
            r = x[..., None] + np.exp(1j * np.pi * (np.arange(16) + 0.5) / 16)
            e = np.exp(r)
            q = step * ((np.exp(r / 2) - 1) / r).real.mean(-1)
            f1 = step * ((-4 - r + e * (4 - 3 * r + r**2)) / r**3).real.mean(-1)
            f2 = step * ((4 + 2 * r + e * (-4 + 2 * r)) / r**3).real.mean(-1)
            f3 = step * ((-4 - 3 * r - r**2 + e * (4 - r)) / r**3).real.mean(-1)
            self._weights[step] = (np.exp(x / 2), np.exp(x), q, f1, f2, f3)
        return self._weights[step]
