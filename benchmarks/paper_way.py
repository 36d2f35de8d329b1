r"""One step of active learning computed plainly, as the paper describes it. :mod:`benchmarks.bench_paper` times it.

Members are trained one after another from scratch: 200 epochs of Adam with a rate of 1e-3 that falls like a cosine,
minibatches of 20 of one resolution, all points of every mesh, Fourier transforms by ``torch.fft``. Then each candidate
and resolution gets its mutual information with the finest outputs of five targets, one pair at a time:

.. math::
    I(y_1; y_2) = H(y_1) + H(y_2) - H(y_1, y_2), \qquad
    H(y) = \tfrac12 \left(d \log 2 \pi e + \textstyle\sum_i \log\lambda_i
           + \log\det(I + B^T \Lambda^{-1} B)\right),

with :math:`B` the :math:`d \times M` matrix of the members' deviations from their mean by :math:`\sqrt{M - 1}`.
Where the paper leaves something open, the quicker way is taken: predictions are made 20 inputs at a time, and
:math:`\Lambda` is kept as a vector.

Reference: Li et al. (2024), sections 3 and 4.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Array, Domain
from mrafno.surrogate.prediction import Prediction

EPOCHS, BATCH, RATE, TARGETS, MEMBERS = 200, 20, 1e-3, 5, 5
WIDTH, LAYERS, HIDDEN, MODES = 64, 4, 128, {1: 16, 2: 12}


class SpectralConvolution(nn.Module):
    """The lowest modes of a function times complex weights."""

    def __init__(self, dim: int, modes: int) -> None:
        super().__init__()
        self.dim, self.modes = dim, modes
        # The real transform keeps half of the last axis; of the others both ends.
        shape = (2 ** (dim - 1), WIDTH, WIDTH, *[modes] * dim)
        self.weight = nn.Parameter(torch.rand(shape, dtype=torch.cfloat) / WIDTH**2)

    def forward(self, v: Tensor) -> Tensor:
        """``(B, WIDTH, *grid)`` of the same."""
        axes, k = tuple(range(2, v.ndim)), self.modes
        spectrum = torch.fft.rfftn(v, dim=axes)
        out = torch.zeros_like(spectrum)
        if self.dim == 1:
            out[:, :, :k] = torch.einsum("bix,iox->box", spectrum[:, :, :k], self.weight[0])
        else:
            for weight, rows in zip(self.weight, (slice(None, k), slice(-k, None)), strict=True):
                out[:, :, rows, :k] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, rows, :k], weight)
        back: Tensor = torch.fft.irfftn(out, s=v.shape[2:], dim=axes)
        return back


class PlainFNO(nn.Module):
    """Mean ``(B, out_channels, *grid)`` and log-variance ``(B,)`` of inputs ``(B, in_channels, *grid)`` of a level."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain
        dim, coarsest = domain.dim, min(min(grid.shape) for grid in domain.grids)
        pointwise = nn.Conv1d if dim == 1 else nn.Conv2d
        modes = min(MODES[dim], coarsest // 2)
        self.lift = nn.Sequential(
            pointwise(domain.in_channels + dim + domain.levels, WIDTH, 1), nn.GELU(), pointwise(WIDTH, WIDTH, 1)
        )
        self.spectral = nn.ModuleList(SpectralConvolution(dim, modes) for _ in range(LAYERS))
        self.pointwise = nn.ModuleList(pointwise(WIDTH, WIDTH, 1) for _ in range(LAYERS))
        self.project = nn.Sequential(pointwise(WIDTH, HIDDEN, 1), nn.GELU(), pointwise(HIDDEN, domain.out_channels, 1))
        self.convolve = pointwise(WIDTH, 1, 3, padding=1)
        self.variance = nn.ModuleList(
            nn.Sequential(nn.Linear(math.prod(grid.shape), HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 1))
            for grid in domain.grids
        )
        for level, grid in enumerate(domain.grids):
            place = np.stack(np.meshgrid(*grid.axes, indexing="ij"))
            level_is = np.stack([np.full(grid.shape, float(level == other)) for other in range(domain.levels)])
            self.register_buffer(f"place{level}", torch.as_tensor(np.concatenate([place, level_is])).float())

    def forward(self, f: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """Of inputs of one level."""
        place: Tensor = getattr(self, f"place{level}")
        v = self.lift(torch.cat([f, place.expand(len(f), *place.shape)], dim=1))
        for number, (spectral, pointwise) in enumerate(zip(self.spectral, self.pointwise, strict=True), 1):
            v = spectral(v) + pointwise(v)
            v = functional.gelu(v) if number < LAYERS else v
        log_var = self.variance[level](self.convolve(v).flatten(1))[:, 0]
        return self.project(v), log_var


Batch = tuple[int, Tensor, Tensor]


class Member:
    """A network and its training, one epoch at a time."""

    def __init__(self, data: Dataset, normaliser: Normaliser, seed: int) -> None:
        torch.manual_seed(seed)
        self.network = PlainFNO(data.domain)
        self.normaliser = normaliser
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, EPOCHS)
        self.examples = [
            (torch.as_tensor(normaliser.inputs(f)).float(), torch.as_tensor(normaliser.outputs(y)).float())
            for f, y in zip(data.inputs, data.outputs, strict=True)
        ]

    def batches(self) -> list[Batch]:
        """All examples once, in minibatches of one level in random order."""
        found: list[Batch] = []
        for level, (f, y) in enumerate(self.examples):
            for rows in torch.split(torch.randperm(len(f)), BATCH):
                found += [(level, f[rows], y[rows])] if len(rows) else []
        return [found[place] for place in torch.randperm(len(found))]

    def epoch(self) -> None:
        """Go through all examples once."""
        for level, f, y in self.batches():
            mean, log_var = self.network(f, level)
            d = mean[0].numel()
            error = (y - mean).flatten(1).square().sum(1)
            # Far from the data an early log-variance would make the loss overflow.
            bounded = log_var.clamp(-15.0, 15.0)
            loss = (0.5 * (d * bounded + torch.exp(-bounded) * error) / d).mean()
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
        self.schedule.step()

    def predict(self, f: Array, level: int) -> tuple[Array, Array]:
        """Normalised means ``(n, out_channels, *grid)`` and log-variances ``(n,)``."""
        inputs = torch.as_tensor(self.normaliser.inputs(f)).float()
        with torch.no_grad():
            parts = [self.network(chunk, level) for chunk in torch.split(inputs, BATCH)]
        means, log_vars = (torch.cat(part).double().numpy() for part in zip(*parts, strict=True))
        return means, np.clip(log_vars, -15.0, 15.0)


def predict(members: Sequence[Member], f: Array, level: int) -> Prediction:
    """Normalised predictions of all members."""
    means, log_vars = zip(*(member.predict(f, level) for member in members), strict=True)
    return Prediction(np.stack(means), np.stack(log_vars))


def ensemble_mean(members: Sequence[Member], f: Array, level: int) -> Array:
    """Mean over members, in physical units."""
    first = members[0]
    return first.normaliser.physical(predict(members, f, level).samples.mean(0), first.network.domain.dim)


Output = tuple[Tensor, Tensor]


def output(prediction: Prediction, row: int) -> Output:
    """Members' values ``(M, d)`` and noise ``(d,)`` of one candidate."""
    mean = torch.as_tensor(prediction.samples[:, row]).flatten(1)
    noise = torch.as_tensor(np.exp(prediction.log_var[:, row]).mean())
    return mean, noise.expand(mean.shape[1])


def entropy(mean: Tensor, noise: Tensor) -> Tensor:
    """In nats, of values ``(M, d)`` with noise of variances ``(d,)``."""
    members, d = mean.shape
    b = (mean - mean.mean(0)).T / math.sqrt(members - 1)
    inner = torch.eye(members, dtype=b.dtype) + b.T @ (b / noise[:, None])
    return 0.5 * (d * math.log(2 * math.pi * math.e) + noise.log().sum() + torch.logdet(inner))


def information(one: Output, other: Output) -> Tensor:
    """Mutual information of two outputs, in nats."""
    both = torch.cat([one[0], other[0]], 1), torch.cat([one[1], other[1]])
    return entropy(*one) + entropy(*other) - entropy(*both)


def utility(levels: Sequence[Prediction], targets: Prediction, rows: Sequence[int]) -> Array:
    """Mean information on the targets' finest outputs, of candidates at every level: ``(rows, R)``."""
    goals = [output(targets, row) for row in range(targets.samples.shape[1])]
    scores = np.zeros((len(rows), len(levels)))
    for place, row in enumerate(rows):
        for level, prediction in enumerate(levels):
            own = output(prediction, row)
            scores[place, level] = np.mean([float(information(own, goal)) for goal in goals])
    return scores


def choose(
    members: Sequence[Member],
    candidates: Array,
    restrict: Callable[[Array, int], Array],
    weights: Sequence[float],
    targets: Sequence[int],
) -> tuple[int, int]:
    """The candidate and level of the largest utility per cost.

    Args:
        candidates: on the finest grid.
        restrict: makes them inputs of a level.
        weights: the annealed cost of each level.
        targets: rows of the candidates whose finest outputs are to be learnt.
    """
    levels = [predict(members, restrict(candidates, level), level) for level in range(len(weights))]
    goals = predict(members, candidates[list(targets)], len(weights) - 1)
    scores = utility(levels, goals, range(len(candidates))) / np.asarray(weights)
    row, level = divmod(int(np.argmax(scores)), len(weights))
    return row, level
