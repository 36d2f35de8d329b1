"""One example of a run: its input, its output, and the prediction of the surrogate's last checkpoint."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrafno.dashboard.runs import Version, WatchedRun, file_version
from mrafno.dashboard.views import about_query
from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION
from mrafno.surrogate.prediction import Prediction

#: Examples that are cached.
_KEPT = 64


@dataclass(frozen=True)
class _Known:
    """What is known of a query: its input, output and prediction, each ``(channels, *grid)``, and a note."""

    reader: RunReader
    query: QueryRecord
    f: Array
    y: Array | None
    prediction: Prediction | None
    note: str
    before: str | None
    after: str | None


class Examples:
    """Examples as JSON values; arrays are cached while the checkpoint is the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[object, _Known]] = OrderedDict()
        self._lock = threading.Lock()

    def version(self, run: WatchedRun, id: str) -> tuple[object, ...]:
        """What the figures of a query depend on: its answer, and the checkpoint."""
        with run.reading() as reader:
            query = reader.state.queries.get(id)
            return (query and query.status, query and query.answered, checkpoint_version(run))

    def get(self, run: WatchedRun, id: str, channel: int = -1, at: Sequence[int] = ()) -> dict[str, Any] | None:
        """The example of a query, None if it is unknown.

        Args:
            channel: of several; by default the last.
            at: the point on each axis after the second; by default the middle.
        """
        known = self._known(run, id)
        return None if known is None else _described(known, channel, at)

    def _known(self, run: WatchedRun, id: str) -> _Known | None:
        key, version = (run.name, id), self.version(run, id)
        with self._lock:
            if key in self._kept and self._kept[key][0] == version:
                return self._kept[key][1]
        with run.reading() as reader:
            query = reader.state.queries.get(id)
            if query is None:
                return None
            f, y = reader.input(query), reader.output(query)
            same = [q.id for q in reader.state.of_kind(query.kind)]
        prediction, note = _predicted(run, reader, f, query.level)
        place = same.index(id)
        before, after = ([None, *same][place], [*same, None][place + 1])
        made = _Known(reader, query, f, y, prediction, note, before, after)
        with self._lock:
            self._kept[key] = version, made
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def checkpoint_version(run: WatchedRun) -> Version:
    """Changes with the run's checkpoint."""
    return file_version(run.folder / CHECKPOINT / DESCRIPTION)


def _predicted(run: WatchedRun, reader: RunReader, f: Array, level: int) -> tuple[Prediction | None, str]:
    """The checkpoint's prediction of one input, and a sentence about it; the lock of the ledger is not held."""
    # The surrogate needs the first line of the ledger only, so other threads may read the ledger meanwhile.
    with run.predicting:
        if _has_links(run):
            return None, "The checkpoint has symbolic links, which are not followed."
        try:
            prediction = reader.predict(f[None], level)
        except MrafnoError as error:
            return None, str(error)
        if prediction is None or reader.surrogate is None:
            return None, reader.trouble or "There is no checkpoint of the surrogate yet, so there is no prediction."
        return prediction, f"The prediction is that of the checkpoint after fit {reader.surrogate.fits}."


def _has_links(run: WatchedRun) -> bool:
    folder = run.folder / CHECKPOINT
    try:
        with os.scandir(folder) as entries:
            return folder.is_symlink() or any(entry.is_symlink() for entry in entries)
    except OSError:
        return False


def _described(known: _Known, channel: int, at: Sequence[int]) -> dict[str, Any]:
    from mrafno.plot.axes import Axes  # late: plotly takes a second to import
    from mrafno.plot.bundle import figure_json
    from mrafno.plot.fields import example_panels
    from mrafno.plot.panel import separate

    reader, query, y = known.reader, known.query, known.y
    f, parameters = reader.split(known.f)
    prediction = known.prediction
    mean, std = (None, None) if prediction is None else (prediction.mean[0], prediction.std[0])
    sentences = [known.note]
    if y is not None and mean is not None:
        sentences.insert(0, f"Relative L2 error {float(reader.errors(mean[None], y[None])[0]):.4g}.")
    axes = Axes.of(reader.state.task, reader.grids[query.level])
    channels = max(len(f), 1 if y is None else len(y), int(reader.state.task["out_channels"]))
    channel = channel if 0 <= channel < channels else channels - 1
    sizes = axes.grid.shape[2:]
    places = [
        place if 0 <= place < size else size // 2
        for place, size in zip([*at, *(-1,) * len(sizes)], sizes, strict=False)
    ]
    frame = axes.frame(channel, places, channels)
    pictures = separate(example_panels(axes, f, y, mean, std), [frame])
    return {
        **about_query(reader, query),
        "before": known.before,
        "after": known.after,
        "text": " ".join(sentences),
        "parameters": [{"name": name, "value": value} for name, value in parameters.items()],
        "channel": channel,
        "channels": channels,
        "slices": [
            {"name": name, "points": size, "place": place}
            for name, size, place in zip(axes.labels[2:], sizes, places, strict=True)
        ],
        "frame": frame.label,
        "panels": [{"heading": heading, "figure": figure_json(figure)} for heading, figure in pictures],
    }
