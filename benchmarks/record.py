"""What benchmarks share: tables that are printed and kept as JSON, and alternatives that take turns.

    report = Report("acquisition", "Scoring a pool", __doc__, given)
    table = report.table("u-hat of 990 candidates", {"problem": "", "d": "d", "ours, s": ".3f"})
    table.add("burgers", 129, 0.031)
    report.ratio("burgers: reference / ours", times["reference"], times["ours"])
    report.save()

A report is written to ``benchmarks/results/NAME.json``, or to the folder of ``--out``. docs/machinery/benchmarks.py
makes a page of these files.
"""

import argparse
import datetime
import importlib.metadata
import inspect
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
#: Packages whose versions a report has, if they are installed.
_PACKAGES = ("mrafno", "torch", "numpy", "scipy", "distributed", "neuraloperator", "smt")
#: Least width of a column of texts, and of one of numbers.
_TEXT, _NUMBER = 14, 8

Cell = str | float | int | None


@dataclass(frozen=True)
class Ratio:
    """How many times as large one alternative's figures are as another's, pair by pair of repetitions."""

    median: float
    low: float
    high: float
    repetitions: int

    @staticmethod
    def of(numerators: Sequence[float], denominators: Sequence[float]) -> "Ratio":
        """From the figures of repetitions that took turns."""
        ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios), len(ratios))

    def __str__(self) -> str:
        spread = f" ({short(self.low)} to {short(self.high)})" if self.repetitions > 1 else ""
        return short(self.median) + spread


def short(value: float) -> str:
    """A number with three significant figures."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def alternate(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    clock: Callable[[], float] = time.process_time,
    warm: bool = True,
) -> dict[str, list[float]]:
    """Seconds of each of several works, which take turns ``rounds`` times.

    Args:
        clock: processor time of this process by default, to which other work on the machine adds little.
        warm: call each once before: tables are made and memory is taken from the system.
    """
    if warm:
        for work in works.values():
            work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = clock()
            work()
            found[name].append(clock() - start)
    return found


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the text of a module and the options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return parser


@dataclass
class Table:
    """Rows that are printed as they come.

    Attributes:
        columns: headings, each with the format of its numbers; an empty one for a column of texts.
    """

    title: str
    columns: dict[str, str]
    rows: list[list[Cell]] = field(default_factory=list)

    def __post_init__(self) -> None:
        print(f"\n{self.title}")
        print(self._line(self.columns))

    def add(self, *cells: Cell) -> None:
        """Print and keep a row; None is an empty cell."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.title}: a row has {len(cells)} cells, there are {len(self.columns)} columns")
        self.rows.append(list(cells))
        print(self._line(texts(self.columns.values(), cells)), flush=True)

    def _line(self, cells: "Sequence[str] | Mapping[str, str]") -> str:
        parts = []
        for text, (heading, form) in zip(cells, self.columns.items(), strict=True):
            width = max(len(heading), _NUMBER if form else _TEXT)
            parts.append(f"{text:>{width}}" if form else f"{text:<{width}}")
        return "  ".join(parts).rstrip()


def texts(forms: "Sequence[str] | Any", cells: Sequence[Cell]) -> list[str]:
    """Cells in the formats of their columns."""
    return [
        "" if cell is None else cell if isinstance(cell, str) else format(cell, form)
        for form, cell in zip(forms, cells, strict=True)
    ]


class Report:
    """What a benchmark found, with all that is needed to judge and repeat it.

    Args:
        name: of the file.
        title: of the section.
        doc: the module's text, whose first paragraph says what was measured.
        given: its arguments; ``out`` says where the file goes, ``seed`` is kept if there is one.
    """

    def __init__(self, name: str, title: str, doc: str | None, given: argparse.Namespace) -> None:
        self.name, self.title, self.out = name, title, Path(given.out)
        self.about = " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split())
        self.seed = getattr(given, "seed", 0)
        self.tables: list[Table] = []
        self.ratios: dict[str, Ratio] = {}
        self.notes: list[str] = []
        self.pictures: dict[str, str] = {}

    def table(self, title: str, columns: dict[str, str]) -> Table:
        """A new table."""
        self.tables.append(Table(title, columns))
        return self.tables[-1]

    def ratio(self, name: str, numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
        """Keep the ratio of two alternatives."""
        self.ratios[name] = Ratio.of(numerators, denominators)
        return self.ratios[name]

    def note(self, text: str) -> None:
        """Print and keep a sentence."""
        self.notes.append(text)
        print(text, flush=True)

    def picture(self, file: str, text: str) -> None:
        """Name a picture in docs/pictures, with a text for those who do not see it."""
        self.pictures[file] = text

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "command": command(),
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "seed": self.seed,
            "machine": machine(),
            "versions": versions(),
            "tables": [asdict(table) for table in self.tables],
            "ratios": {name: asdict(ratio) for name, ratio in self.ratios.items()},
            "notes": self.notes,
            "pictures": self.pictures,
        }

    def save(self) -> Path:
        """Print the ratios, and write the file."""
        if self.ratios:
            print("\nRatios: median (least to largest)")
            for name, ratio in self.ratios.items():
                print(f"  {name}: {ratio}")
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{self.name}.json"
        path.write_text(json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")
        return path


def command() -> str:
    """The command that runs this program, without where its results go."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name.removesuffix(".__main__") if spec else Path(sys.argv[0]).name
    words = [f"python -m {name}"]
    skip = False
    for word in sys.argv[1:]:
        if not skip and not word.startswith("--out="):
            words += [] if word == "--out" else [word]
        skip = word == "--out" and not skip
    return " ".join(words)


def commit() -> str | None:
    """The commit that is checked out, with a + if files that it has were changed; None outside a repository."""
    where = {"cwd": ROOT, "capture_output": True, "text": True, "check": False}
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **where)  # type: ignore[call-overload]
    if found.returncode:
        return None
    measured = ["git", "diff", "--quiet", "HEAD", "--", "src", "benchmarks/*.py"]
    changed = subprocess.run(measured, **where)  # type: ignore[call-overload]
    return str(found.stdout.strip()) + "+" * bool(changed.returncode)


def machine() -> dict[str, Any]:
    """Processor, cores, memory, and the threads of a matrix product."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None
    return {"processor": name, "cores": os.cpu_count(), "memory": f"{memory / 2**30:.0f} GB", "threads": threads}


def versions() -> dict[str, str]:
    """Of Python and of the packages that count."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
