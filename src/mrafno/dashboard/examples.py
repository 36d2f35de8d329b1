"""One input of a run: what was simulated of it, and the prediction of the surrogate's last checkpoint.

The input is that of a query, shown on the query's mesh, or a candidate of the pool, shown on every mesh.
"""

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
class _Mesh:
    """What is known on one mesh: output ``(channels, *grid)``, prediction, and the query."""

    level: int
    output: Array | None
    prediction: Prediction | None
    query: QueryRecord | None


@dataclass(frozen=True)
class _Known:
    """What is known of an input ``(channels, *grid)``, which is on the grid of a level."""

    reader: RunReader
    about: dict[str, Any]
    f: Array
    level: int
    meshes: tuple[_Mesh, ...]
    note: str


class Examples:
    """Examples as JSON values; arrays are cached while the checkpoint and the answers are the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str | int], tuple[object, _Known]] = OrderedDict()
        self._lock = threading.Lock()

    def version(self, run: WatchedRun, of: str | int) -> tuple[object, ...]:
        """What the figures depend on: the answers, and the checkpoint."""
        with run.reading() as reader:
            found = _queries(reader, of)
            return (*((q.id, q.status, q.answered) for q in found), checkpoint_version(run))

    def get(self, run: WatchedRun, of: str | int, channel: int = -1, at: Sequence[int] = ()) -> dict[str, Any] | None:
        """The example of a query, by its id, or of a candidate, by its row; None if it is unknown.

        Args:
            channel: of several; by default the last.
            at: the point on each axis after the second; by default the middle.
        """
        known = self._known(run, of)
        return None if known is None else _described(known, channel, at)

    def _known(self, run: WatchedRun, of: str | int) -> _Known | None:
        key, version = (run.name, of), self.version(run, of)
        with self._lock:
            if key in self._kept and self._kept[key][0] == version:
                return self._kept[key][1]
        made = _of_query(run, of) if isinstance(of, str) else _of_candidate(run, of)
        if made is None:
            return None
        with self._lock:
            self._kept[key] = version, made
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def _queries(reader: RunReader, of: str | int) -> list[QueryRecord]:
    """The queries with this id, or of this candidate."""
    if isinstance(of, str):
        query = reader.state.queries.get(of)
        return [] if query is None else [query]
    return [q for q in reader.state.of_kind("pool") if q.row == of]


def _of_query(run: WatchedRun, id: str) -> _Known | None:
    with run.reading() as reader:
        query = reader.state.queries.get(id)
        if query is None:
            return None
        f, y = reader.input(query), reader.output(query)
        same = [q.id for q in reader.state.of_kind(query.kind)]
        place = same.index(id)
        before, after = [None, *same][place], [*same, None][place + 1]
        about = {**about_query(reader, query), "before": before, "after": after, "input": None}
        if query.kind == "pool":
            about["input"] = query.row
    prediction, note = _predicted(run, reader, f, query.level)
    return _Known(reader, about, f, query.level, (_Mesh(query.level, y, prediction, query),), note)


def _of_candidate(run: WatchedRun, row: int) -> _Known | None:
    with run.predicting:  # inputs of a built-in task are drawn again, which may take long
        with run.reading() as reader:
            finest = len(reader.grids) - 1
        if not 0 <= row < len(reader.inputs.pool):
            return None
        f = reader.inputs.pool[row]
        restricted = [reader.task.restrict(f[None], level)[0] for level in range(finest + 1)]
    with run.reading() as reader:
        queries = _queries(reader, row)
        outputs = {q.level: (reader.output(q), q) for q in queries if q.status == "told"}
        order = [q.row for q in reader.state.of_kind("pool", "told", "running")]
    note, meshes = "", []
    for level, here in enumerate(restricted):
        prediction, note = _predicted(run, reader, here, level)
        output, query = outputs.get(level, (None, None))
        meshes.append(_Mesh(level, output, prediction, query))
    place = order.index(row) if row in order else None
    about = {
        "id": f"candidate {row}", "kind": "candidate", "step": None, "mesh": "", "status": "", "reason": None,
        "input": row,
        "before": None if not place else order[place - 1],
        "after": None if place is None or place + 1 == len(order) else order[place + 1],
        "queries": [about_query(reader, query) for query in queries],
    }  # fmt: skip
    return _Known(reader, about, f, finest, tuple(meshes), note)


def checkpoint_version(run: WatchedRun) -> Version:
    """Changes with the run's checkpoint."""
    return file_version(run.folder / CHECKPOINT / DESCRIPTION)


