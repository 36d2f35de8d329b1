r"""Methods: an acquisition, a mesh rule and a surrogate under one name.

============  ===================  ===============  ========  ======================================================
name          acquisition          mesh rule        per cost  what it does
============  ===================  ===============  ========  ======================================================
mra-u         u                    none             yes       information on the same input's finest output
mra-uhat      u-hat                none             yes       mean information on all inputs' finest outputs
mr-predvar    predictive variance  none             yes       mean variance of the output values
mr-dropout    u-hat                none             yes       as mra-uhat, with MC dropout in place of the ensemble
random-\*     random               none             no        any input with the same probability
coreset-\*    coreset              none             no        the input farthest from those already used
lcmd-\*       lcmd                 none             no        the input farthest from those used where most are far
mra-auto      by level             multilevel gain  no        first the mesh with the largest gain per cost
============  ===================  ===============  ========  ======================================================

``*`` is ``low`` (the coarsest mesh), ``high`` (the finest) or ``mix`` (all). Those above LCMD are of Li et al. (2024).
``mra-auto`` has no rate to tune, see :mod:`mrafno.acquisition.mesh_rule`; on the coarsest mesh its input is that of
LCMD, with distances relative to predicted outputs, and on finer ones a typical input. A method of one's own is one more
such object:

.. code-block:: python

    run = Run.create(path, task, method=Method(acquisition=Greedy(), name="greedy"))
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from mrafno.acquisition.base import Acquisition, MeshRule
from mrafno.acquisition.baselines import Coreset, LargestClusterMaxDist, RandomChoice
from mrafno.acquisition.informative import Information, PredictiveVariance
from mrafno.acquisition.mesh_rule import MultilevelGain
from mrafno.acquisition.typical import ByLevel, Typical
from mrafno.errors import AcquisitionError, RunError, hint
from mrafno.run.settings import RunSettings
from mrafno.surrogate.options import Inference
from mrafno.surrogate.spec import SurrogateSpec
from mrafno.tasks.base import Task
from mrafno.tasks.stored import is_builtin


@dataclass(frozen=True, kw_only=True)
class Method:
    """How the next query is chosen, and by which surrogate.

    Attributes:
        acquisition: scores candidates at every level; see :class:`mrafno.acquisition.base.Acquisition`.
        mesh_rule: decides on the level; None to choose input and level together by the largest score.
        surrogate: a way of inference by name, or a :class:`~mrafno.surrogate.spec.SurrogateSpec` with a network,
            training settings or a surrogate class of one's own.
        name: what the run, its pages and its messages call it; by default the acquisition's name.
        divide_by_cost: divide scores, which must not be negative, by the costs as the run's schedule weights them.
    """

    acquisition: Acquisition
    mesh_rule: MeshRule | None = None
    surrogate: Inference | SurrogateSpec = "ensemble"
    name: str = ""
    divide_by_cost: bool = False

    def __post_init__(self) -> None:
        for what, part, call in (("acquisition", self.acquisition, "score"), ("mesh_rule", self.mesh_rule, "gains")):
            if part is None and what == "mesh_rule":
                continue
            if isinstance(part, type) or not callable(getattr(part, call, None)):
                raise AcquisitionError(
                    f"method: {what} must be an object with the method {call}(context, chosen), got {part!r}."
                    + (" Give an instance, not the class." if isinstance(part, type) else "")
                )
            if not isinstance(getattr(part, "name", None), str):
                raise AcquisitionError(f"method: the {what} {part!r} needs an attribute `name`, a short text.")
        if not isinstance(self.name, str):
            raise AcquisitionError(f"method: the name must be a text, got {self.name!r}.")
        if not self.name:
            object.__setattr__(self, "name", self.acquisition.name)

    def spec(self, inference: Inference | None = None) -> SurrogateSpec:
        """The surrogate, by another way of inference if one is given; an error if the method cannot choose by it."""
        own = self.surrogate if isinstance(self.surrogate, SurrogateSpec) else SurrogateSpec(inference=self.surrogate)
        if inference is not None and isinstance(self.surrogate, SurrogateSpec):
            raise RunError(f"method {self.name!r}: it brings a surrogate of its own. Leave the setting inference out.")
        spec = own if inference is None else SurrogateSpec(inference=inference)
        if spec.inference == "point" and getattr(self.acquisition, "needs_samples", False):
            raise AcquisitionError(
                f"{self.name}: its acquisition compares the samples of a prediction, and point has one. "
                "Choose ensemble, dropout, sgld or svi, or a random, coreset or lcmd method."
            )
        return spec

    def as_json(self) -> dict[str, Any]:
        """Names and parameters of the parts, as JSON values: what a run records, and checks when it is opened again."""
        surrogate = self.surrogate.as_json() if isinstance(self.surrogate, SurrogateSpec) else self.surrogate
        return {
            "name": self.name,
            "acquisition": _described(self.acquisition),
            "mesh_rule": None if self.mesh_rule is None else _described(self.mesh_rule),
            "surrogate": surrogate,
            "divide_by_cost": self.divide_by_cost,
        }


def _described(part: Any) -> dict[str, Any]:
    """Class, name and parameters of an acquisition or mesh rule."""
    names = [f.name for f in fields(part)] if is_dataclass(part) else [n for n in vars(part) if not n.startswith("_")]
    parameters = {name: _plain(getattr(part, name)) for name in sorted(names) if name != "name"}
    return {"class": type(part).__qualname__, "name": part.name, "parameters": parameters}


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON does not have, by the name of its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return f"<{type(value).__qualname__}>"


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(name="mra-u", acquisition=Information("own"), divide_by_cost=True),
        Method(name="mra-uhat", acquisition=Information("all"), divide_by_cost=True),
        Method(
            name="mra-auto",
            acquisition=ByLevel(LargestClusterMaxDist("low", relative=True), Typical()),
            mesh_rule=MultilevelGain(),
        ),
        Method(name="mr-predvar", acquisition=PredictiveVariance(), divide_by_cost=True),
        Method(name="mr-dropout", acquisition=Information("all"), surrogate="dropout", divide_by_cost=True),
        Method(name="random-low", acquisition=RandomChoice("low")),
        Method(name="random-high", acquisition=RandomChoice("high")),
        Method(name="random-mix", acquisition=RandomChoice("mix")),
        Method(name="coreset-low", acquisition=Coreset("low")),
        Method(name="coreset-high", acquisition=Coreset("high")),
        Method(name="coreset-mix", acquisition=Coreset("mix")),
        Method(name="lcmd-low", acquisition=LargestClusterMaxDist("low")),
        Method(name="lcmd-high", acquisition=LargestClusterMaxDist("high")),
        Method(name="lcmd-mix", acquisition=LargestClusterMaxDist("mix")),
    )
}


def get_method(name: str) -> Method:
    """The built-in method with this name."""
    if name not in METHODS:
        raise AcquisitionError(f"unknown method {name!r}. {hint(name, list(METHODS))}")
    return METHODS[name]


def settings_of(task: Task, method: Method, settings: Mapping[str, Any]) -> RunSettings:
    """Settings of a new run by name, with the values that depend on its task and method."""
    few, builtin = method.mesh_rule is not None, is_builtin(task)
    return RunSettings.of(**settings).resolved(levels=task.levels, few=few, builtin=builtin)


def method_of_run(name: str, recorded: dict[str, Any] | None, given: Method | None, where: str) -> Method | None:
    """The method of a run that is opened: a built-in one by its name, another one if it is given and the same.

    Args:
        recorded: names and parameters of a method that is not built in, as of :meth:`Method.as_json`; None otherwise.
        given: what the caller has; None if nothing is to be chosen.
        where: what error messages begin with.
    """
    if recorded is None:
        if given is not None and given is not METHODS.get(name):
            raise RunError(f"{where}: its method is {name}, which is built in. Leave method out.")
        return get_method(name)
    if given is None:
        return None
    now = given.as_json()
    different = [part for part in recorded if now.get(part) != recorded[part]]
    if different:
        changes = "; ".join(f"{part} was {recorded[part]!r}, now {now.get(part)!r}" for part in different)
        raise RunError(
            f"{where}: the method is not the one that the run was created with: {changes}. Give the same method, or "
            "create a new run."
        )
    return given
