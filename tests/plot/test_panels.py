"""Figures of one example, a panel each."""

import numpy as np

from mrafno.grids import Grid
from mrafno.plot.panels import panels


def test_axis_names_are_escaped():
    (_, figure), *rest = panels(Grid((3,), ("nodes",)), np.arange(3.0), None, None, None, ["<b>x</b>"])
    assert rest == []
    assert figure.layout.xaxis.title.text == "&lt;b&gt;x&lt;/b&gt;"
