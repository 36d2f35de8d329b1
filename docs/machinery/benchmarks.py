"""Writes docs/benchmarks.md from the results in benchmarks/results.

Usage: ``python docs/machinery/benchmarks.py``; ``make bench-page``. tests/test_benchmarks.py fails if the page is not
what this makes of the files.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # in place of this folder, where this file hides the package of the same name

from benchmarks.record import Ratio, texts  # noqa: E402

RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
#: The first sections; the others follow in the order of their names.
FIRST = ("paper", "alternatives", "parallel", "quality", "step", "scaling", "check")
HEAD = """# Benchmarks

This page is made from the files in `benchmarks/results` by `python docs/machinery/benchmarks.py`. Each section has its
command, machine, versions and date. `make bench` runs all benchmarks, `make bench-quick` a part in ten minutes, and
`make bench-check` measures a few ratios and fails if one has become worse than the committed one by more than 25 %.

Times differ from machine to machine. Ratios are those of alternatives that took turns in one run, so they carry over
better; in brackets are the least and the largest of the repetitions.
"""


def page(results: Path = RESULTS) -> str:
    """The page of a folder of results."""
    reports = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    order = {name: place for place, name in enumerate(FIRST)}
    reports.sort(key=lambda report: (order.get(report["name"], len(order)), report["name"]))
    return "\n".join([HEAD, *map(section, reports)]).rstrip() + "\n"


def section(report: dict) -> str:
    """The section of one report."""
    machine, versions = report["machine"], report["versions"]
    threads = "" if machine["threads"] is None else f", products in {count(machine['threads'], 'thread')}"
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        f"## {report['title']}\n",
        f"{report['about']}\n",
        f"    {report['command']}\n",
        f"{report['date']}, commit {report['commit']}, seed {report['seed']}. {machine['processor']}, "
        f"{count(machine['cores'], 'core')}, {machine['memory']}{threads}; {packages}.\n",
    ]
    for table in report["tables"]:
        lines += [f"**{table['title']}**\n", *rows(table["columns"], table["rows"]), ""]
    if report["ratios"]:
        named = [[name, ratio] for name, ratio in report["ratios"].items()]
        lines += ["**Ratios**\n", *rows({"of": "", "median (least to largest)": "ratio"}, named), ""]
    lines += [f"![{text}](pictures/{file})\n" for file, text in report["pictures"].items()]
    return "\n".join([*lines, *[f"{note}\n" for note in report["notes"]]])


def rows(columns: dict, cells: list) -> list[str]:
    """A table in Markdown."""
    forms = list(columns.values())
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join('---:' if form else '---' for form in forms)}|"]
    for row in cells:
        row = [str(Ratio(**cell)) if isinstance(cell, dict) else cell for cell in row]
        lines.append(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts(forms, row))} |")
    return lines


def count(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}{'s' * (number != 1)}"


if __name__ == "__main__":
    PAGE.write_text(page())
