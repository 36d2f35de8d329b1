"""Figures as files."""

import importlib.util
import shutil

import plotly.graph_objects as go
import pytest

from mrafno.errors import MrafnoError
from mrafno.report import write_report
from mrafno.report.images import write_images


def test_without_kaleido_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MrafnoError, match=r"pip install kaleido"):
        write_images(tmp_path, [("One", "", go.Figure())])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("kaleido") is None, reason="kaleido is not installed")
@pytest.mark.skipif(not (shutil.which("chromium") or shutil.which("google-chrome")), reason="there is no browser")
def test_every_figure_as_a_file(runs, tmp_path):
    write_report(runs, tmp_path / "x.html", images=tmp_path / "images", formats=("svg", "png"))
    files = sorted(path.name for path in (tmp_path / "images").iterdir())
    names = ("made-error-against-cost", "made-queries-per-resolution")
    assert files == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    picture = (tmp_path / "images" / "made-error-against-cost.svg").read_text()
    assert "relative L2 error" in picture
    assert "logarithmic cost" not in picture  # a button
    assert (tmp_path / "images" / f"{names[0]}.png").read_bytes()[:4] == b"\x89PNG"
