"""A Python function as a task."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array, Interpolation, Layout
from mrafno.tasks.candidates import CandidateTask, stack_outputs


class FunctionTask(CandidateTask):
    """A Python function and an array of candidate inputs.

    Args:
        solve: ``solve(f, level)`` with one input ``(in_channels, *level's grid)`` gives its output
            ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one). With ``batched``
            it gets ``(n, in_channels, *grid)`` and gives ``(n, out_channels, *grid)``.
        inputs: candidates on the finest grid, ``(n, in_channels, *finest grid)`` or ``(n, *finest grid)``.
        resolutions: grid shapes, coarse to fine.
        costs: the cost of one solve on each level, in any unit.
        in_channels: number of functions in an input; needed only for inputs ``(n, N, N)`` on an interval of N points,
            which could be functions on a square.
        out_channels: number of functions in an output.
        layout: positions of the grid's points, ``"nodes"``, ``"cells"`` or ``"periodic"``, for all axes or per axis.
        interpolation: how inputs are interpolated to a coarser grid: ``"linear"`` or ``"nearest"``.
        zero_boundary: per axis, whether outputs vanish at its (start, end).
        version: any text; change it whenever ``solve`` would give other numbers. Without it results are not cached,
            because a changed function cannot be detected.
    """

    def __init__(
        self,
        solve: Callable[[Array, int], ArrayLike],
        inputs: ArrayLike,
        resolutions: Sequence[Sequence[int] | int],
        costs: Sequence[float],
        *,
        name: str = "function",
        in_channels: int | None = None,
        out_channels: int = 1,
        layout: Layout | Sequence[Layout] = "nodes",
        interpolation: Interpolation = "linear",
        zero_boundary: Sequence[tuple[bool, bool]] = (),
        batched: bool = False,
        version: str | None = None,
    ) -> None:
        super().__init__(
            inputs, resolutions, costs, name=name, in_channels=in_channels, out_channels=out_channels,
            layout=layout, interpolation=interpolation, zero_boundary=zero_boundary, version=version,
        )  # fmt: skip
        if not callable(solve):
            raise TaskError(f"{name}: solve must be a function of (input, level), got {type(solve).__name__}.")
        self.function = solve
        self.batched = batched

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The version and a digest of the candidates; None without a version."""
        return self._described()

    def _solve(self, f: Array, level: int) -> Array:
        if self.batched:
            return self._call(f, level)
        return stack_outputs(self, [self._call(one, level) for one in f], level)

    def _call(self, f: Array, level: int) -> Array:
        """Call the function. Input and output are copied: it may work in place, and may reuse its output buffer."""
        try:
            output = self.function(f.copy(), level)
        except TaskError:
            raise
        except Exception as error:
            raise SimulationError(
                f"{self.name}: the simulator, given shape {f.shape} on level {level}, raised {raised(error)}"
            ) from error
        return np.array(self._as_output(output, level))
