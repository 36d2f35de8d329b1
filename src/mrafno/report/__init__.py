"""Runs as one HTML file that needs no network: one run by itself, several compared; read from their folders alone."""

from collections.abc import Sequence
from pathlib import Path

from mrafno.errors import MrafnoError
from mrafno.report.comparison import comparison
from mrafno.report.html import write_page
from mrafno.report.images import check_formats, write_images
from mrafno.report.page import run_page
from mrafno.run.reader import RunReader


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    images: Path | None = None,
    formats: Sequence[str] = ("svg",),
    errors: Sequence[float] = (),
) -> None:
    """Write a page about a run, or about several and how they compare; they may still be advancing.

    Args:
        folders: the runs' directories; of several tasks each has its part of the page.
        out: the HTML file.
        images: a folder for every figure as a file of its own; it needs the extra ``mrafno[images]``.
        formats: of the images: ``svg``, ``pdf``, ``png``.
        errors: for several runs, the errors of which the table tells what they cost; round numbers by default.
    """
    check_formats(formats)
    readers = [RunReader(folder) for folder in dict.fromkeys(Path(folder) for folder in folders)]
    if not readers:
        raise MrafnoError("report: no run was given. Give at least one run's folder.")
    if out.is_dir():
        raise MrafnoError(f"report: {out} is a folder. Give the name of a file, like {out / 'report.html'}.")
    title, lead, sections = run_page(readers[0]) if len(readers) == 1 else comparison(readers, errors)
    write_page(out, title, lead, sections)
    if images is not None:
        write_images(images, sections, formats)
