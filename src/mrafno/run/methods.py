r"""Ways to choose the next example, as one table: who infers, what is worth asking, on which meshes, at which costs.

============  =========  ========  ======  =========================================================================
name          inference  utility   levels  what it does
============  =========  ========  ======  =========================================================================
mra-u         ensemble   u         all     information on the same input's finest output, per scheduled cost
mra-uhat      ensemble   u-hat     all     mean information on the other inputs' finest outputs, per scheduled cost
mr-predvar    ensemble   predvar   all     predictive variance per scheduled cost
mr-dropout    dropout    u-hat     all     as mra-uhat, with the samples of MC dropout in place of members
random-*      ensemble   random    \*        any input, by chance
coreset-*     ensemble   coreset   \*        the input farthest from those already used
mra-auto      ensemble   auto      all     the mesh whose next example lowers the error most per cost, its best u-hat
============  =========  ========  ======  =========================================================================

``*`` is ``low`` (the coarsest mesh), ``high`` (the finest) or ``mix`` (all). The first ten are those of Li et al.
(2024); ``mra-auto`` has no rate to tune, see :mod:`mrafno.acquisition.mesh_rule`.
"""

from dataclasses import dataclass
from typing import Literal

from mrafno.errors import AcquisitionError
from mrafno.surrogate.options import Inference

Levels = Literal["low", "high", "mix"]


@dataclass(frozen=True)
class Method:
    """How the next example is chosen.

    Attributes:
        inference: name of the surrogate, see :mod:`mrafno.surrogate`, unless a run is set to another.
        utility: what a candidate at a level is worth.
        levels: the meshes it may ask for.
        scheduled: whether utilities are divided by scheduled costs.
    """

    name: str
    inference: Inference
    utility: Literal["u", "u-hat", "predvar", "random", "coreset", "auto"]
    levels: Levels = "mix"
    scheduled: bool = True

    def allowed(self, resolutions: int) -> tuple[int, ...]:
        """The levels it may ask for, of ``resolutions`` levels."""
        return {"low": (0,), "high": (resolutions - 1,), "mix": tuple(range(resolutions))}[self.levels]

    def inferred(self, chosen: Inference | None) -> Inference:
        """The way of inference: the chosen one, if this method can choose by it, or its own."""
        if chosen == "point" and self.utility not in ("random", "coreset"):
            raise AcquisitionError(
                f"{self.name}: information is measured between the samples of a prediction, and point has one. "
                "Choose ensemble, dropout, sgld or svi, or a random or coreset method."
            )
        return chosen or self.inference


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("mra-u", "ensemble", "u"),
        Method("mra-uhat", "ensemble", "u-hat"),
        Method("mra-auto", "ensemble", "auto", scheduled=False),
        Method("mr-predvar", "ensemble", "predvar"),
        Method("mr-dropout", "dropout", "u-hat"),
        Method("random-low", "ensemble", "random", "low", scheduled=False),
        Method("random-high", "ensemble", "random", "high", scheduled=False),
        Method("random-mix", "ensemble", "random", "mix", scheduled=False),
        Method("coreset-low", "ensemble", "coreset", "low", scheduled=False),
        Method("coreset-high", "ensemble", "coreset", "high", scheduled=False),
        Method("coreset-mix", "ensemble", "coreset", "mix", scheduled=False),
    )
}


def get_method(name: str) -> Method:
    """The method with this name."""
    if name not in METHODS:
        raise AcquisitionError(f"unknown method {name!r}. The known ones are {', '.join(METHODS)}.")
    return METHODS[name]
