"""Reports of runs as self-contained HTML pages: one run, or a comparison of several.

Runs are read from their folders, and may be advancing. ``html`` writes pages; ``page``, ``comparison`` and ``examples``
have their content; ``images`` writes figures as files. May import ``run`` (its readers) and ``plot``.
"""

from collections.abc import Sequence
from pathlib import Path

from mrafno.errors import MrafnoError
from mrafno.report.comparison import comparison
from mrafno.report.html import write_page
from mrafno.report.images import check_formats, write_images
from mrafno.report.page import run_page
from mrafno.run.reader import RunReader
from mrafno.run.spending import Count


def write_report(
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    images: Path | str | None = None,
    formats: Sequence[str] = ("svg",),
    errors: Sequence[float] = (),
    count: Count = "total",
) -> None:
    """Write a page about a run, or a comparison of several; they may be advancing.

    Args:
        folders: the runs' directories; every task has its own sections.
        out: the HTML file.
        images: a folder for the figures as files, which needs the extra ``mrafno[images]``, and no browser.
        formats: of the images: ``svg``, ``pdf``, ``png``.
        errors: for several runs, the errors to reach; round numbers by default.
        count: what costs have, see :mod:`mrafno.run.spending`.
    """
    check_formats(formats)
    out = Path(out)
    readers = [RunReader(folder, count=count) for folder in dict.fromkeys(Path(folder) for folder in folders)]
    if not readers:
        raise MrafnoError("report: no run was given. Give at least one run's folder.")
    if out.is_dir():
        raise MrafnoError(f"report: {out} is a folder. Give the name of a file, like {out / 'report.html'}.")
    title, lead, sections = run_page(readers[0]) if len(readers) == 1 else comparison(readers, errors)
    write_page(out, title, lead, sections)
    if images is not None:
        write_images(Path(images), sections, formats)
