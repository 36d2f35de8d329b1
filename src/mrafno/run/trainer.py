"""Trains a run's surrogate on what the ledger holds, evaluates it, and keeps its checkpoint.

Fits follow from the ledger bit for bit. The checkpoint only saves time: if it is missing, damaged or old, the fits are
made again.
"""

import copy
import logging
import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.errors import RunError
from mrafno.grids import Array, relative_l2
from mrafno.run.checkpoints import Checkpoints
from mrafno.run.estimation import LARGEST_ERROR, ErrorEstimator
from mrafno.run.fit_curves import append_fit_curve
from mrafno.run.fit_time import FitAhead, fit_seconds
from mrafno.run.level_errors import measured_level_errors
from mrafno.run.methods import Method
from mrafno.run.recorder import Recorder
from mrafno.run.settings import RunSettings
from mrafno.run.state import Evaluation, RunState, Training
from mrafno.surrogate.spec import SurrogateSpec
from mrafno.surrogate.training.policy import LEAST_FOLD, LEAST_OWN, FitKind, TrainingPolicy
from mrafno.tasks.base import Task

if TYPE_CHECKING:
    # They import torch and SciPy, which takes seconds, and whoever only tells an output needs neither.
    from mrafno.analysis.metrics import Metrics
    from mrafno.surrogate.inference.base import Fit, Surrogate
    from mrafno.surrogate.out_of_fold import Watch

logger = logging.getLogger(__name__)

#: Seconds of training after which a checkpoint is worth writing.
_CHECKPOINT_SECONDS = 30.0


