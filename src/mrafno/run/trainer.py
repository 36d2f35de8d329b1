"""Trains a run's surrogate on what the ledger holds, evaluates it, and keeps its checkpoint.

Fits follow from the ledger bit for bit. The checkpoint only saves time: if it is missing, damaged or old, the fits are
made again.
"""

import logging
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.errors import CheckpointError, RunError
from mrafno.grids import Array, relative_l2
from mrafno.run.methods import Method
from mrafno.run.recorder import Recorder
from mrafno.run.settings import RunSettings
from mrafno.run.state import Evaluation, RunState, Training
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION, WEIGHTS
from mrafno.surrogate.spec import SurrogateSpec
from mrafno.tasks.base import Task

if TYPE_CHECKING:
    # They import torch and SciPy, which takes seconds, and whoever only tells an output needs neither.
    from mrafno.analysis.metrics import Metrics
    from mrafno.surrogate.inference.base import Fit, Surrogate
    from mrafno.surrogate.out_of_fold import Watch

logger = logging.getLogger(__name__)

#: Seconds of training after which a checkpoint is worth writing.
_CHECKPOINT_SECONDS = 30.0
#: Examples from which on whole fits start from the last weights. Weights that were fitted to fewer are a bad start:
#: training from there stays behind training from scratch.
_FEW = 200
#: Larger relative errors only say that an output is close to zero.
_LARGEST = 10.0


