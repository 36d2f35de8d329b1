"""The figures of a page as files."""

from collections.abc import Sequence
from pathlib import Path

from mrafno.plot.still import check_formats, write_stills
from mrafno.report.html import Section, anchors, columns, figures_of

__all__ = ["check_formats", "write_images"]


def write_images(folder: Path, sections: Sequence[Section], formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Write every figure of a page's sections in every format, named after its heading; returns the files."""
    found = [one for heading, _, content in sections for one in figures_of(content, heading)]
    names = anchors([heading for heading, _ in found])
    figures = {
        name: (figure, 1180 if columns(figure) > 1 else 800) for name, (_, figure) in zip(names, found, strict=True)
    }
    return write_stills(figures, folder, formats)
