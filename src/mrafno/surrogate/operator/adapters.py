"""A network of the caller's own: any torch module that maps functions on a grid to functions on that grid.

::

    from neuralop.models import FNO    # pip install neuraloperator

    def network_factory():
        return FNO(n_modes=(16,), hidden_channels=32, in_channels=input_channels(domain), out_channels=1)

    surrogate = Ensemble(domain, network_factory=network_factory)

The module maps ``(batch, input_channels(domain), *grid)`` to ``(batch, out_channels, *grid)``. Its input channels are
the values of the input function, the coordinates of each point (one channel per axis, so that a module needs no
positional embedding), and the embedding of the resolution (one per level). It is called on every grid of the domain, on
strided subsets of them where training uses those (``training={"points": 0}`` switches that off), and on the grids that
``predict`` is called with. ``features`` are its outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from mrafno.errors import SurrogateError
from mrafno.grids import Domain
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings, boundary_factor, embed, pooling_matrix
from mrafno.surrogate.operator.layers import Linear
from mrafno.surrogate.operator.spectral import Mesh, points_first, points_last, product_along

BuildNetwork = Callable[[], nn.Module]


def input_channels(domain: Domain) -> int:
    """Number of input channels of a module for this domain: values, coordinates, embedding of the resolution."""
    return domain.in_channels + domain.dim + domain.levels


class NetworkFactory:
    """A function that builds modules, and one of its modules, which is called with the weights of every member.

    The function must build a new module at each call and initialise it from torch's global generator, which is seeded
    with the seed of a member.
    """

    def __init__(self, build: BuildNetwork) -> None:
        if isinstance(build, nn.Module):
            raise SurrogateError(
                f"network_factory: got a module ({type(build).__name__}), but every member needs its own. "
                "Give a function that builds one, e.g. network_factory=lambda: FNO(...)."
            )
        self.build = build
        self.module = self.made(0)

    @property
    def name(self) -> str:
        """The module's class, for messages and checkpoints."""
        return f"{type(self.module).__module__}.{type(self.module).__qualname__}"

    def made(self, seed: int) -> nn.Module:
        """A new module; the global generator is left as it was."""
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            module = self.build()
        if not isinstance(module, nn.Module):
            raise SurrogateError(f"network_factory: it returned a {type(module).__name__}, not a torch module.")
        if module is getattr(self, "module", None):
            raise SurrogateError("network_factory: it returned the same module twice. Build a new one at each call.")
        return module


