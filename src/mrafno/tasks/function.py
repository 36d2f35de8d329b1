"""A Python function as a task."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array
from mrafno.tasks.base import Costs
from mrafno.tasks.candidates import CandidateSettings, CandidateTask, DrawInputs, stack_outputs
from mrafno.tasks.rows import Rows
from mrafno.tasks.source import source_of


class FunctionTask(CandidateTask):
    """A Python function and candidate inputs.

    Args:
        solve: ``solve(f, level)`` for inputs that are functions, ``solve(f, level, parameters)`` for functions and
            parameters, ``solve(parameters, level)`` for parameters only. f is ``(channels, *level's grid)``, without
            the axes along which inputs are repeated. parameters is ``(p,)``, in the order of their names. It gives the
            output ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one). With
            ``batched`` it gets ``(n, channels, *grid)`` and ``(n, p)``, and gives ``(n, out_channels, *grid)``.
        inputs, resolutions, costs: candidates, meshes and prices; these and all other arguments are those of
            :class:`CandidateTask`.
        batched: whether ``solve`` takes several inputs at once.
    """

    def __init__(
        self,
        solve: Callable[..., ArrayLike],
        inputs: ArrayLike | Rows | DrawInputs | None = None,
        resolutions: Sequence[Sequence[int] | int] = (),
        costs: Costs = (),
        *,
        batched: bool = False,
        **settings: Unpack[CandidateSettings],
    ) -> None:
        settings.setdefault("name", "function")
        super().__init__(inputs, resolutions, costs, **settings)
        if not callable(solve):
            raise TaskError(f"{self.name}: solve must be a function of {self._takes}, got {type(solve).__name__}.")
        self.function = solve
        self.batched = batched

    def describe_simulator(self) -> str | None:
        """Source of the function and of what it uses from its module, and of the function that draws inputs."""
        parts = [source_of(one) for one in (self.function, self.draw_inputs) if one is not None]
        return "\n\n".join(part for part in parts if part) or None

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The version and a digest of the candidates; None without a version."""
        return self._described()

    def _solve(self, f: Array, level: int) -> Array:
        if self.batched:
            return self._call(*self._given(f), level)
        pairs = zip(*self._given(f), strict=True)
        return stack_outputs(self, [self._call(one, numbers, level) for one, numbers in pairs], level)

    @property
    def _takes(self) -> str:
        if not self.parameters:
            return "(input, level)"
        return "(input, level, parameters)" if self.domain.function_channels else "(parameters, level)"

    def _call(self, f: Array, parameters: Array, level: int) -> Array:
        """Call the function. Input and output are copied: it may work in place, and may reuse its output buffer."""
        functions, numbers = f.copy(), parameters.copy()
        given: tuple[Any, ...] = (functions, level)
        if self.parameters:
            given = (functions, level, numbers) if self.domain.function_channels else (numbers, level)
        try:
            output = self.function(*given)
        except TaskError:
            raise
        except Exception as error:
            raise SimulationError(
                f"{self.name}: the simulator, given shape {given[0].shape} on level {level}, raised {raised(error)}"
            ) from error
        return np.array(self._as_output(output, level))
