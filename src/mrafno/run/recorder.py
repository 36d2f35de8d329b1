"""What a run has recorded: its ledger and the state that the ledger replays to, always together."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mrafno.data.pool import PoolSizes
from mrafno.grids import Array
from mrafno.run.settings import USUAL_INITIAL, RunSettings
from mrafno.run.state import QueryRecord, RunState
from mrafno.storage.ledger import Event, Ledger

logger = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Recorder:
    """A ledger and its state. Session, trainer and loop share one, and record through it only.

    Attributes:
        ledger: events and arrays on disk.
        state: the replay of the ledger; made here if it is not given.
        listeners: called with each event after it was recorded.
    """

    def __init__(self, ledger: Ledger, state: RunState | None = None) -> None:
        self.ledger = ledger
        self.state = RunState.of(ledger.events) if state is None else state
        self.listeners: list[Listener] = []

    def record(self, kind: str, /, *, quiet: bool = False, **data: Any) -> None:
        """Append an event, apply it to the state, and call the listeners unless ``quiet``."""
        try:
            event = self.ledger.append(kind, **data)
            self.state.apply(event)
        except KeyboardInterrupt:  # perhaps between the two, and somebody may go on
            self.replay()
            raise
        if not quiet:
            for listener in self.listeners:
                listener(event)

    def warn(self, about: str, text: str | None) -> None:
        """Record what a person should know, once for all that is about the same; None: it does not hold any more."""
        if (text is None) == (about not in self.state.warnings):
            return
        self.record("warned", about=about, text=text)
        if text is not None:
            logger.warning("%s", text)

    def replay(self) -> None:
        """Make the state again from the ledger."""
        self.state = RunState.of(self.ledger.events)

    def example(self, record: QueryRecord) -> tuple[Array, Array]:
        """Input and output of an observed query, each ``(channels, *level's grid)``."""
        assert record.output is not None, f"{record.id} has an output"
        return self.ledger.read_array(record.input), self.ledger.read_array(record.output)

    @property
    def sizes(self) -> PoolSizes:
        """How many inputs of each kind the run needs."""
        return pool_sizes(self.state)

    def imported_inputs(self) -> list[Array]:
        """Inputs of imported examples, see :func:`imported_inputs`."""
        return imported_inputs(self.ledger, self.state)


def imported_inputs(ledger: Ledger, state: RunState) -> list[Array]:
    """Inputs of imported examples, ``(n, in_channels, *level's grid)`` of each level; empty if there are none.

    NaN stands in place of an input that was damaged, which nothing is compared with or trained on.
    """
    if not any(state.given):
        return []
    found = []
    for level, shape in enumerate(state.task["resolutions"]):
        here = [
            np.full(record.input.shape, np.nan) if "input" in record.damaged else ledger.read_array(record.input)
            for record in state.imported(level)
        ]
        found.append(np.stack(here) if here else np.zeros((0, state.task["in_channels"], *shape)))
    return found


def pool_sizes(state: RunState) -> PoolSizes:
    """How many inputs of each kind a run needs."""
    return sizes_of(state.settings, len(state.task["resolutions"]), state.given)


def sizes_of(settings: RunSettings, levels: int, given: Sequence[int] = ()) -> PoolSizes:
    """How many inputs a run with these settings needs; a spread design takes those of initial examples from the pool.

    Args:
        given: imported examples of each level.
    """
    s = settings
    initial = (0,) * levels if s.design == "spread" else USUAL_INITIAL if s.initial is None else s.initial
    return PoolSizes(initial, s.pool, s.test or 0, s.test_seed, tuple(given))
