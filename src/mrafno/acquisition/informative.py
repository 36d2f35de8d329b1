"""The acquisitions of the paper: mutual information with fine outputs, and predictive variance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mrafno.acquisition.base import Choice, Context
from mrafno.errors import AcquisitionError
from mrafno.grids import Array


@dataclass(frozen=True)
class Information:
    """Mutual information of an output with fine outputs, given all queries that are running or chosen.

    Args:
        of: ``own`` is u, information on the same candidate's finest output; ``all`` is u-hat, the mean over the finest
            outputs of ``context.targets``, by default of all candidates that remain.
        block_size: see :func:`mrafno.acquisition.utilities.u_hat`.
    """

    of: Literal["own", "all"] = "all"
    block_size: int = 100_000
    needs_samples = True

    def __post_init__(self) -> None:
        if self.of not in ("own", "all"):
            raise AcquisitionError(f"information: unknown kind {self.of!r}. Choose own or all.")

    @property
    def name(self) -> str:
        """``u`` or ``u-hat``."""
        return "u" if self.of == "own" else "u-hat"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)`` in nats."""
        from mrafno.acquisition import utilities  # imports torch

        pool = context.grams()
        given, g = pool.given(chosen) if chosen else None, pool.gram[context.candidates]
        if self.of == "own":
            return np.asarray(utilities.u(g, given))
        targets = None if context.targets is None else pool.gram[context.targets, -1]
        return np.asarray(utilities.u_hat(g, targets, given, numbers=self.block_size))


@dataclass(frozen=True)
class PredictiveVariance:
    """Mean predictive variance over output values, given all queries that are running or chosen."""

    name = "predictive-variance"
    needs_samples = True

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``, in squared normalised units."""
        from mrafno.acquisition import utilities  # imports torch

        pool, rows = context.grams(), context.candidates
        given = pool.given(chosen) if chosen else None
        return np.asarray(utilities.predictive_variance(pool.gram[rows], pool.log_noise[rows], pool.sizes, given))
