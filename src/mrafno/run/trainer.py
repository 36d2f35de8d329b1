"""What a run learns from its ledger: fits, checkpoints, measurements.

Fits follow from the ledger bit for bit. The checkpoint beside it saves making them again: one that is missing, damaged
or old costs time and nothing else.
"""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.errors import CheckpointError, RunError
from mrafno.grids import Array, relative_l2
from mrafno.run.methods import get_method
from mrafno.run.state import Evaluation, RunState, Training
from mrafno.storage.ledger import Ledger
from mrafno.tasks.base import Task

if TYPE_CHECKING:
    # Torch and SciPy take seconds to load, and whoever only tells an output needs neither.
    from mrafno.analysis.metrics import Metrics
    from mrafno.surrogate import Surrogate
    from mrafno.surrogate.inference.base import Fit
    from mrafno.surrogate.out_of_fold import Watch

#: Where the surrogate's checkpoint is, inside the run directory.
CHECKPOINT = "surrogate"
#: Seconds of training after which a checkpoint is worth writing.
_CHECKPOINT_SECONDS = 30.0
#: Examples from which on whole fits go on from the last weights. Weights that know fewer by heart are a bad beginning:
#: what is learnt from there stays behind what fresh ones learn in as many iterations.
_FEW = 200
#: Relative errors that are larger say only that an output is next to nothing.
_LARGEST = 10.0


