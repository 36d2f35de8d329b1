"""Settings of a run, apart from its task and its method; stored with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from mrafno.acquisition.cost import Schedule
from mrafno.errors import RunError, hint
from mrafno.surrogate.options import Inference, Preset

#: ``warm``: as the training policy has it; ``scratch``: every fit from scratch.
Retrain = Literal["warm", "scratch"]

#: Names of settings in version 0.1, and what became of them; None for those that are gone.
_EARLIER_NAMES: dict[str, str | None] = {"refresh": "refit_growth", "brief": "update_every", "first": None}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run.

    Attributes:
        pool: candidates, inputs only; a task with fewer gives what it has. None for all inputs that a task was given,
            and 990 of one that draws any number.
        initial: examples of every level to begin with.
        test: examples of the finest level to evaluate on, never trained on.
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
    initial: int = 10
    test: int = 200
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
            ("initial", 2),
            ("test", 0),
            ("test_seed", 0),
            ("batch", 1),
            ("scoring_points", 2),
            ("members", 2),
            ("evaluate", 1),
            ("retries", 0),
        ):
            _whole(name, getattr(self, name), least)
        for name in ("pool", "targets", "candidates", "update_every", "iterations"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1)
        for name, known in (
            ("schedule", get_args(Schedule)),
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

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def recorded(values: Mapping[str, Any]) -> "RunSettings":
        """From what a ledger holds, which may be that of an earlier version."""
        kept = {name: value for name, value in values.items() if _EARLIER_NAMES.get(name, name) is not None}
        return RunSettings(**{_EARLIER_NAMES.get(name) or name: value for name, value in kept.items()})

    @staticmethod
    def of(**values: Any) -> "RunSettings":
        """From values by name; an unknown name is an error that tells the nearest known one."""
        known = [f.name for f in fields(RunSettings)]
        for name in values:
            if name not in known:
                raise RunError(f"settings: unknown setting {name!r}. {hint(name, known)}")
        return RunSettings(**values)


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RunError(f"settings: {name} must be a whole number, {least} or more, got {value!r}.")
