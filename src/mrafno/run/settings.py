"""Settings of a run, apart from its task and its method; stored with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from mrafno.acquisition.cost import Schedule
from mrafno.errors import RunError, hint
from mrafno.surrogate.options import Inference, Preset

#: ``warm``: as the training policy has it; ``scratch``: every fit from scratch.
Retrain = Literal["warm", "scratch"]

#: Inputs of their own for initial examples, or candidates that are typical of all.
Design = Literal["random", "spread"]
#: Initial examples of every level, and of the coarsest and each finer one where a method needs a few only; test
#: examples of a built-in task.
USUAL_INITIAL, FEW_COARSE, FEW_FINER, USUAL_TEST = 10, 10, 2, 200

#: Names of settings in version 0.1, and what became of them; None for those that are gone.
_EARLIER_NAMES: dict[str, str | None] = {"refresh": "refit_growth", "brief": "update_every", "first": None}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run.

    Attributes:
        pool: candidates, inputs only; a task with fewer gives what it has. None for all inputs that a task was given,
            and 990 of one that draws any number.
        initial: examples to begin with: a number for every level, or one number per level, coarse to fine; 0 is
            allowed. None for the method's own: a few where the method decides on the mesh, 10 of each otherwise.
        design: where their inputs come from: ``random``, inputs of their own, the same for every method; or
            ``spread``, candidates that are typical of all, the same ones on every level. None for ``spread`` where
            initial is left to a method that decides on the mesh, ``random`` otherwise.
        test: examples of the finest level to evaluate on, never trained on. None for 200 of a built-in task, and 0 of
            any other one.
        test_seed: where they come from, of a task that draws endlessly: the same for every run's seed. Whoever compares
            settings takes another one, so that what is reported was not chosen by it.
        batch: queries that are asked together.
        schedule: how costs come in: ``exp``, ``sigmoid`` or ``constant``.
        alpha: the schedule's rate.
        renormalise: whether scheduled costs are divided by their sum.
        targets: candidates that u-hat averages over, drawn again at each step; None for all that remain.
        candidates: candidates that are scored at each step, drawn at random where more remain; None for all that
            remain. See :mod:`mrafno.run.screening`.
        scoring_points: grid points, in all, on which candidates are compared: Gram matrices and distances are
            integrals, which a few hundred points give well enough.
        inference: of the surrogate: ``ensemble``, ``point``, ``dropout``, ``sgld`` or ``svi``; None for the method's
            own. ``point`` has one sample, so only random, coreset and LCMD methods can choose with it.
        preset: of the surrogate, ``fast`` or ``paper``.
        network: changes to the preset's network, by name; see
            :class:`~mrafno.surrogate.operator.fno.NetworkSettings`.
        training: changes to the preset's training, by name.
        members: of the ensemble.
        retrain: ``warm``, as the training policy has it: from scratch on few examples, later from the last weights; or
            ``scratch``, from scratch at every fit.
        refit_growth: growth of the number of examples, as a share, after which all of them are fitted again; None for
            the training policy's.
        update_every: new observations after which a short fit updates the surrogate; None for the training policy's.
            Until then choices are conditioned on them, as on queries that are running.
        iterations: of each fit that is no update; None for the training policy's number.
        evaluate: steps between measurements on the test examples.
        retries: how often an input is asked for again after its simulation failed.
        lease: seconds after which a query without an answer expires and can be asked for again; None for never.
    """

    pool: int | None = None
    initial: int | tuple[int, ...] | None = None
    design: Design | None = None
    test: int | None = None
    test_seed: int = 10_000
    batch: int = 1
    schedule: Schedule = "exp"
    alpha: float = 0.01
    renormalise: bool = True
    targets: int | None = None
    candidates: int | None = 1000
    scoring_points: int = 256
    inference: Inference | None = None
    preset: Preset = "fast"
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    members: int = 5
    retrain: Retrain = "warm"
    refit_growth: float | None = None
    update_every: int | None = None
    iterations: int | None = None
    evaluate: int = 10
    retries: int = 1
    lease: float | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("test_seed", 0),
            ("batch", 1),
            ("scoring_points", 2),
            ("members", 2),
            ("evaluate", 1),
            ("retries", 0),
        ):
            _whole(name, getattr(self, name), least)
        for count in self.initial if isinstance(self.initial, tuple) else (self.initial,):
            if count is not None:
                _whole("initial", count, 0)
        if self.initial in (0, ()) or (isinstance(self.initial, tuple) and not any(self.initial)):
            raise RunError(f"settings: initial must be 1 or more on some level, got {self.initial!r}.")
        if self.test is not None:
            _whole("test", self.test, 0)
        for name in ("pool", "targets", "candidates", "update_every", "iterations"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1)
        for name, known in (
            ("schedule", get_args(Schedule)),
            ("design", (*get_args(Design), None)),
            ("inference", (*get_args(Inference), None)),
            ("preset", get_args(Preset)),
            ("retrain", get_args(Retrain)),
        ):
            if getattr(self, name) not in known:
                names = ", ".join(map(str, known))
                raise RunError(f"settings: unknown {name} {getattr(self, name)!r}. Choose one of {names}.")
        if not (_real(self.alpha) and self.alpha >= 0):
            raise RunError(f"settings: alpha must be 0 or more, got {self.alpha!r}.")
        if self.refit_growth is not None and not (_real(self.refit_growth) and self.refit_growth >= 0):
            raise RunError(f"settings: refit_growth must be 0 or more, or None, got {self.refit_growth!r}.")
        for name in ("network", "training"):
            value = getattr(self, name)
            if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
                raise RunError(f"settings: {name} is a dictionary of settings by name, got {value!r}.")
        if not isinstance(self.renormalise, bool):
            raise RunError(f"settings: renormalise is True or False, got {self.renormalise!r}.")
        if self.lease is not None and not (_real(self.lease) and self.lease > 0):
            raise RunError(f"settings: a lease is a positive number of seconds or None, got {self.lease!r}.")

    def resolved(self, *, levels: int, few: bool, builtin: bool) -> "RunSettings":
        """The settings with a value for each that depends on the run: what a new run records.

        Args:
            levels: of the task.
            few: whether the method needs a few initial examples only.
            builtin: whether the task is built in.
        """
        initial: int | tuple[int, ...]
        if self.initial is None:
            initial = (FEW_COARSE, *[FEW_FINER] * (levels - 1)) if few and levels > 1 else USUAL_INITIAL
        else:
            initial = self.initial
        if isinstance(initial, tuple) and len(initial) != levels:
            raise RunError(
                f"settings: initial {initial} has {len(initial)} numbers, the task has {levels} levels. Give one "
                "number per level, coarse to fine, or one for all."
            )
        design: Design = "spread" if few and self.initial is None else "random"
        test = (USUAL_TEST if builtin else 0) if self.test is None else self.test
        return replace(self, initial=initial, design=self.design or design, test=test)

    def initial_of(self, levels: int) -> tuple[int, ...]:
        """Initial examples of each level, those that a run is given included."""
        initial = USUAL_INITIAL if self.initial is None else self.initial
        return initial if isinstance(initial, tuple) else (initial,) * levels

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def recorded(values: Mapping[str, Any]) -> "RunSettings":
        """From what a ledger holds, which may be that of an earlier version."""
        kept = {name: value for name, value in values.items() if _EARLIER_NAMES.get(name, name) is not None}
        found = {_EARLIER_NAMES.get(name) or name: value for name, value in kept.items()}
        if isinstance(found.get("initial"), list):
            found["initial"] = tuple(found["initial"])
        return RunSettings(**{"design": "random", **found})  # versions 0.1 and 0.2 had no other

    @staticmethod
    def of(**values: Any) -> "RunSettings":
        """From values by name; an unknown name is an error that tells the nearest known one."""
        known = [f.name for f in fields(RunSettings)]
        for name in values:
            if name not in known:
                raise RunError(f"settings: unknown setting {name!r}. {hint(name, known)}")
        if isinstance(values.get("initial"), list):
            values["initial"] = tuple(values["initial"])
        return RunSettings(**values)


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RunError(f"settings: {name} must be a whole number, {least} or more, got {value!r}.")
