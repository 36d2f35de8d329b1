r"""Utilities of the paper: information on fine outputs, or predictive variance.

With y(h, r) the output of candidate h at resolution r, R the finest, all given the queries chosen or still running:

==========  ====================================================================
u           :math:`I(y(h, r); y(h, R))`, on the candidate's own fine solution
u-hat       mean over targets j of :math:`I(y(h, r); y(j, R))`, on everybody's
predvar     mean variance of the values of y(h, r)
==========  ====================================================================

At r = R the two outputs in u are two solutions of the same problem with noise of their own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mrafno.acquisition.base import Indices
from mrafno.acquisition.information import (
    Numbers,
    as_double,
    gram,
    log_noise,
    mean_information,
    mutual_information,
    whitened,
)
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction


@dataclass(frozen=True)
class PoolGrams:
    r"""All that the utilities need of a pool of P candidates at R levels.

    Attributes:
        gram: Gram matrices ``(P, R, S, S)``.
        log_noise: :math:`\log\lambda`, ``(P, R)``.
        sizes: number d of output values at each level, ``(R,)``.
    """

    gram: Tensor
    log_noise: Tensor
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        levels = check_pool(self.gram).shape[1]
        if self.log_noise.shape != self.gram.shape[:2] or len(self.sizes) != levels:
            raise AcquisitionError(
                f"pool: Gram matrices {tuple(self.gram.shape)}, noise {tuple(self.log_noise.shape)} and sizes "
                f"{self.sizes} do not fit. They are (P, R, S, S), (P, R) and (R,)."
            )

    def __len__(self) -> int:
        return len(self.gram)

    def given(self, chosen: Iterable[tuple[int, int]]) -> Tensor:
        """Sum of the Gram matrices of (candidate, level) pairs, ``(S, S)``: what to condition on."""
        pairs = list(chosen)
        rows, levels = [candidate for candidate, _ in pairs], [level for _, level in pairs]
        return self.gram[rows, levels].sum(0)


def pool_grams(chunks: Iterable[Iterable[Prediction]]) -> PoolGrams:
    """Gram matrices of a pool that is predicted chunk by chunk; no prediction is kept.

    Args:
        chunks: for each chunk of candidates, the predictions of the same candidates at each level, coarse to fine.
            With generators inside and out, one prediction is in memory at a time.
    """
    grams: list[Tensor] = []
    noises: list[Tensor] = []
    sizes: tuple[int, ...] = ()
    for chunk in chunks:
        matrices, noise, here = [], [], []
        for prediction in chunk:
            matrices.append(gram(prediction.samples, prediction.log_var))
            noise.append(log_noise(prediction.log_var))
            here.append(int(np.prod(prediction.samples.shape[2:])))
        if (sizes and tuple(here) != sizes) or len({tuple(m.shape) for m in matrices}) != 1:
            raise AcquisitionError(
                f"pool_grams: chunk {len(grams)} has {[len(m) for m in matrices]} candidates with {here} values; "
                f"each level needs the same candidates and samples, and each chunk the same levels ({list(sizes)})."
            )
        sizes = tuple(here)
        grams.append(torch.stack(matrices, 1))
        noises.append(torch.stack(noise, 1))
    if not grams:
        raise AcquisitionError("pool_grams: there are no candidates.")
    return PoolGrams(torch.cat(grams), torch.cat(noises), sizes)


def u(pool: Numbers, given: Numbers | None = None) -> Tensor:
    """Information of each output on the same candidate's finest one: ``(P, R)`` nats from ``(P, R, S, S)``."""
    g = check_pool(as_double(pool))
    return mutual_information(g, g[:, -1:], given)


def u_hat(
    pool: Numbers, targets: Numbers | None = None, given: Numbers | None = None, *, numbers: int = 100_000
) -> Tensor:
    """Mean information of each output on the targets' finest ones: ``(P, R)`` nats from ``(P, R, S, S)``.

    Args:
        targets: their Gram matrices at the finest level, ``(A, S, S)``; None for the whole pool.
        numbers: how many numbers a row of matrices may take in a block of pairs.
    """
    g = check_pool(as_double(pool))
    goals = g[:, -1] if targets is None else as_double(targets)
    return mean_information(g.flatten(0, 1), goals, given, numbers=numbers).reshape(g.shape[:2])


def predictive_variance(
    pool: Numbers, log_noise: Numbers, sizes: Sequence[int], given: Numbers | None = None
) -> Tensor:
    r"""Mean over output values of the variance, spread and noise together: ``(P, R)``.

    .. math:: \tfrac1d \mathrm{tr}(B Q^{-1} B^T) + \lambda = \lambda \left(1 + \mathrm{tr}(Q^{-1} G) / d\right)
    """
    spread = whitened(check_pool(as_double(pool)), given).diagonal(dim1=-2, dim2=-1).sum(-1)
    return as_double(log_noise).exp() * (1 + spread / as_double(np.asarray(sizes, dtype=np.float64)))


def draw_targets(remaining: Sequence[int] | Indices, count: int, *, seed: int, step: int) -> Indices:
    """A random subset of candidates as targets of u-hat, sorted, the same for the same seed and step."""
    candidates = np.asarray(remaining, dtype=np.int64)
    if count < 1:
        raise AcquisitionError(f"targets: at least one is needed, got {count}.")
    # The last number keeps this stream apart from others of the same seed and step.
    rng = np.random.default_rng([seed, step, 1])
    return np.sort(rng.choice(candidates, size=min(count, len(candidates)), replace=False))


def check_pool(g: Tensor) -> Tensor:
    """The Gram matrices, if they are ``(P, R, S, S)``."""
    if g.ndim != 4 or g.shape[-1] != g.shape[-2]:
        raise AcquisitionError(f"pool: Gram matrices of shape {tuple(g.shape)} are not (P, R, S, S).")
    return g
