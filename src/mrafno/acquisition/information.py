r"""Gram matrices, entropies and mutual information of predictions: exact, in float64, and blind to the grid.

A prediction's S samples are matched by one Gaussian, :math:`y = \bar\mu + B z + \varepsilon` with
:math:`z \sim N(0, I_S)`, :math:`B = [\mu_s - \bar\mu] / \sqrt{S - 1}`, and noise of variance
:math:`\lambda = \tfrac1S \sum_s e^{\eta_s}`. The weights z are common to all inputs and resolutions, so all that one
output says of another goes through z, and all that must be known of a (candidate, resolution) pair is

.. math:: G = B^T B / \lambda, \qquad l(G) = \log\det(I + G).

Gram matrices of outputs with independent noise add. Outputs that are known already, or will be, turn I into
:math:`Q = I + \sum G`, and that is all that conditioning is: with :math:`Q = L L^T`, replace G by
:math:`L^{-1} G L^{-T}`.

Tensors and NumPy arrays are taken, tensors are returned; matrices are ``(..., S, S)`` and the leading axes broadcast.
"""

import math
from collections.abc import Callable

import torch
from numpy.typing import NDArray
from torch import Tensor

from mrafno.errors import AcquisitionError

Numbers = Tensor | NDArray  # type: ignore[type-arg]

#: Pivots multiplied before a logarithm is taken: four below 1e77 do not overflow.
_PIVOTS_PER_LOG = 4
#: Least pivot, minus one, of a matrix that is positive definite but for rounding.
_NO_PIVOT = -1 + 1e-15


def gram(mean: Numbers, log_var: Numbers) -> Tensor:
    r"""Gram matrices ``(n, S, S)`` of means ``(S, n, out_channels, *grid)`` with log-variances ``(S, n)``.

    .. math:: G = B^T B / \lambda

    A single sample has no spread: its matrix is zero.
    """
    mu, noise = as_double(mean), log_noise(log_var)
    if mu.ndim < 3 or mu.shape[:2] != as_double(log_var).shape:
        raise AcquisitionError(
            f"gram: means of shape {tuple(mu.shape)} and log-variances of shape {tuple(log_var.shape)} do not fit. "
            "They are (S, n, out_channels, *grid) and (S, n)."
        )
    samples = mu.shape[0]
    # Dividing before squaring: neither a tiny noise nor a tiny spread under- or overflows by itself.
    scale = torch.exp(-0.5 * noise) / math.sqrt(max(samples - 1, 1))
    deviations = (mu - mu.mean(0)).flatten(2).mul_(scale[:, None])
    g = torch.einsum("snd,tnd->nst", deviations, deviations)
    if not torch.isfinite(g).all():
        row = int((~torch.isfinite(g)).flatten(1).any(1).nonzero()[0])
        raise AcquisitionError(f"gram: input {row} has NaN or infinite predictions. Look at the surrogate's training.")
    # Rows sum to zero because deviations do; where the spread is small beside the mean, rounding forgets it.
    g = g - g.mean(-1, keepdim=True)
    g = g - g.mean(-2, keepdim=True)
    return 0.5 * (g + g.transpose(1, 2))


def log_noise(log_var: Numbers) -> Tensor:
    r"""Logarithm of the noise :math:`\lambda`, ``(n,)``, from log-variances ``(S, n)``."""
    eta = as_double(log_var)
    return torch.logsumexp(eta, 0) - math.log(eta.shape[0])


def log_det_identity_plus(g: Numbers, given: Numbers | None = None) -> Tensor:
    r""":math:`l_Q(G) = \log\det(Q + G) - \log\det Q`, to full relative precision also where G is tiny."""
    return _log_det(_triangle(whitened(as_double(g), given)), floor=0.0)


def entropy(g: Numbers, log_noise: Numbers, d: int, given: Numbers | None = None) -> Tensor:
    r"""Differential entropy, in nats, of an output with d values, given those that ``given`` sums up.

    .. math:: H(y) = \tfrac12 \left(d \log 2\pi e + d \log\lambda + l_Q(G)\right)
    """
    return 0.5 * (d * (math.log(2 * math.pi) + 1 + as_double(log_noise)) + log_det_identity_plus(g, given))


