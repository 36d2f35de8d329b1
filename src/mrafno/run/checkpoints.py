"""Checkpoints of a run's surrogate: the one that predicts, and, if that is an earlier one, the last as well.

``surrogate/`` holds what predicts, for all readers. If the last fit made the surrogate clearly worse, an earlier one
predicts, and ``surrogate/last/`` holds the last, from which fits go on. Both only save time: fits follow from the
ledger bit for bit.
"""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mrafno.errors import CheckpointError
from mrafno.grids import Domain
from mrafno.run.recorder import Recorder
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION, LAST, WEIGHTS

if TYPE_CHECKING:  # imports torch
    from mrafno.surrogate.inference.base import Surrogate

logger = logging.getLogger(__name__)


class Checkpoints:
    """Reads and writes them.

    Args:
        load: reads a surrogate of the run's kind from a folder.
    """

    def __init__(self, recorder: Recorder, domain: Domain, load: Callable[[Path], "Surrogate"]) -> None:
        self.recorder, self.domain, self._load = recorder, domain, load

    @property
    def _folder(self) -> Path:
        return self.recorder.ledger.folder / CHECKPOINT

    def last(self) -> "Surrogate | None":
        """The surrogate with the most fits, if there is one that fits the ledger."""
        found = [one for folder in (self._folder / LAST, self._folder) if (one := self._read(folder))]
        return max(found, key=lambda one: one.fits, default=None)

    def after(self, fits: int) -> "Surrogate | None":
        """The surrogate after so many fits, if it is there."""
        found = self._read(self._folder)
        return found if found is not None and found.fits == fits else None

    def save(self, last: "Surrogate", best: "Surrogate") -> None:
        """Write the last surrogate, and the one that predicts, which may be the same; each as a whole."""
        _refuse_link(self._folder)
        beside = self._folder / LAST
        _refuse_link(beside)
        if best is not last:
            last.save(beside)
        best.save(self._folder)
        if best is last:
            shutil.rmtree(beside, ignore_errors=True)

    def _read(self, folder: Path) -> "Surrogate | None":
        """The surrogate in a folder, if it fits the ledger."""
        if not os.path.lexists(folder):
            return None
        try:
            for path in (self._folder, folder, folder / DESCRIPTION, *folder.glob(WEIGHTS)):
                _refuse_link(path)
            surrogate = self._load(folder)
        except CheckpointError as error:
            self.recorder.ledger.damage.append(f"{error} Trained again from the ledger.")
            logger.warning("%s Trained again from the ledger.", error)
            return None
        state = self.recorder.state
        known = 0 < surrogate.fits <= len(state.trainings)
        # The ledger has the calibration's shift to its last digit: that of another run, or another past, differs.
        ours = known and surrogate.shift == state.trainings[surrogate.fits - 1].shift
        return surrogate if ours and (surrogate.domain, surrogate.seed) == (self.domain, state.seed) else None


def _refuse_link(path: Path) -> None:
    """Raise if a checkpoint, or a part of it, is a link: files outside the run are neither read nor written."""
    if path.is_symlink():
        raise CheckpointError(f"checkpoint: {path} is a symbolic link, which is not followed. Remove it.")
