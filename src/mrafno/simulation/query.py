"""Frozen records that rooms hand to each other."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mrafno.errors import SurrogateError
from mrafno.grids import Array


@dataclass(frozen=True)
class Prediction:
    r"""What a probabilistic surrogate says of n functions, as S members or posterior samples.

    Sample s says :math:`y \sim N(\mu_s, e^{\eta_s} I)`; all of them together are the mixture.

    Attributes:
        mean: ``(S, n, out_channels, *grid)``.
        log_var: ``(S, n)``.
    """

    mean: Array
    log_var: Array

    def __post_init__(self) -> None:
        if self.mean.ndim < 4 or self.log_var.shape != self.mean.shape[:2]:
            raise SurrogateError(
                f"prediction: mean of shape {self.mean.shape} and log_var of shape {self.log_var.shape} do not fit. "
                "They are (S, n, out_channels, *grid) and (S, n)."
            )

    @property
    def samples(self) -> int:
        """Number of members or posterior samples."""
        return int(self.mean.shape[0])

    @property
    def center(self) -> Array:
        """The mixture's mean, ``(n, out_channels, *grid)``."""
        return np.asarray(self.mean.mean(axis=0))

    @property
    def noise(self) -> Array:
        r"""The mixture's average noise variance :math:`\lambda`, ``(n,)``."""
        return np.asarray(np.exp(self.log_var).mean(axis=0))

    @property
    def spread(self) -> Array:
        """The samples' unbiased variance at each point, ``(n, out_channels, *grid)``; zero for a single one."""
        if self.samples == 1:
            return np.zeros(self.mean.shape[1:])
        return np.asarray(self.mean.var(axis=0, ddof=1))

    @property
    def std(self) -> Array:
        """Standard deviation at each point of the moment-matched Gaussian, ``(n, out_channels, *grid)``."""
        noise = self.noise.reshape(-1, *[1] * (self.mean.ndim - 2))
        return np.asarray(np.sqrt(self.spread + noise))


@dataclass(frozen=True)
class Query:
    """One simulation to run.

    Attributes:
        id: its name in the run, ``q000012``.
        kind: what for: an ``initial`` example, a chosen one of the ``pool``, or a ``test`` example.
        level: which mesh.
        f: the input on that mesh, ``(in_channels, *level's grid)``.
        candidate: index into the pool, for kind ``pool``.
        step: which choice it was, from 1, for kind ``pool``.
    """

    id: str
    kind: Literal["initial", "pool", "test"]
    level: int
    f: Array
    candidate: int | None = None
    step: int | None = None


@dataclass(frozen=True)
class Observation:
    """What became of a query; exactly one of output and reason is None.

    Attributes:
        output: ``(out_channels, *level's grid)``.
        seconds: how long the simulation took.
        reason: why there is no output, in a sentence.
    """

    id: str
    output: Array | None
    seconds: float
    reason: str | None = None