def mutual_information(g1: Numbers, g2: Numbers, given: Numbers | None = None) -> Tensor:
    r"""What two outputs say of each other, in nats; leading axes broadcast.

    .. math:: I = \tfrac12 \left(l(G_1) + l(G_2) - l(G_1 + G_2)\right)
        = -\tfrac12 \log\det\left(I - F_1^T M_2 F_1\right), \qquad
        M = G (I + G)^{-1}, \quad F F^T = M.

    The first form subtracts numbers that may be much larger than what is left; the second never does, but where the
    information is large its matrix is nearly singular. Each is used where it is accurate. The eigenvalues of
    :math:`F_1^T M_2 F_1` are the squared canonical correlations.

    Args:
        given: sum of the Gram matrices of outputs already chosen or still being simulated.
    """
    a, b = whitened(as_double(g1), given), whitened(as_double(g2), given)
    if a.shape[-1] != b.shape[-1]:
        raise AcquisitionError(f"mutual_information: matrices of {a.shape[-1]} and {b.shape[-1]} samples do not fit.")
    root, _, gain1 = _spectral(a)
    _, shrunk, gain2 = _spectral(b)
    correlations = root.transpose(-1, -2) @ shrunk @ root
    small = -0.5 * _log_det(_triangle(-correlations), floor=_NO_PIVOT)
    large = 0.5 * (gain1 + gain2 - _log_det(_triangle(a + b), floor=0.0))
    return torch.where(small > 1.0, large, small).clamp(min=0.0)


def mean_information(g: Numbers, targets: Numbers, given: Numbers | None = None, *, numbers: int = 100_000) -> Tensor:
    r"""Mean over targets ``(m, S, S)`` of the information of each of ``(n, S, S)``: ``(n,)`` nats.

    .. math:: \tfrac1m \sum_j I(y_i; y_j)

    The n m determinants of S x S matrices are computed with the pairs, not the matrix, along the contiguous axis, which
    is ten times faster on a processor than a library's small factorisations.

    Args:
        numbers: how many numbers a row of matrices may take in a block of pairs, all rows S / 2 times as many. What
            fits into the processor's cache is fastest.
    """
    a, b = as_double(g), as_double(targets)
    if a.ndim != 3 or b.ndim != 3 or a.shape[1:] != b.shape[1:] or not len(b):
        raise AcquisitionError(
            f"mean_information: matrices of shapes {tuple(a.shape)} and {tuple(b.shape)} are not (n, S, S), (m, S, S)."
        )
    known = torch.zeros(a.shape[1:]) if given is None else given
    a, b, q = _centred(a, b, as_double(known).to(a.device))
    if given is not None:
        a, b = whitened(a, q), whitened(b, q)
    samples = a.shape[-1]
    left, right = a.permute(1, 2, 0).contiguous(), b.permute(1, 2, 0).contiguous()

    def sums(i: Tensor, j: slice) -> list[Tensor]:
        """Triangle of G1 + G2: entry k is ``(S - k, rows, targets)``."""
        rows = left[:, :, i]
        return [rows[k, k:, :, None] + right[k, k:, None, j] for k in range(samples)]

    everyone = torch.arange(len(a))
    gain = _log_det(_triangle(a), floor=0.0) + _log_det(_triangle(b), floor=0.0).mean()
    mean = 0.5 * (gain - _mean_log_det(sums, everyone, len(b), samples, 0.0, numbers))
    # Where next to nothing is left of the subtraction, the form that does not subtract. Rows, not pairs: a pair that
    # says little beside others that say much does not show in the mean.
    small = (mean < 1e-6 * gain).nonzero()[:, 0]
    if len(small):
        root, shrunk = _spectral(a)[0], _spectral(b)[1].flatten(1).T

        def correlations(i: Tensor, j: slice) -> list[Tensor]:
            """Triangle of -F1' M2 F1, whose entries f' M2 g = <f g', M2> are one matrix product over all pairs."""
            f = root[i].permute(2, 0, 1)
            outer = [(f[k, :, :, None] * f[k:, :, None, :]).flatten(2) for k in range(samples)]
            return [-(o @ shrunk[:, j]) for o in outer]

        mean[small] = -0.5 * _mean_log_det(correlations, small, len(b), samples, _NO_PIVOT, numbers)
    return mean


