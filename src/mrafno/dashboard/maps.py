"""Maps of the inputs of runs, as JSON values; what the surrogate says of all candidates is cached."""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrafno.dashboard.examples import checkpoint_version, has_links
from mrafno.dashboard.runs import Version, WatchedRun

if TYPE_CHECKING:
    from mrafno.plot.run_inputs import InputMap

#: Maps that are cached; a map of an advancing run is made again after this many times as long as it took.
_KEPT, _SHARE = 8, 20.0


@dataclass
class _Made:
    version: Version
    until: float
    found: "InputMap | None"


class Maps:
    """The maps of runs, made one at a time."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def version(self, run: WatchedRun) -> tuple[object, ...]:
        """What a map depends on, as far as it is time to make it again."""
        made = self._made.get(run.name)
        now = checkpoint_version(run)
        return run.version, made.version if made is not None and time.monotonic() < made.until else now

    def get(self, run: WatchedRun) -> dict[str, Any] | None:
        """The map of a run as a card; None without a checkpoint."""
        from mrafno.plot.bundle import figure_json  # late: plotly and torch take seconds to import
        from mrafno.plot.run_inputs import describe, input_map, map_figure

        with self._lock:
            made = self._made.pop(run.name, None)
            version = checkpoint_version(run)
            with run.reading() as reader:
                pass
            if made is None or (made.version != version and time.monotonic() >= made.until):
                start = time.monotonic()
                with run.predicting:
                    found = None if has_links(run) or version is None else input_map(reader)
                now = time.monotonic()
                made = _Made(version, now + _SHARE * (now - start), found)
            self._made[run.name] = made
            while len(self._made) > _KEPT:
                self._made.pop(next(iter(self._made)))
        if made.found is None:
            return None
        with run.reading() as reader:
            return {
                "id": "map",
                "heading": "Map of the inputs",
                "text": describe(reader, made.found),
                "figure": figure_json(map_figure(reader, made.found)),
            }
