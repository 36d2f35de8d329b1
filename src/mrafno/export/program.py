r"""A surrogate on one grid as one function of tensors, :math:`f \mapsto (\bar\mu, \sigma)`, in physical units.

The exported function contains normalisers, all members or samples, the calibrated noise and moment matching

.. math:: \bar\mu = \tfrac1S \sum_s \mu_s, \qquad
    \sigma^2 = \tfrac1{S-1} \sum_s (\mu_s - \bar\mu)^2 + \tfrac1S \sum_s e^{\eta_s}

so that the file can be used without mrafno. Where the activations of one input are large, inputs go through the network
one by one: thousands of them need no more memory than one.
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
from torch._higher_order_ops.map import map as map_tensors

from mrafno._version import __version__
from mrafno.errors import ExportError
from mrafno.grids import Array
from mrafno.surrogate import Surrogate
from mrafno.surrogate.operator.layers import FourierLayer
from mrafno.surrogate.training.objective import bounded

#: Largest allowed difference between exported network and surrogate, relative to the largest value.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
#: Numbers of inputs in the comparison, other than the number in the trace.
_COMPARED = (1, 3)
#: Numbers of one layer's activations of an input from which inputs go through the network one by one.
_LARGE = 100_000


class GridSurrogate(nn.Module):
    """A surrogate on the grid of a level, from inputs ``(n, in_channels, *grid)`` to mean and standard deviation.

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
                f"export: the network is not one of mrafno, {surrogate.network_factory.name}. Export it with "
                "torch.export."
            )
        level = surrogate.domain.levels - 1 if level is None else level
        if not 0 <= level < surrogate.domain.levels:
            raise ExportError(f"export: unknown level {level}; the levels are 0 to {surrogate.domain.levels - 1}.")
        self.surrogate = [surrogate]  # in a list, because it is no submodule
        self.level, self.dtype = level, surrogate.dtype
        ones = np.ones((1, surrogate.domain.in_channels, *surrogate.domain.grids[level].shape))
        _, self.imitated, self.mesh = surrogate._placed(ones, level, None)
        self.network, masks = surrogate._network()
        for layer in self.network.modules():
            if isinstance(layer, FourierLayer):
                layer.fft = False  # matrix products give the same numbers, and every runtime supports them
        for i, mask in enumerate(masks or ()):
            self.register_buffer(f"mask{i}", mask)
        self.masks = len(masks or ())
        assert surrogate.normaliser is not None, "a surrogate with weights has a normaliser"
        axes = [1] * surrogate.domain.dim
        for name, values in surrogate.normaliser.as_json().items():
            if name != "in_log":
                self.register_buffer(name, torch.tensor(values, dtype=torch.float64).view(-1, *axes))
        self.in_log = surrogate.normaliser.in_log
        self.shift = surrogate.shift + surrogate.normaliser.log_scale
        self.requires_grad_(False).eval().to("cpu")

    def forward(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        # Normalised in double precision, like the surrogate, so that an offset costs no digits.
        values = f.double()
        if self.in_log:
            channels = values.unbind(1)
            values = torch.stack(
                [torch.log(one) if log else one for one, log in zip(channels, self.in_log, strict=True)], dim=1
            )
        x = ((values - self.in_mean) / self.in_std).to(self.dtype)
        masks: Sequence[Tensor] | None = [getattr(self, f"mask{i}") for i in range(self.masks)] or None
        mean, log_var = self.network(x[None], self.mesh, self.imitated, masks=masks)
        mean = mean.double() * self.out_std + self.out_mean
        noise = torch.exp(bounded(log_var).double() + self.shift).mean(0)
        variance = noise.view(-1, *[1] * (mean.ndim - 2)).expand_as(mean[0])
        if mean.shape[0] > 1:
            variance = variance + mean.var(0, correction=1)
        return mean.mean(0).to(self.dtype), torch.sqrt(variance).to(self.dtype)

    @property
    def one_by_one(self) -> bool:
        """Whether the activations of one input are so large that inputs go through the network one by one."""
        return self.surrogate[0]._numbers(self.mesh, self.network.members) > _LARGE

    def program(self) -> torch.export.ExportedProgram:
        """A program of torch.export for any number of inputs."""
        example = torch.as_tensor(self.inputs(2))
        with torch.no_grad(), without_warnings():
            # Fill caches of matrices before tracing, which would cache tensors of the trace.
            self(example)
            module = _OneByOne(self.program_of_one().module()) if self.one_by_one else self
            return torch.export.export(module, (example,), dynamic_shapes={"f": {0: torch.export.Dim("n", min=1)}})

    def program_of_one(self) -> torch.export.ExportedProgram:
        """A program of torch.export for a single input, ``(1, in_channels, *grid)``."""
        example = torch.as_tensor(self.inputs(1))
        with torch.no_grad(), without_warnings():
            self(example)
            program = torch.export.export(self, (example,))
            functional: torch.export.ExportedProgram = program.run_decompositions({})  # nothing in place
        return functional

    def inputs(self, n: int) -> Array:
        """Random inputs with the mean and standard deviation of the training inputs."""
        shape = (n, len(self.in_mean), *self.mesh.shape)
        draws = np.random.default_rng(n).standard_normal(shape)
        # Parameters are constant over the grid.
        count = len(self.surrogate[0].domain.parameters)
        draws[:, shape[1] - count :] = draws[(slice(None), slice(shape[1] - count, None), *[slice(1)] * len(shape[2:]))]
        values = self.in_mean.numpy() + self.in_std.numpy() * draws
        for channel in np.flatnonzero(self.in_log):
            values[:, channel] = np.exp(values[:, channel])
        return np.asarray(values, dtype=str(self.dtype).removeprefix("torch."))

    def compare(self, run: Callable[[Array], Sequence[Array]], what: str) -> float:
        """The largest difference between ``run`` and the surrogate; raises ExportError if it is too large.

        It is relative to the largest mean and to the largest standard deviation.
        """
        worst = 0.0
        for n in _COMPARED:
            f = self.inputs(n)
            expected = self.surrogate[0].predict(f, self.level, check=False)
            for ours, theirs in zip((expected.mean, expected.std), run(f), strict=True):
                difference = np.abs(np.asarray(theirs, dtype=np.float64) - ours).max() / np.abs(ours).max()
                worst = float(np.fmax(worst, np.nan_to_num(difference, nan=np.inf)))
        if worst > TOLERANCE[self.dtype]:
            raise ExportError(
                f"export: {what} differs from the surrogate by {worst:.1e} of the largest value; "
                f"{TOLERANCE[self.dtype]:.0e} is allowed. Nothing was written. Try another version of torch or of the "
                "runtime."
            )
        return worst

    def about(self, more: Mapping[str, Any]) -> dict[str, str]:
        """Metadata of the exported network, as text by name."""
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
            "parameters": list(surrogate.domain.parameters),
            "out_channels": surrogate.domain.out_channels,
            "out_of_fold": surrogate.out_of_fold_count,
            "coverage": surrogate.coverage,
        }
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


class _OneByOne(nn.Module):
    """Applies a program of a single input to one input after the other."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def forward(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of ``(n, in_channels, *grid)``."""

        def one(x: Any) -> tuple[Tensor, Tensor]:
            mean, std = self.program(x[None])
            return mean[0].clone(), std[0].clone()

        mean, std = map_tensors(one, f)  # type: ignore[arg-type]  # one without further arguments
        return mean, std


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress warnings and log messages of torch."""
    log = getLogger("torch.onnx")
    before = log.level
    log.setLevel(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
