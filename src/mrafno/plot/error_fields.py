"""Error fields of several methods on the same input, on one scale."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from mrafno.grids import Array
from mrafno.plot.axes import Axes
from mrafno.plot.panel import Layer, Panel, positive, side_by_side
from mrafno.plot.style import method_styles


def error_fields_figure(
    axes: Axes, truth: Array, errors: Mapping[str, Array], titles: Mapping[str, str], methods: Mapping[str, str]
) -> go.Figure:
    """The truth on its own scale, then the sizes of the errors on a common one, each ``(channels, *grid)``."""
    scale = {**positive(*errors.values()), "colorscale": "Inferno"}
    styles, top = method_styles(methods), 1.05 * float(scale["zmax"])
    panels = [Panel("truth", (Layer(axes, truth),), {"colorscale": "Viridis"})]
    for label, error in errors.items():
        layer = Layer(axes, error, label, {"color": styles[label].colour}, fill="tozeroy")
        panels.append(Panel(titles[label], (layer,), scale, limits=(0.0, top)))
    columns = _columns(len(panels), (4, 3) if axes.is_map else (3,))
    return side_by_side(panels, *axes.frames(len(truth)), columns=columns)


def _columns(panels: int, widths: Sequence[int]) -> int:
    """The number of columns that leaves the fewest places empty."""
    return min((min(width, panels) for width in widths), key=lambda width: -panels % width)