def _predicted(run: WatchedRun, reader: RunReader, f: Array, level: int) -> tuple[Prediction | None, str]:
    """The checkpoint's prediction of one input, and a sentence about it; the lock of the ledger is not held."""
    # The surrogate needs the first line of the ledger only, so other threads may read the ledger meanwhile.
    with run.predicting:
        if has_links(run):
            return None, "The checkpoint has symbolic links, which are not followed."
        try:
            prediction = reader.predict(f[None], level)
        except MrafnoError as error:
            return None, str(error)
        if prediction is None or reader.surrogate is None:
            return None, reader.trouble or "There is no checkpoint of the surrogate yet, so there is no prediction."
        return prediction, f"The prediction is that of the checkpoint after fit {reader.surrogate.fits}."


def has_links(run: WatchedRun) -> bool:
    """Whether a checkpoint has symbolic links, which are not followed."""
    folder = run.folder / CHECKPOINT
    try:
        with os.scandir(folder) as entries:
            return folder.is_symlink() or any(entry.is_symlink() for entry in entries)
    except OSError:
        return False


def _described(known: _Known, channel: int, at: Sequence[int]) -> dict[str, Any]:
    from mrafno.plot.axes import Axes  # late: plotly takes a second to import
    from mrafno.plot.bundle import figure_json
    from mrafno.plot.fields import MeshView, example_panels, mesh_panels
    from mrafno.plot.panel import separate

    reader = known.reader
    f, parameters = reader.split(known.f)
    axes = Axes.of(reader.state.task, reader.grids[known.level])
    channels = max(len(f), int(reader.state.task["out_channels"]))
    channel = channel if 0 <= channel < channels else channels - 1
    sizes = axes.grid.shape[2:]
    places = [
        place if 0 <= place < size else size // 2
        for place, size in zip([*at, *(-1,) * len(sizes)], sizes, strict=False)
    ]
    frame = axes.frame(channel, places, channels)
    views = [
        MeshView(
            reader.meshes[mesh.level], Axes.of(reader.state.task, reader.grids[mesh.level]), mesh.output,
            None if mesh.prediction is None else mesh.prediction.mean[0],
            None if mesh.prediction is None else mesh.prediction.std[0],
        )
        for mesh in known.meshes
    ]  # fmt: skip
    if known.about["kind"] == "candidate":
        panels = mesh_panels(axes, f, views)
    else:
        panels = example_panels(axes, f, views[0].truth, views[0].mean, views[0].std)
    return {
        **known.about,
        "text": " ".join([*_errors(known, views), known.note]),
        "parameters": [{"name": name, "value": value} for name, value in parameters.items()],
        "channel": channel,
        "channels": channels,
        "slices": [
            {"name": name, "points": size, "place": place}
            for name, size, place in zip(axes.labels[2:], sizes, places, strict=True)
        ],
        "frame": frame.label,
        "panels": [
            {"heading": heading, "figure": figure_json(figure)} for heading, figure in separate(panels, [frame])
        ],
    }


def _errors(known: _Known, views: Sequence[Any]) -> list[str]:
    """Sentences with the relative errors, where there is a truth."""
    found = []
    for mesh, view in zip(known.meshes, views, strict=True):
        if mesh.output is not None and view.mean is not None:
            error = float(known.reader.errors(view.mean[None], mesh.output[None])[0])
            where = "" if len(known.meshes) == 1 else f" on {view.name}"
            found.append(f"Relative L2 error{where} {error:.4g}.")
    return found