class Trainer:
    """Fits, evaluates and saves the surrogate of a run.

    Args:
        recorder: where examples come from and events go to.
        task: the run's task.
        estimator: estimates the error after each fit.
        method: None if the run's method is not built in and was not given: then nothing can be trained.
        write: whether checkpoints may be written.
        device: of the surrogate.
    """

    def __init__(
        self,
        recorder: Recorder,
        task: Task,
        method: Method | None,
        estimator: ErrorEstimator,
        *,
        write: bool = True,
        device: str = "auto",
    ) -> None:
        self.recorder, self.task, self.method, self.estimator = recorder, task, method, estimator
        self.write, self.device = write, device
        self._surrogate: Surrogate | None = None
        self._examples: dict[str, tuple[Array, Array]] = {}
        self._test: tuple[Array, Array] | None = None
        self._unsaved = 0.0
        #: The fit that is about to start or going on, for whoever watches.
        self.ahead: FitAhead | None = None
        #: The surrogate as it was before the fit on new observations that is going on: others may choose by it
        #: meanwhile. None while there is no such fit, and during the first one.
        self.meanwhile: Surrogate | None = None
        #: An earlier surrogate that predicts in place of the last one; None if it is not in memory.
        self._best: Surrogate | None = None
        self._checkpoints = Checkpoints(
            recorder, task.domain, lambda folder: self.spec().load(folder, task.domain, device=device)
        )

    @property
    def state(self) -> RunState:
        """The run's state."""
        return self.recorder.state

    @property
    def settings(self) -> RunSettings:
        """The run's settings."""
        return self.state.settings

    # Training.

    def train(self, kind: FitKind | None = None, watch: "Watch | None" = None) -> Training | None:
        """Train on the observations since the last fit.

        Args:
            kind: of the fit; None for a fit on all examples, from scratch or from the last weights as the policy has
                it.
            watch: called with the progress of training.

        Returns:
            What was recorded; None if there was nothing to train on: no new observations, and the last fit was no
            update.
        """
        new = [query.id for query in self.state.not_trained_on]
        unfinished = kind != "update" and bool(self.state.trainings) and self.state.trainings[-1].kind == "update"
        if not new and not unfinished:
            return None
        surrogate = self._last(watch)
        ids = [*self.state.trained_on, *new]
        kind = kind or self.policy.whole(len(ids))
        if self._new_level(new):
            kind = "scratch"
        if not self.state.trainings or self.settings.retrain == "scratch":
            kind = "scratch"
        elif kind == "scratch" and self._too_short(len(ids)):
            kind = "refit"
        errors = self._prequential_errors(surrogate, new)
        # A copy, as the last one is trained further; its tensors are replaced then, and not changed.
        before = copy.copy(self.best) if self.state.trainings else None
        started = time.perf_counter()
        try:
            self.meanwhile = copy.copy(surrogate) if self.state.trainings else None
            try:
                fit = self._fit(surrogate, ids, kind, watch)
            finally:
                self.meanwhile = None
            worse = before is not None and self._is_worse(surrogate, before, ids)
            seconds = time.perf_counter() - started
            spreads = self.estimator.spreads(surrogate, self.state)
            estimate = self.estimator.estimate(fit, spreads)
            queries = [self.state.queries[id] for id in ids]
            levels = spreads and measured_level_errors(self.task.domain, fit, spreads, queries, self._example)
            self.recorder.record(
                "trained", added=new, step=self.state.step, kind=kind, loss=_number(fit.loss), seconds=seconds,
                out_of_fold_error=_number(fit.out_of_fold_error), estimate=estimate and estimate.as_json(),
                shift=fit.shift, prequential_errors=errors, events=list(fit.events),
                best=before.fits if worse and before is not None else None, level_errors=levels and levels.as_json(),
            )  # fmt: skip
        except BaseException:
            if surrogate.fits != len(self.state.trainings):
                self._surrogate = None  # it was trained on what the ledger does not know of
            raise
        self._best = before if worse else None
        if self.write:
            h, folder = fit.history, self.recorder.ledger.folder
            append_fit_curve(folder, len(self.state.trainings), kind, len(ids), h.steps, h.losses)
        logger.info(
            "fit %d (%s) on %d examples took %.1f s, loss %.4g", surrogate.fits, kind, len(ids), seconds, fit.loss
        )
        self._unsaved += seconds
        if self._unsaved > _CHECKPOINT_SECONDS:
            self.save()
        return self.state.trainings[-1]

    def _is_worse(self, surrogate: "Surrogate", before: "Surrogate", ids: Sequence[str]) -> bool:
        """Whether a fit on these examples made the surrogate clearly worse, by the run's own estimate."""
        from mrafno.surrogate.comparison import clearly_worse  # imports torch

        worse = clearly_worse(surrogate, before, self._dataset(ids))
        if worse:
            logger.info("fit %d is clearly worse than fit %d, which predicts on", surrogate.fits, before.fits)
        return worse

    def _new_level(self, new: Sequence[str]) -> bool:
        """Whether a level gets its own predictions, or its first examples out of fold, by these examples."""
        known, queries = self.state.trained_on, self.state.queries
        for level in range(self.task.levels):
            before, more = (sum(queries[id].level == level for id in ids) for ids in (known, new))
            if any(before < least <= before + more for least in (LEAST_OWN, LEAST_FOLD)):
                return True
        return False

    def _too_short(self, examples: int) -> bool:
        """Whether the run's own number of iterations is less than half of what a start from scratch needs."""
        needed = self.policy.settings("scratch", self.surrogate.training, [examples]).iterations
        return self.settings.iterations is not None and self.settings.iterations < needed / 2

    def _fit(self, surrogate: "Surrogate", ids: Sequence[str], kind: FitKind, watch: "Watch | None") -> "Fit":
        iterations = None if kind == "update" else self.settings.iterations
        data = self._dataset(ids)
        seconds = fit_seconds(surrogate, self.state, kind, data.sizes)
        number = surrogate.fits + 1
        self.ahead = FitAhead(number, len(ids), seconds, again=number <= len(self.state.trainings))
        logger.info("%s%s", self.ahead, "" if seconds is None else f": about {seconds:.0f} s")
        try:
            if watch is not None:
                watch(0.0, math.nan, math.nan)
            return surrogate.fit(data, kind=kind, iterations=iterations, watch=watch)
        finally:
            self.ahead = None

    @property
    def policy(self) -> TrainingPolicy:
        """When a fit happens, and of which kind: the surrogate's policy with the run's own settings."""
        s, policy = self.settings, self.surrogate.policy
        changes: dict[str, Any] = {} if s.refit_growth is None else {"refit_growth": s.refit_growth}
        if s.retrain == "scratch":
            changes["scratch_below"] = sys.maxsize
        return policy.changed(**changes)

    def _prequential_errors(self, surrogate: "Surrogate", ids: Sequence[str]) -> dict[str, float]:
        """Relative errors on examples that the surrogate was not trained on yet, by id."""
        if not surrogate.weights:
            return {}
        found: dict[str, float] = {}
        for level in range(self.task.levels):
            here = [id for id in ids if self.state.queries[id].level == level]
            if here:
                f, y = (np.stack(part) for part in zip(*(self._example(id) for id in here), strict=True))
                mean = surrogate.predict(f, level, check=False).mean
                assert surrogate.normaliser is not None, "a surrogate that predicts has one"
                typical = surrogate.normaliser.typical_norm(y.shape[2:])
                errors = np.fmin(relative_l2(mean, y, typical), LARGEST_ERROR)
                found.update(zip(here, map(float, errors), strict=True))
        return {id: found[id] for id in ids}

    def train_and_evaluate_if_due(self, watch: "Watch | None" = None, *, last: bool = False) -> None:
        """Train if the policy says that it is time, evaluate if it is due; both at the ``last`` step of a run."""
        if self.state.trainings:
            self._last(watch)  # fits that are to be made again are watched too
        kind = self._due()
        if last and kind in (None, "update"):
            # The end of an advance is no reason to start from scratch: a run may be advanced step by step.
            self.train("refit", watch)
        elif kind is not None:
            self.train(kind, watch)
        if (last and self.state.outdated) or self.state.due:
            self.evaluate()

    def _due(self) -> FitKind | None:
        """The fit that is due."""
        state, new = self.state, self.state.queries.new_number
        if not new:
            return None
        kind = self.policy.due(
            trained=len(state.trained_on),
            new=new,
            at_refit=state.trained_at_refit,
            members=self.settings.members,
            first=not state.trainings,
        )
        every = self.settings.update_every
        if kind in (None, "update") and every is not None:
            return "update" if new >= every else None
        return kind

    # Evaluation.

    def evaluate(self) -> Evaluation | None:
        """Evaluate on the test examples and record it; None if there are none."""
        if not self.state.queries.number("test", "told") or not self.state.trainings:
            return None
        started = time.perf_counter()
        metrics = self.metrics(self.best).as_json()
        seconds = time.perf_counter() - started
        self.recorder.record("evaluated", step=self.state.step, cost=self.state.cost, metrics=metrics, seconds=seconds)
        logger.info("step %d, cost %g: relative L2 error %s", self.state.step, self.state.cost, metrics["relative_l2"])
        return self.state.evaluations[-1]

    def metrics(self, surrogate: "Surrogate") -> "Metrics":
        """Metrics of any surrogate on the run's test examples; nothing is recorded."""
        tests = self.state.of_kind("test", "told")
        if not tests:
            raise RunError("run: it has no test examples to evaluate on. Create it with test=1 or more.")
        if self._test is None or len(self._test[0]) != len(tests):
            pairs = [self.recorder.example(record) for record in tests]
            self._test = np.stack([f for f, _ in pairs]), np.stack([y for _, y in pairs])
        from mrafno.analysis.metrics import evaluate  # imports torch

        return evaluate(surrogate, *self._test)

    def examples(self) -> Dataset:
        """All examples that the surrogate was trained on."""
        return self._dataset(self.state.trained_on)

    # The surrogate and its checkpoint.

    @property
    def surrogate(self) -> "Surrogate":
        """The surrogate after the last fit: from its checkpoint, and trained further where that lacks fits."""
        return self._last(None)

    def _last(self, watch: "Watch | None") -> "Surrogate":
        if self._surrogate is None:
            surrogate = self._checkpoints.last() or self._new()
            for number in range(surrogate.fits, len(self.state.trainings)):
                ids = [id for training in self.state.trainings[: number + 1] for id in training.added]
                training = self.state.trainings[number]
                before = copy.copy(surrogate)
                self._fit(surrogate, ids, training.kind, watch)
                self._best = before if training.best == before.fits else self._best
                self._unsaved += training.seconds
            self._surrogate = surrogate
        return self._surrogate

    @property
    def best(self) -> "Surrogate":
        """The surrogate that predicts: the last one, or an earlier one if the fits since made it clearly worse."""
        last, state = self.surrogate, self.state
        fits = state.trainings[-1].best if state.trainings else None
        if fits is None or fits == last.fits:
            return last
        if self._best is None or self._best.fits != fits:
            self._best = self._checkpoints.after(fits)
        return self._best or last

    def spec(self) -> SurrogateSpec:
        """How the surrogate is made."""
        if self.method is None:
            raise RunError(
                f"run {self.recorder.ledger.folder}: its method {self.state.method!r} is not built in. Give it again: "
                "Run.open(path, method=...), or --method FILE.py:NAME on the command line."
            )
        return self.method.spec(self.settings.inference)

    def _new(self) -> "Surrogate":
        s = self.settings
        return self.spec().make(
            self.task.domain,
            preset=s.preset,
            seed=self.state.seed,
            members=s.members,
            device=self.device,
            network=s.network,
            training=s.training,
        )

    def save(self) -> None:
        """Write the surrogate's checkpoint, if it was trained since the last one."""
        if self._surrogate is not None and self._unsaved and self.write:
            self._checkpoints.save(self._surrogate, self.best)
            self._unsaved = 0.0

    def _example(self, id: str) -> tuple[Array, Array]:
        """Input and output of an observed query, each ``(channels, *level's grid)``."""
        if id not in self._examples:
            self._examples[id] = self.recorder.example(self.state.queries[id])
        return self._examples[id]

    def _dataset(self, ids: Sequence[str]) -> Dataset:
        pairs: list[tuple[Array, Array] | None] = []
        for level in range(self.task.levels):
            here = [self._example(id) for id in ids if self.state.queries[id].level == level]
            pairs.append((np.stack([f for f, _ in here]), np.stack([y for _, y in here])) if here else None)
        return Dataset.of(self.task.domain, pairs)


def _number(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None
