"""Figures of a page as files, without a browser."""

import xml.etree.ElementTree as ElementTree

import plotly.graph_objects as go
import pytest

from mrafno.errors import MrafnoError
from mrafno.plot import still
from mrafno.report import write_report
from mrafno.report.images import write_images
from tests.made_runs import real_run


def test_without_matplotlib_the_error_names_the_extra(monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(still, "import_module", missing)
    with pytest.raises(MrafnoError, match=r"pip install matplotlib"):
        write_images(tmp_path, [("One", "", go.Figure())])


def test_unknown_formats_are_refused_before_any_work(tmp_path):
    with pytest.raises(MrafnoError, match="unknown format 'gif'"):
        write_report([tmp_path / "none"], tmp_path / "x.html", formats=("gif",))


def test_every_figure_of_a_real_run_is_written(tmp_path, tmp_path_factory):
    """Fields in two dimensions with sliders, the map of inputs, learning curves, bars."""
    folder = tmp_path / "images"
    write_report([real_run(tmp_path_factory)], tmp_path / "x.html", images=folder, formats=("svg", "png", "pdf"))
    names = {path.stem for path in folder.iterdir()}
    assert {"error-against-cost", "meshes", "learning-curves", "map-of-the-inputs", "where-the-time-went"} <= names
    assert any("prediction-minus-truth" in name for name in names)
    for path in folder.iterdir():
        content = path.read_bytes()
        assert len(content) > 2000
        if path.suffix == ".svg":
            ElementTree.fromstring(content)
        else:
            assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"%PDF")


def test_comparisons_have_stacked_bars_and_bands(runs, tmp_path):
    write_report(runs, tmp_path / "x.html", images=tmp_path / "images", formats=("svg",))
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert names == ["made-error-against-cost.svg", "made-queries-per-resolution.svg"]
