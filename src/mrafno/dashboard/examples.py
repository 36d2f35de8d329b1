"""One example of a run: its input, its output, and the prediction of the surrogate's last checkpoint."""

import os
import threading
from collections import OrderedDict
from typing import Any

from mrafno.dashboard.runs import Version, WatchedRun, file_version
from mrafno.dashboard.views import about_query, figure_json
from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION
from mrafno.surrogate.prediction import Prediction

#: Examples that are cached.
_KEPT = 64


class Examples:
    """Examples as JSON values, cached while the checkpoint is the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], tuple[object, dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def version(self, run: WatchedRun, id: str) -> tuple[object, ...]:
        """What the figures of a query depend on: its answer, and the checkpoint."""
        with run.reading() as reader:
            query = reader.state.queries.get(id)
            return (query and query.status, query and query.answered, checkpoint_version(run))

    def get(self, run: WatchedRun, id: str, channel: int = -1) -> dict[str, Any] | None:
        """The example of a query, None if it is unknown; of several channels one is shown, by default the last."""
        key, version = (run.name, id, channel), self.version(run, id)
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
        made = _described(reader, query, f, y, prediction, note, channel)
        place = same.index(id)
        made["before"] = same[place - 1] if place else None
        made["after"] = same[place + 1] if place + 1 < len(same) else None
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


def _described(
    reader: RunReader,
    query: QueryRecord,
    f: Array,
    y: Array | None,
    prediction: Prediction | None,
    note: str,
    channel: int,
) -> dict[str, Any]:
    from mrafno.plot.panels import panels  # late: plotly takes a second to import

    channels = max(len(f), 1 if y is None else len(y), int(reader.state.task["out_channels"]))
    channel = channel if 0 <= channel < channels else channels - 1
    mean, std = (None, None) if prediction is None else (prediction.mean[0], prediction.std[0])
    sentences = [note]
    if y is not None and mean is not None:
        sentences.insert(0, f"Relative L2 error {float(reader.errors(mean[None], y[None])[0]):.4g}.")

    def one(values: Array | None) -> Array | None:
        return None if values is None else values[min(channel, len(values) - 1)]

    grid, names = reader.grids[query.level], reader.state.task["axis_names"]
    pictures = panels(grid, f[min(channel, len(f) - 1)], one(y), one(mean), one(std), names)
    return {
        **about_query(reader, query),
        "text": " ".join(sentences),
        "channel": channel,
        "channels": channels,
        "panels": [{"heading": heading, "figure": figure_json(figure)} for heading, figure in pictures],
    }
