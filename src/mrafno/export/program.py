r"""A surrogate on one grid as one function of tensors, :math:`f \mapsto (\bar\mu, \sigma)`, in physical units.

This is what is exported: normalisers, all members or samples, the calibrated noise and the matching by one Gaussian

.. math:: \bar\mu = \tfrac1S \sum_s \mu_s, \qquad
    \sigma^2 = \tfrac1{S-1} \sum_s (\mu_s - \bar\mu)^2 + \tfrac1S \sum_s e^{\eta_s}

are inside, so that whoever has the file needs nothing of mrafno.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import ERROR, getLogger
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mrafno._version import __version__
from mrafno.errors import ExportError
from mrafno.grids import Array
from mrafno.surrogate import Surrogate
from mrafno.surrogate.operator.layers import FourierLayer
from mrafno.surrogate.training.objective import bounded

#: How far an exported network may be from the surrogate, as a share of the largest value.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
#: Inputs with which an exported network is compared: numbers of them other than it was made with.
_COMPARED = (1, 3)


class GridSurrogate(nn.Module):
    """A surrogate on the grid of a level: inputs ``(n, in_channels, *grid)`` to mean and standard deviation.

    Both are ``(n, out_channels, *grid)``, and of the precision of the inputs, which is the surrogate's.
    """

    in_mean: Tensor
    in_std: Tensor
    out_mean: Tensor
    out_std: Tensor

    def __init__(self, surrogate: Surrogate, level: int | None = None) -> None:
        super().__init__()
        if surrogate.network_factory is not None:
            raise ExportError(
                f"export: the network is a module of your own, {surrogate.network_factory.name}. "
                "Export that with its own tools."
            )
        level = surrogate.domain.levels - 1 if level is None else level
        if not 0 <= level < surrogate.domain.levels:
            raise ExportError(f"export: unknown level {level}; it knows 0 to {surrogate.domain.levels - 1}.")
        self.surrogate, self.level, self.dtype = [surrogate], level, surrogate.dtype  # in a list: it is no part of this
        zeros = np.zeros((1, surrogate.domain.in_channels, *surrogate.domain.grids[level].shape))
        _, self.imitated, self.mesh = surrogate._placed(zeros, level, None)
        self.network, masks = surrogate._network()
        for layer in self.network.modules():
            if isinstance(layer, FourierLayer):
                layer.fft = False  # matrix products give the same numbers, and every runtime has them
        for i, mask in enumerate(masks or ()):
            self.register_buffer(f"mask{i}", mask)
        self.masks = len(masks or ())
        assert surrogate.normaliser is not None, "a surrogate that has weights has one"
        for name, values in surrogate.normaliser.as_json().items():
            column = torch.tensor(values, dtype=torch.float64).view(-1, *[1] * surrogate.domain.dim)
            self.register_buffer(name, column)
        self.shift = surrogate.shift + surrogate.normaliser.log_scale
        self.requires_grad_(False).eval().to("cpu")

    def forward(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        # Normalised in double precision, as the surrogate does, so that an offset costs no digits.
        x = ((f.double() - self.in_mean) / self.in_std).to(self.dtype)
        masks: Sequence[Tensor] | None = [getattr(self, f"mask{i}") for i in range(self.masks)] or None
        mean, log_var = self.network(x[None], self.mesh, self.imitated, masks=masks)
        mean = mean.double() * self.out_std + self.out_mean
        noise = torch.exp(bounded(log_var).double() + self.shift).mean(0)
        variance = noise.view(-1, *[1] * (mean.ndim - 2)).expand_as(mean[0])
        if mean.shape[0] > 1:
            variance = variance + mean.var(0, correction=1)
        return mean.mean(0).to(self.dtype), torch.sqrt(variance).to(self.dtype)

    def program(self) -> torch.export.ExportedProgram:
        """The same as a program of torch.export, with a free number of inputs."""
        example = torch.as_tensor(self.inputs(2))
        with torch.no_grad(), quiet():
            # What is remembered between calls must be there before tracing, which would remember no real tensors.
            self(example)
            return torch.export.export(self, (example,), dynamic_shapes={"f": {0: torch.export.Dim("n", min=1)}})

    def inputs(self, n: int) -> Array:
        """Random inputs with the mean and the spread that the surrogate's examples had."""
        shape = (n, len(self.in_mean), *self.mesh.shape)
        draws = np.random.default_rng(n).standard_normal(shape)
        values = self.in_mean.numpy() + self.in_std.numpy() * draws
        return np.asarray(values, dtype=str(self.dtype).removeprefix("torch."))

    def compare(self, run: Callable[[Array], Sequence[Array]], what: str) -> float:
        """The largest difference between what ``run`` gives and what the surrogate predicts, or an error.

        It is relative to the largest value of each, the means and the standard deviations.
        """
        worst = 0.0
        for n in _COMPARED:
            f = self.inputs(n)
            expected = self.surrogate[0].predict(f, self.level)
            for ours, theirs in zip((expected.mean, expected.std), run(f), strict=True):
                difference = np.abs(np.asarray(theirs, dtype=np.float64) - ours).max() / np.abs(ours).max()
                worst = float(np.fmax(worst, np.nan_to_num(difference, nan=np.inf)))
        if worst > TOLERANCE[self.dtype]:
            raise ExportError(
                f"export: {what} gives other numbers than the surrogate: the largest difference is {worst:.1e} of the "
                f"largest value, and {TOLERANCE[self.dtype]:.0e} is allowed. Nothing was written. Other versions of "
                "torch or of the runtime may do better."
            )
        return worst

    def about(self, more: Mapping[str, Any]) -> dict[str, str]:
        """What people want to know of an exported network, as texts by name."""
        surrogate = self.surrogate[0]
        grid = surrogate.domain.grids[self.level]
        values = {
            "version": __version__,
            **more,
            "inference": surrogate.name,
            "samples": surrogate.sample_count,
            "level": self.level,
            "grid": list(grid.shape),
            "layout": list(grid.layout),
            "in_channels": surrogate.domain.in_channels,
            "out_channels": surrogate.domain.out_channels,
            "out_of_fold": surrogate.out_of_fold_count,
            "coverage": surrogate.coverage,
        }
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch says of its own insides."""
    log = getLogger("torch.onnx")
    before = log.level
    log.setLevel(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