class MemberModules(nn.Module):
    """Has the methods of :class:`mrafno.surrogate.operator.fno.MemberFNO`, but calls modules one member after another.

    Weights and buffers of all members are stacked, so that optimisers, checkpoints and predictions treat them like
    the weights of a MemberFNO; complex ones are stored as real pairs, which every optimiser and file format supports.
    A module is in training mode exactly where gradients are computed. The log-variance comes from a small network of
    averages over cells of the inputs, of the mean and of their squares.
    """

    def __init__(self, settings: NetworkSettings, factory: NetworkFactory, members: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.settings, self.factory, self.members, self.dtype = settings, factory, members, dtype
        # A parameter's name may not have dots, which torch uses for nested modules: they become slashes.
        self.stack = nn.Module()
        self.complex: set[str] = set()
        for name, value, trained in _state(factory.module):
            if value.is_complex():
                self.complex.add(name)
            one = self._stored(value)
            stack = torch.zeros(members, *one.shape, dtype=one.dtype)
            if trained is None:
                self.stack.register_buffer(_flat(name), stack)
            else:
                self.stack.register_parameter(_flat(name), nn.Parameter(stack, requires_grad=trained))
        seen = 2 * (settings.in_channels + settings.out_channels) * settings.bins**settings.dim
        self.corrections = nn.ModuleList()  # none: a module is given the level
        self.variance_in = Linear(members, seen + settings.levels, 32, dtype)
        self.variance_out = Linear(members, 32, 1, dtype)

    def initialise(self, seeds: Sequence[int]) -> "MemberModules":
        """New modules; a member depends on its own seed only."""
        for member, seed in enumerate(seeds):
            self.initialise_member(member, seed)
        return self

    def initialise_member(self, member: int, seed: int) -> None:
        """A new module for one member, the others left as they are."""
        with torch.no_grad():
            for name, value, _ in _state(self.factory.made(seed)):
                stack: Tensor = getattr(self.stack, _flat(name))
                stack[member] = self._stored(value)
        generator = torch.Generator().manual_seed(seed)
        self.variance_in.initialise(member, generator)
        self.variance_out.initialise(member, generator)

    def features(self, f: Tensor, mesh: Mesh, level: int, masks: Sequence[Tensor] | None = None) -> Tensor:
        """The mean, ``(M, B, out_channels, *grid)``, because the layers inside a module are unknown."""
        return self._mean(f, mesh, level, masks)

    def forward(
        self, f: Tensor, mesh: Mesh, level: int, masks: Sequence[Tensor] | None = None, detach_variance: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Mean ``(M, B, out_channels, *grid)`` and log-variance ``(M, B)``; inputs ``(M or 1, B, in_channels, *grid)``.

        With ``detach_variance`` the gradient of the variance does not reach the modules.
        """
        mean = self._mean(f, mesh, level, masks)
        return mean, self._log_variance(f, mean.detach() if detach_variance else mean, mesh, level)

    def _mean(self, f: Tensor, mesh: Mesh, level: int, masks: Sequence[Tensor] | None) -> Tensor:
        assert masks is None, "dropout of channels needs the package's own network"
        s = self.settings
        place = [
            torch.tensor(axis, dtype=f.dtype, device=f.device).view(-1, *[1] * (s.dim - 1 - i)).expand(mesh.shape)
            for i, axis in enumerate(mesh.axes)
        ]
        place += [torch.full_like(place[0], value) for value in embed(level, s.levels, s.embedding)]
        x = torch.cat([f, torch.stack(place).expand(*f.shape[:2], -1, *mesh.shape)], dim=2)
        module = self.factory.module.train(torch.is_grad_enabled())
        means = []
        for member, state in enumerate(self._states()):
            mean = self._called(module, state, x[member % len(x)], (f.shape[1], s.out_channels, *mesh.shape))
            means.append(mean.to(self.dtype))
        mean = torch.stack(means)
        return mean * boundary_factor(mesh, s, mean) if s.has_zero_boundary else mean

    def _called(self, module: nn.Module, state: dict[str, Tensor], x: Tensor, expected: tuple[int, ...]) -> Tensor:
        """The output of a module, checked."""
        where = f"network_factory: {self.factory.name}, called with inputs of shape {tuple(x.shape)},"
        try:
            mean = functional_call(module, state, (x,))
        except RuntimeError as error:
            raise SurrogateError(
                f"{where} raised {type(error).__name__}: {error}. It must take {x.shape[1]} channels, "
                "see mrafno.surrogate.input_channels, on grids of any size."
            ) from error
        if not isinstance(mean, Tensor) or mean.shape != expected:
            found = f"shape {tuple(mean.shape)}" if isinstance(mean, Tensor) else f"a {type(mean).__name__}"
            raise SurrogateError(f"{where} returned {found}. It must return a tensor of shape {expected}.")
        return mean

    def _states(self) -> list[dict[str, Tensor]]:
        """The weights and buffers of each member's module, by the module's own names."""
        # Unbinding a stack has one gradient for all members; indexing member by member would have one each.
        # Buffers are indexed member by member, because a module may change them in place.
        found = {name: getattr(self.stack, _flat(name)) for name, _, _ in _state(self.factory.module)}
        stacks = {name: stack.unbind(0) if stack.requires_grad else stack for name, stack in found.items()}
        return [
            {name: torch.view_as_complex(s[i]) if name in self.complex else s[i] for name, s in stacks.items()}
            for i in range(self.members)
        ]

    def _log_variance(self, f: Tensor, mean: Tensor, mesh: Mesh, level: int) -> Tensor:
        s = self.settings
        seen = points_first(torch.cat([f.expand(self.members, *f.shape[1:]), mean], dim=2))
        x = torch.cat([seen, seen.square()], dim=-1)
        for axis in range(s.dim):
            x = product_along(x, pooling_matrix(mesh, axis, s.bins, x.dtype, x.device), axis)
        x = points_last(x).flatten(2)  # (M, B, channels and cells)
        resolution = x.new_tensor(embed(level, s.levels, s.embedding)).expand(*x.shape[:2], -1)
        log_var: Tensor = self.variance_out(functional.gelu(self.variance_in(torch.cat([x, resolution], dim=-1))))
        return log_var[..., 0]

    def _stored(self, value: Tensor) -> Tensor:
        """A weight as it is stored in the stack: real, in the stack's precision."""
        value = torch.view_as_real(value.detach().resolve_conj()) if value.is_complex() else value.detach()
        return value.to(self.dtype) if value.is_floating_point() else value


def make_network(
    settings: NetworkSettings, members: int, dtype: torch.dtype, factory: NetworkFactory | None
) -> MemberFNO:
    """A network with all weights zero: the package's own, or modules of the caller's."""
    if factory is None:
        return MemberFNO(settings, members, dtype)
    # It has the same methods.
    return cast(MemberFNO, MemberModules(settings, factory, members, dtype))


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor, bool | None]]:
    """Name and value of all weights and buffers, and whether it is trained (None for a buffer).

    Not ``state_dict``, because a module may add entries to it that are no tensors.
    """
    for name, parameter in module.named_parameters():
        yield name, parameter, parameter.requires_grad
    for name, buffer in module.named_buffers():
        yield name, buffer, None


def _flat(name: str) -> str:
    return name.replace(".", "/")
