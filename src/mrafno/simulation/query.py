"""A simulation to run, and its result."""

from dataclasses import dataclass, field
from typing import Literal

from mrafno.grids import Array
from mrafno.simulation.notices import Notice


@dataclass(frozen=True)
class Query:
    """One simulation to run.

    Attributes:
        id: its name in the run, ``q000012``.
        kind: its purpose: an ``initial`` example, one chosen from the ``pool``, or a ``test`` example.
        level: index of the mesh.
        f: the input on that mesh, ``(in_channels, *level's grid)``, with its parameters as constant channels.
        candidate: index into the pool, if its input is from there.
        step: number of the choice, from 1, for kind ``pool``.
        parameters: its parameters by name.
    """

    id: str
    kind: Literal["initial", "pool", "test"]
    level: int
    f: Array
    candidate: int | None = None
    step: int | None = None
    parameters: dict[str, float] = field(default_factory=dict)

    @property
    def functions(self) -> Array:
        """The functions in the input, ``(channels, *level's grid)``; no channel if it is parameters only."""
        return self.f[: len(self.f) - len(self.parameters)]


@dataclass(frozen=True)
class Observation:
    """The result of a query; exactly one of output and reason is None.

    Attributes:
        output: ``(out_channels, *level's grid)``.
        seconds: how long the simulation took.
        reason: why there is no output, in a sentence.
        notices: what else the driver should hear of the worker.
    """

    id: str
    output: Array | None
    seconds: float
    reason: str | None = None
    notices: tuple[Notice, ...] = ()
