"""One example of a run: its input, its truth, and what the surrogate's last checkpoint says of it.

A picture for each, and not all in one figure, so that a narrow page can put them below one another.
"""

import os
import threading
from collections import OrderedDict
from typing import Any

from mrafno.dashboard.runs import Version, Watched, file_version
from mrafno.dashboard.views import about_query, drawn
from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.surrogate.prediction import Prediction

#: Examples that are kept for who asks again.
_KEPT = 64


class Examples:
    """Examples as JSON values, made when they are asked for and kept as long as the checkpoint is the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], tuple[object, dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def version(self, run: Watched, id: str) -> tuple[object, ...]:
        """What the picture of a query depends on: what became of it, and the checkpoint."""
        with run.reading() as reader:
            query = reader.state.queries.get(id)
            return (query and query.status, query and query.answered, checkpoint_version(run))

    def get(self, run: Watched, id: str, channel: int = -1) -> dict[str, Any] | None:
        """A query's example; None if there is no such query. Of several channels one is shown, by default the last."""
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


def checkpoint_version(run: Watched) -> Version:
    """Changes with the run's checkpoint."""
    return file_version(run.folder / "surrogate" / "surrogate.json")


def _predicted(run: Watched, reader: RunReader, f: Array, level: int) -> tuple[Prediction | None, str]:
    """The checkpoint's prediction of one input, and a sentence about it; what the ledger says is not waited for."""
    # What a reader's surrogate needs of the ledger stands in its first line, so others may go on reading meanwhile.
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


def _has_links(run: Watched) -> bool:
    folder = run.folder / "surrogate"
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
        "panels": [{"heading": heading, "figure": drawn(figure)} for heading, figure in pictures],
    }