class Learning:
    """A ledger, the state that it replays to, and the surrogate that has learnt from it."""

    def __init__(self, ledger: Ledger, task: Task, *, write: bool) -> None:
        self.ledger = ledger
        self.writes = write
        self.state = RunState.of(ledger.events)
        self.task = task
        self.method = get_method(self.state.method)
        self.settings = self.state.settings
        self._surrogate: Surrogate | None = None
        self._examples: dict[str, tuple[Array, Array]] = {}
        self._test: tuple[Array, Array] | None = None
        self._unsaved = 0.0

    def train(self, watch: "Watch | None" = None, *, brief: bool = False, last: bool = False) -> Training | None:
        """Learn from what was told since the last time, or ``brief``ly take it in; None if there is nothing new.

        A whole fit on few examples begins anew, but not one that is only made because it is the ``last``, or too short.
        The last one is made without anything new, too, where a brief fit took in what is known.
        """
        new = [query.id for query in self.state.not_trained_on]
        unfinished = last and bool(self.state.trainings) and self.state.trainings[-1].brief
        if not new and not unfinished:
            return None
        surrogate = self.surrogate
        ids, number = [*self.state.trained_on, *new], len(self.state.trainings)
        going_on = brief or last or len(ids) >= _FEW or self._short(surrogate, ids)
        from_scratch = self.settings.retrain == "scratch" or not number or not going_on
        prequential_errors = self._prequential_errors(surrogate, new)
        started = time.perf_counter()
        try:
            fit = self._fit(surrogate, ids, number, brief, from_scratch, watch)
            seconds = time.perf_counter() - started
            self._append(
                "trained", added=new, step=self.state.step, loss=_number(fit.loss), seconds=seconds,
                out_of_fold_error=_number(fit.out_of_fold_error), out_of_fold_bound=_number(fit.out_of_fold_bound),
                shift=fit.shift,
                prequential_errors=prequential_errors, events=list(fit.events), brief=brief, from_scratch=from_scratch,
            )  # fmt: skip
        except BaseException:
            if surrogate.fits != len(self.state.trainings):
                self._surrogate = None  # it has learnt what the ledger does not know of
            raise
        self._unsaved += seconds
        if self._unsaved > _CHECKPOINT_SECONDS:
            self.save()
        return self.state.trainings[-1]

    def _short(self, surrogate: "Surrogate", ids: Sequence[str]) -> bool:
        """Whether whole fits are set to be too short for beginning anew: less than half of what that takes."""
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
        """Relative errors on examples that were not learnt from yet."""
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
        """Whether the examples have grown, in number or in cost, by enough to learn anew from all of them."""
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
        """Learn if there is enough new to learn from, measure if it is time; both at the ``last`` step of a run."""
        grown = self._grown()
        if last or grown:
            self.train(watch, last=not grown)
        elif len(self.state.not_trained_on) >= self.settings.new_examples(len(self.state.trained_on)):
            self.train(watch, brief=True)
        if (last and self.state.outdated) or self.state.due:
            self.evaluate()

    def evaluate(self) -> Evaluation | None:
        """Measure on the test examples; None if there are none."""
        if not self.state.of_kind("test", "told") or not self.state.trainings:
            return None
        started = time.perf_counter()
        metrics = self.measured(self.surrogate).as_json()
        seconds = time.perf_counter() - started
        self._append("evaluated", step=self.state.step, cost=self.state.cost, metrics=metrics, seconds=seconds)
        return self.state.evaluations[-1]

    def measured(self, surrogate: "Surrogate") -> "Metrics":
        """Any surrogate on this run's test examples; nothing is recorded."""
        tests = self.state.of_kind("test", "told")
        if not tests:
            raise RunError("run: it has no test examples to measure on. Create it with test=1 or more.")
        if self._test is None or len(self._test[0]) != len(tests):
            pairs = [self._example(q.id, keep=False) for q in tests]
            self._test = np.stack([f for f, _ in pairs]), np.stack([y for _, y in pairs])
        from mrafno.analysis.metrics import evaluate

        return evaluate(surrogate, *self._test)

    def examples(self) -> Dataset:
        """All examples that the surrogate has learnt from."""
        return self._dataset(self.state.trained_on)

    @property
    def surrogate(self) -> "Surrogate":
        """The surrogate after the last training: from its checkpoint, and what that lacks learnt again."""
        if self._surrogate is None:
            surrogate = self._saved() or self._blank()
            for number in range(surrogate.fits, len(self.state.trainings)):
                ids = [id for training in self.state.trainings[: number + 1] for id in training.added]
                training = self.state.trainings[number]
                self._fit(surrogate, ids, number, training.brief, training.from_scratch or not number, None)
                self._unsaved += self.state.trainings[number].seconds
            self._surrogate = surrogate
        return self._surrogate

    def _blank(self) -> "Surrogate":
        from mrafno.surrogate import get_surrogate

        settings: dict[str, Any] = {"preset": self.settings.preset, "seed": self.state.seed}
        inference = self.method.inferred(self.settings.inference)
        if inference == "ensemble":
            settings["members"] = self.settings.members
        return get_surrogate(inference, self.task.domain, **settings)

    def _saved(self) -> "Surrogate | None":
        """The checkpoint, if there is one that fits the ledger."""
        folder = self.ledger.folder / CHECKPOINT
        if not os.path.lexists(folder):
            return None
        from mrafno.surrogate import Surrogate

        try:
            for path in (folder, folder / "surrogate.json", *folder.glob("*.safetensors")):
                _refuse_link(path)
            surrogate = Surrogate.load(folder)
        except CheckpointError as error:
            self.ledger.damage.append(f"{error} Trained again from the ledger.")
            return None
        known = 0 < surrogate.fits <= len(self.state.trainings)
        # What calibration gave is in the ledger to its last digit: another run, or another past of this one, differs.
        ours = known and surrogate.shift == self.state.trainings[surrogate.fits - 1].shift
        return surrogate if ours and (surrogate.domain, surrogate.seed) == (self.task.domain, self.state.seed) else None

    def save(self) -> None:
        """Write the surrogate's checkpoint, if it has learnt since the last one."""
        if self._surrogate is not None and self._unsaved and self.writes:
            folder = self.ledger.folder / CHECKPOINT
            _refuse_link(folder)
            self._surrogate.save(folder)
            self._unsaved = 0.0

    def _example(self, id: str, keep: bool = True) -> tuple[Array, Array]:
        """Input and output of a told query, each ``(channels, *level's grid)``."""
        if id in self._examples:
            return self._examples[id]
        query = self.state.queries[id]
        assert query.output is not None, f"{id} was told"
        pair = self.ledger.read_array(query.input), self.ledger.read_array(query.output)
        if keep:
            self._examples[id] = pair
        return pair

    def _dataset(self, ids: Sequence[str]) -> Dataset:
        pairs: list[tuple[Array, Array] | None] = []
        for level in range(self.task.levels):
            here = [self._example(id) for id in ids if self.state.queries[id].level == level]
            pairs.append((np.stack([f for f, _ in here]), np.stack([y for _, y in here])) if here else None)
        return Dataset.of(self.task.domain, pairs)

    def _append(self, kind: str, /, **data: Any) -> None:
        self.state.apply(self.ledger.append(kind, **data))


def _refuse_link(path: Path) -> None:
    """Raise where a checkpoint, or a part of it, is a link: what is outside the run is neither read nor written."""
    if path.is_symlink():
        raise CheckpointError(f"checkpoint: {path} is a symbolic link, which is not followed. Remove it.")


def _number(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None
