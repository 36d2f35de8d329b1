"""The prediction of a probabilistic surrogate: mean, standard deviation, and the samples they come from."""

from dataclasses import dataclass

import numpy as np

from mrafno.errors import SurrogateError
from mrafno.grids import Array


@dataclass(frozen=True)
class Prediction:
    r"""Predicted outputs of n inputs, as S members or posterior samples.

    Sample s predicts :math:`y \sim N(\mu_s, e^{\eta_s} I)`; the prediction is the mixture of all samples.

    Attributes:
        samples: the mean that each member or posterior sample predicts, ``(S, n, out_channels, *grid)``.
        log_var: the log-variance of its noise, ``(S, n)``.
    """

    samples: Array
    log_var: Array

    def __post_init__(self) -> None:
        if self.samples.ndim < 4 or self.log_var.shape != self.samples.shape[:2]:
            raise SurrogateError(
                f"prediction: samples of shape {self.samples.shape} and log_var of shape {self.log_var.shape} do not "
                "fit. They are (S, n, out_channels, *grid) and (S, n)."
            )

    @property
    def sample_count(self) -> int:
        """Number of members or posterior samples."""
        return int(self.samples.shape[0])

    @property
    def mean(self) -> Array:
        """Mean of the mixture, ``(n, out_channels, *grid)``."""
        return np.asarray(self.samples.mean(axis=0))

    @property
    def noise(self) -> Array:
        r"""The mixture's average noise variance :math:`\lambda`, ``(n,)``."""
        return np.asarray(np.exp(self.log_var).mean(axis=0))

    @property
    def spread(self) -> Array:
        """The samples' unbiased variance at each point, ``(n, out_channels, *grid)``; zero for a single one."""
        if self.sample_count == 1:
            return np.zeros(self.samples.shape[1:])
        return np.asarray(self.samples.var(axis=0, ddof=1))

    @property
    def std(self) -> Array:
        """Standard deviation at each point of the moment-matched Gaussian, ``(n, out_channels, *grid)``."""
        noise = self.noise.reshape(-1, *[1] * (self.samples.ndim - 2))
        return np.asarray(np.sqrt(self.spread + noise))
