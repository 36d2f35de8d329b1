"""The methods of inference by name. A class is imported when it is looked up, so the names need no PyTorch."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrafno.errors import SurrogateError, hint
from mrafno.grids import Domain

if TYPE_CHECKING:
    from mrafno.surrogate.inference.base import Surrogate

#: For each name the module and the class.
_CLASSES = {
    "ensemble": ("mrafno.surrogate.inference.ensemble", "Ensemble"),
    "point": ("mrafno.surrogate.inference.point", "Point"),
    "dropout": ("mrafno.surrogate.inference.dropout", "Dropout"),
    "sgld": ("mrafno.surrogate.inference.sgld", "Langevin"),
    "svi": ("mrafno.surrogate.inference.svi", "Variational"),
}


class _Surrogates(Mapping[str, "type[Surrogate]"]):
    """A read-only dict of classes that imports a class when it is looked up."""

    def __getitem__(self, name: str) -> "type[Surrogate]":
        module, kind = _CLASSES[name]
        found: type[Surrogate] = getattr(import_module(module), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


#: The surrogate classes of the package by the names of their methods of inference.
SURROGATES: Mapping[str, "type[Surrogate]"] = _Surrogates()


def get_surrogate(name: str, domain: Domain, **settings: Any) -> "Surrogate":
    """Construct a surrogate by the name of its method of inference; ``settings`` go to the constructor."""
    if name not in SURROGATES:
        raise SurrogateError(f"unknown inference {name!r}. The known ones are {', '.join(SURROGATES)}.")
    kind = SURROGATES[name]
    known = kind.setting_names()
    for setting in settings:
        if setting not in known:
            raise SurrogateError(f"{name}: unknown setting {setting!r}. {hint(setting, sorted(known))}")
    return kind(domain, **settings)