def _mean_log_det(
    triangle: Callable[[Tensor, slice], list[Tensor]],
    rows: Tensor,
    targets: int,
    samples: int,
    floor: float,
    numbers: int,
) -> Tensor:
    """Mean over targets of log det(I + Y) for each of ``rows``, in blocks."""
    wide = max(1, min(targets, numbers // samples))
    high = max(1, numbers // (samples * wide))
    sums = []
    for start in range(0, len(rows), high):
        part = rows[start : start + high]
        blocks = (slice(j, min(j + wide, targets)) for j in range(0, targets, wide))
        sums.append(sum((_log_det(triangle(part, j), floor).sum(-1) for j in blocks), torch.zeros(len(part)).double()))
    return torch.cat(sums) / targets


def whitened(g: Tensor, given: Numbers | None) -> Tensor:
    r""":math:`L^{-1} G L^{-T}` with :math:`L L^T = I + ` ``given``; G itself where nothing is given."""
    if g.ndim < 2 or g.shape[-1] != g.shape[-2]:
        raise AcquisitionError(f"gram matrices of shape {tuple(g.shape)} are not (..., S, S).")
    if given is None:
        return g
    q = as_double(given).to(g.device)
    if q.shape[-2:] != g.shape[-2:]:
        raise AcquisitionError(
            f"given: a matrix of shape {tuple(q.shape)} does not fit Gram matrices {tuple(g.shape)}."
        )
    eye = torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)
    inverse = torch.linalg.solve_triangular(torch.linalg.cholesky(eye + q), eye, upper=False)
    found: Tensor = inverse @ g @ inverse.transpose(-1, -2)
    return found


def _centred(*grams: Tensor) -> list[Tensor]:
    """The same matrices in a basis without (1, ..., 1), one row and column less, if none says anything along it.

    Those of predictions do not, because deviations from a mean sum to zero. Determinants stay the same, and for five
    samples they take half the time.
    """
    samples = grams[0].shape[-1]
    sums = [(g.sum(-1).abs().amax(-1), 1e-13 * g.diagonal(dim1=-2, dim2=-1).sum(-1)) for g in grams]
    if (
        samples < 2
        or len({g.shape[-1] for g in grams}) > 1
        or not all(bool((found <= rounding).all()) for found, rounding in sums)
    ):
        return list(grams)
    # A reflection that takes (1, ..., 1) to the first axis; the other axes are its complement.
    v = torch.full((samples,), samples**-0.5, dtype=grams[0].dtype, device=grams[0].device)
    v[0] += 1.0
    basis = (torch.eye(samples, dtype=v.dtype, device=v.device) - 2 * torch.outer(v, v) / v.dot(v))[:, 1:]
    return [basis.T @ g @ basis for g in grams]


def as_double(values: Numbers) -> Tensor:
    """A float64 tensor."""
    return torch.as_tensor(values, dtype=torch.float64)


def _spectral(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """F, M and l(G) of the formulas above."""
    values, vectors = torch.linalg.eigh(g)
    values = values.clamp(min=0.0)
    shrunk = values / (1 + values)
    root = vectors * shrunk.sqrt()[..., None, :]
    return root, root @ root.transpose(-1, -2), values.log1p().sum(-1)


def _triangle(g: Tensor) -> list[Tensor]:
    """Rows of the upper triangle, the matrix axis first: entry k is ``(S - k, ...)``, a copy."""
    entries = g.movedim((-2, -1), (0, 1))
    return [entries[k, k:].clone(memory_format=torch.contiguous_format) for k in range(g.shape[-1])]


def _log_det(rows: list[Tensor], floor: float) -> Tensor:
    """log det(I + Y) of the upper triangle of Y, which is overwritten, by symmetric elimination.

    Elimination keeps Y, not I + Y, and a product of pivots minus one, so nothing is lost where Y is tiny. ``floor`` is
    the least that a pivot minus one can be without rounding.
    """
    total: Tensor | None = None
    product = rows[0][0]
    for k, row in enumerate(rows):
        y = row[0].clamp_(min=floor)
        if k + 1 < len(rows):
            factors = row[1:] / (1 + y)
            for i in range(k + 1, len(rows)):
                rows[i].addcmul_(row[i - k :], factors[i - k - 1], value=-1.0)
        # The row is done with, so its memory takes the product.
        product = y if k % _PIVOTS_PER_LOG == 0 else product.addcmul_(product, y).add_(y)
        if k % _PIVOTS_PER_LOG == _PIVOTS_PER_LOG - 1 or k == len(rows) - 1:
            total = product.log1p_() if total is None else total.add_(product.log1p_())
    assert total is not None
    return total
