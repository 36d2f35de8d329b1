"""One example of a run: its input, its truth, and what the surrogate's last checkpoint says of it.

A picture for each, and not all in one figure, so that a narrow page can put them below one another.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from mrafno.dashboard.runs import Version, Watched, file_version
from mrafno.dashboard.views import about_query, drawn
from mrafno.errors import MrafnoError
from mrafno.grids import Array, Grid
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION
from mrafno.surrogate.prediction import Prediction

#: Examples that are kept for who asks again.
_KEPT = 64
#: Half the width of a 90 % interval, in standard deviations.
_REACH = 1.645
_SHAPE: dict[str, Any] = {"height": 300, "margin": {"l": 55, "r": 15, "t": 10, "b": 45}}


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
    return file_version(run.folder / CHECKPOINT / DESCRIPTION)


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


def panels(
    grid: Grid, f: Array, truth: Array | None, mean: Array | None, std: Array | None, names: Sequence[str]
) -> list[tuple[str, Any]]:
    """Headings and figures of what is known of an example, each an array on the grid."""
    draw = _curves if grid.dim == 1 else _fields
    # A third of the digits need not travel; names come from whoever made the task, and plotly reads markup in them.
    arrays = [None if values is None else values.astype(np.float32) for values in (f, truth, mean, std)]
    pictures = draw(grid, *arrays)
    for _, figure in pictures:
        figure.update_xaxes(title_text=escape(names[0]))
        if grid.dim == 2:
            figure.update_yaxes(title_text=escape(names[1]))
    return pictures


def _curves(grid: Grid, f: Any, truth: Any, mean: Any, std: Any) -> list[tuple[str, Any]]:
    import plotly.graph_objects as go

    from mrafno.plot.figures import BLACK, BLUE, ORANGE

    x = grid.axes[0]
    # The legend is below, where it takes nothing of a narrow figure's width.
    shape = {**_SHAPE, "showlegend": False, "legend": {"orientation": "h", "y": -0.25}}
    source, output, error = (go.Figure(layout=shape) for _ in range(3))
    source.add_scatter(x=x, y=f, mode="lines", line={"color": BLACK}, name="input")
    for figure, centre in ((output, mean), (error, None if mean is None else np.zeros_like(mean))):
        if centre is not None:
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]), fill="toself", hoverinfo="skip", line={"width": 0}, mode="lines",
                y=np.concatenate([centre + _REACH * std, (centre - _REACH * std)[::-1]]),
                fillcolor="rgba(0,114,178,0.3)", name="90 % interval",
            )  # fmt: skip
    for values, name, line in ((truth, "truth", {"color": BLACK}), (mean, "mean", {"color": BLUE, "dash": "dash"})):
        if values is not None:
            output.add_scatter(x=x, y=values, mode="lines", line=line, name=name)
    output.update_layout(showlegend=True, margin_b=75, height=330)
    pictures = [("input", source)]
    if truth is not None or mean is not None:
        pictures.append(("output: truth, mean and spread" if mean is not None else "output: truth", output))
    if truth is not None and mean is not None:
        error.add_scatter(x=x, y=mean - truth, mode="lines", line={"color": ORANGE}, name="mean minus truth")
        pictures.append(("mean minus truth", error))
    return pictures


def _fields(grid: Grid, f: Any, truth: Any, mean: Any, std: Any) -> list[tuple[str, Any]]:
    import plotly.graph_objects as go

    outputs = [values for values in (truth, mean) if values is not None]
    shared: dict[str, Any] = {"colorscale": "Viridis"}
    if outputs:
        # Truth and mean share their colours.
        shared |= {"zmin": min(float(a.min()) for a in outputs), "zmax": max(float(a.max()) for a in outputs)}
    fields: list[tuple[str, Any, dict[str, Any]]] = [("input", f, {"colorscale": "Cividis"})]
    fields += [(name, a, shared) for name, a in (("truth", truth), ("mean", mean)) if a is not None]
    if std is not None:
        top = float(std.max()) or 1.0
        fields.append(("spread: standard deviation", std, {"colorscale": "Cividis", "zmin": 0, "zmax": top}))
    if truth is not None and mean is not None:
        size = float(np.abs(mean - truth).max()) or 1.0
        # Blue to red through white, with zero in the middle.
        scale = {"colorscale": "RdBu", "reversescale": True, "zmin": -size, "zmax": size}
        fields.append(("mean minus truth", mean - truth, scale))
    x, y = grid.axes
    pictures = []
    for name, field, scale in fields:
        figure = go.Figure(layout=_SHAPE)
        bar = {"thickness": 10, "exponentformat": "power", "tickfont": {"size": 10}}
        figure.add_heatmap(x=x, y=y, z=field.T, colorbar=bar, name="", **scale)
        pictures.append((name, figure))
    return pictures