class Trainer:
    """Fits, evaluates and saves the surrogate of a run.

    Args:
        recorder: where examples come from and events go to.
        task: the run's task.
        method: None if the run's method is somebody's own and was not given: then nothing can be trained.
        write: whether checkpoints may be written.
        device: of the surrogate.
    """

    def __init__(
        self, recorder: Recorder, task: Task, method: Method | None, *, write: bool = True, device: str = "auto"
    ) -> None:
        self.recorder, self.task, self.method, self.write, self.device = recorder, task, method, write, device
        self._surrogate: Surrogate | None = None
        self._examples: dict[str, tuple[Array, Array]] = {}
        self._test: tuple[Array, Array] | None = None
        self._unsaved = 0.0

    @property
    def state(self) -> RunState:
        """The run's state."""
        return self.recorder.state

    @property
    def settings(self) -> RunSettings:
        """The run's settings."""
        return self.state.settings

    # Training.

    def train(self, watch: "Watch | None" = None, *, brief: bool = False, last: bool = False) -> Training | None:
        """Train on the observations since the last fit; None if there are none.

        A whole fit on few examples starts from scratch, unless it is only made because it is the ``last`` or its number
        of iterations is set too low for that. The last fit is made without new observations, too, if a brief fit was
        before.
        """
        new = [query.id for query in self.state.not_trained_on]
        unfinished = last and bool(self.state.trainings) and self.state.trainings[-1].brief
        if not new and not unfinished:
            return None
        surrogate = self.surrogate
        ids, number = [*self.state.trained_on, *new], len(self.state.trainings)
        continued = brief or last or len(ids) >= _FEW or self._short(surrogate, ids)
        from_scratch = self.settings.retrain == "scratch" or not number or not continued
        errors = self._prequential_errors(surrogate, new)
        started = time.perf_counter()
        try:
            fit = self._fit(surrogate, ids, number, brief, from_scratch, watch)
            seconds = time.perf_counter() - started
            self.recorder.record(
                "trained", added=new, step=self.state.step, loss=_number(fit.loss), seconds=seconds,
                out_of_fold_error=_number(fit.out_of_fold_error), out_of_fold_bound=_number(fit.out_of_fold_bound),
                shift=fit.shift, prequential_errors=errors, events=list(fit.events), brief=brief,
                from_scratch=from_scratch,
            )  # fmt: skip
        except BaseException:
            if surrogate.fits != len(self.state.trainings):
                self._surrogate = None  # it was trained on what the ledger does not know of
            raise
        logger.info("fit %d on %d examples took %.1f s, loss %.4g", number + 1, len(ids), seconds, fit.loss)
        self._unsaved += seconds
        if self._unsaved > _CHECKPOINT_SECONDS:
            self.save()
        return self.state.trainings[-1]

    def _short(self, surrogate: "Surrogate", ids: Sequence[str]) -> bool:
        """Whether whole fits are set to less than half of the iterations that a start from scratch needs."""
        levels = [self.state.queries[id].level for id in ids]
        sizes = [levels.count(level) for level in range(self.task.levels)]
        needed = surrogate.training.of_fit(sizes, warm=False, brief=True).iterations
        return self.settings.iterations is not None and self.settings.iterations < needed / 2

    def _fit(
        self,
        surrogate: "Surrogate",
        ids: Sequence[str],
        number: int,
        brief: bool,
        from_scratch: bool,
        watch: "Watch | None",
    ) -> "Fit":
        """The fit with this number, from 0."""
        data, s = self._dataset(ids), self.settings
        if brief and s.retrain == "warm":
            return surrogate.fit(data, warm=True, brief=True, watch=watch)
        iterations = s.iterations if number else s.first or s.iterations
        if s.retrain == "scratch":
            return surrogate.fit(data, iterations=iterations, watch=watch)
        return surrogate.fit(data, warm=not from_scratch, brief=from_scratch, iterations=iterations, watch=watch)

    def _prequential_errors(self, surrogate: "Surrogate", ids: Sequence[str]) -> dict[str, float]:
        """Relative errors on examples that the surrogate was not trained on yet, by id."""
        if not surrogate.weights:
            return {}
        found: dict[str, float] = {}
        for level in range(self.task.levels):
            here = [id for id in ids if self.state.queries[id].level == level]
            if here:
                f, y = (np.stack(part) for part in zip(*(self._example(id) for id in here), strict=True))
                mean = surrogate.predict(f, level).mean
                assert surrogate.normaliser is not None, "a surrogate that predicts has one"
                typical = surrogate.normaliser.typical_norm(y.shape[2:])
                errors = np.fmin(relative_l2(mean, y, typical), _LARGEST)
                found.update(zip(here, map(float, errors), strict=True))
        return {id: found[id] for id in ids}

    def _grown(self) -> bool:
        """Whether the examples have grown, in number or in cost, by enough for a whole fit."""
        whole = max((number for number, fit in enumerate(self.state.trainings, 1) if not fit.brief), default=0)
        ids = [id for training in self.state.trainings[:whole] for id in training.added]
        old = [self.state.queries[id] for id in ids]
        new = [self.state.queries[id] for id in self.state.trained_on[len(ids) :]] + self.state.not_trained_on
        if not new or not self.state.not_trained_on:
            return False
        share = self.settings.refresh
        more = len(new) > share * len(old)
        return more or math.fsum(q.cost for q in new) > share * math.fsum(q.cost for q in old)

    def train_and_evaluate_if_due(self, watch: "Watch | None" = None, *, last: bool = False) -> None:
        """Train if there is enough new to train on, evaluate if it is time; both at the ``last`` step of a run."""
        grown = self._grown()
        if last or grown:
            self.train(watch, last=not grown)
        elif len(self.state.not_trained_on) >= self.settings.new_examples(len(self.state.trained_on)):
            self.train(watch, brief=True)
        if (last and self.state.outdated) or self.state.due:
            self.evaluate()

    # Evaluation.

    def evaluate(self) -> Evaluation | None:
        """Evaluate on the test examples and record it; None if there are none."""
        if not self.state.of_kind("test", "told") or not self.state.trainings:
            return None
        started = time.perf_counter()
        metrics = self.metrics(self.surrogate).as_json()
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
        if self._surrogate is None:
            surrogate = self._saved() or self._new()
            for number in range(surrogate.fits, len(self.state.trainings)):
                ids = [id for training in self.state.trainings[: number + 1] for id in training.added]
                training = self.state.trainings[number]
                self._fit(surrogate, ids, number, training.brief, training.from_scratch or not number, None)
                self._unsaved += self.state.trainings[number].seconds
            self._surrogate = surrogate
        return self._surrogate

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

    def _saved(self) -> "Surrogate | None":
        """The surrogate of the checkpoint, if there is one that fits the ledger."""
        folder = self.recorder.ledger.folder / CHECKPOINT
        if not os.path.lexists(folder):
            return None
        try:
            for path in (folder, folder / DESCRIPTION, *folder.glob(WEIGHTS)):
                _refuse_link(path)
            surrogate = self.spec().load(folder, self.task.domain, device=self.device)
        except CheckpointError as error:
            self.recorder.ledger.damage.append(f"{error} Trained again from the ledger.")
            logger.warning("%s Trained again from the ledger.", error)
            return None
        known = 0 < surrogate.fits <= len(self.state.trainings)
        # The ledger has the calibration's shift to its last digit: that of another run, or another past, differs.
        ours = known and surrogate.shift == self.state.trainings[surrogate.fits - 1].shift
        return surrogate if ours and (surrogate.domain, surrogate.seed) == (self.task.domain, self.state.seed) else None

    def save(self) -> None:
        """Write the surrogate's checkpoint, if it was trained since the last one."""
        if self._surrogate is not None and self._unsaved and self.write:
            folder = self.recorder.ledger.folder / CHECKPOINT
            _refuse_link(folder)
            self._surrogate.save(folder)
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


def _refuse_link(path: Path) -> None:
    """Raise if a checkpoint, or a part of it, is a link: files outside the run are neither read nor written."""
    if path.is_symlink():
        raise CheckpointError(f"checkpoint: {path} is a symbolic link, which is not followed. Remove it.")


def _number(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None
