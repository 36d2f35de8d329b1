"""How a run makes its surrogate: a way of inference, a network, training settings, or a class of one's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrafno.errors import SurrogateError
from mrafno.grids import Domain

if TYPE_CHECKING:  # they import torch, and a spec is made where torch is not needed
    from torch import nn

    from mrafno.surrogate.inference.base import Surrogate


@dataclass(frozen=True, kw_only=True)
class SurrogateSpec:
    """A surrogate that is made when a run needs it.

    Attributes:
        inference: name of a way of inference (``ensemble``, ``point``, ``dropout``, ``sgld``, ``svi``), or a class
            derived from :class:`mrafno.surrogate.Surrogate`.
        network: ``network(domain)`` builds a ``torch.nn.Module`` that maps ``(batch, input_channels(domain), *grid)``
            to ``(batch, out_channels, *grid)``; None for the Fourier neural operator. Only ``ensemble`` and ``point``,
            and classes derived from them, take one. It must build a new module at each call.
        network_settings: changes to the preset's network, by name; see
            :class:`mrafno.surrogate.operator.fno.NetworkSettings`.
        training: changes to the preset's training, by name.
        settings: further arguments of the surrogate's constructor.
    """

    inference: "str | type[Surrogate]" = "ensemble"
    network: "Callable[[Domain], nn.Module] | None" = None
    network_settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.network is not None and not callable(self.network):
            raise SurrogateError(
                f"surrogate: network must be a function of the domain that builds a module, got {self.network!r}."
            )

    def make(
        self,
        domain: Domain,
        *,
        preset: str,
        seed: int,
        members: int,
        device: str = "auto",
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> "Surrogate":
        """A surrogate that is not trained yet.

        Args:
            members: of an ensemble; other ways of inference have none.
            network, training: a run's own changes to the preset; those of the spec go first.
        """
        from mrafno.surrogate import Ensemble, Point, get_surrogate  # imports torch

        settings: dict[str, Any] = {"preset": preset, "seed": seed, "device": device}
        settings["network"] = {**(network or {}), **self.network_settings}
        settings["training"] = {**(training or {}), **self.training}
        if build := self.build(domain):
            settings["network_factory"] = build
        own = self.inference if isinstance(self.inference, type) else None
        if self.inference == "ensemble" or (own and issubclass(own, Ensemble) and not issubclass(own, Point)):
            settings["members"] = members
        settings |= self.settings
        return own(domain, **settings) if own else get_surrogate(str(self.inference), domain, **settings)

    def load(self, folder: Path, domain: Domain, *, device: str = "auto") -> "Surrogate":
        """A surrogate from its checkpoint."""
        from mrafno.surrogate import Surrogate  # imports torch

        kind = self.inference if isinstance(self.inference, type) else Surrogate
        return kind.load(folder, device=device, network_factory=self.build(domain))

    def build(self, domain: Domain) -> "Callable[[], nn.Module] | None":
        """What builds a member's module; None for the Fourier neural operator."""
        network = self.network
        return None if network is None else lambda: network(domain)

    @property
    def name(self) -> str:
        """The way of inference, or the name of the class."""
        return self.inference if isinstance(self.inference, str) else self.inference.__qualname__

    def as_json(self) -> dict[str, Any]:
        """Names and settings, as JSON values."""
        return {
            "inference": self.name,
            "network": None if self.network is None else getattr(self.network, "__qualname__", "network"),
            "network_settings": dict(self.network_settings),
            "training": dict(self.training),
            "settings": dict(self.settings),
        }
