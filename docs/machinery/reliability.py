"""Writes the table of promises in docs/reliability.md: runs the tests that show them, and takes their figures.

Usage: ``python docs/machinery/reliability.py [--quick] [NUMBER ...]``; ``make reliability``. With numbers of promises,
from 1, only their rows are written anew. A test tells its figures by ``record_property``. If a test of a promise did
not pass, the row says FAILED, and the exit code is 1.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

#: A promise, and the tests that show it.
PROMISES = [
    (
        "A driver that is killed, at any moment and in the middle of any write, and resumed, asks the same "
        "queries, ends with the same weights to the bit, and simulates nothing again that was finished",
        ["tests/run/test_faults.py::test_a_driver_that_is_killed_and_resumed_ends_where_it_would_have",
         "tests/run/test_faults.py::test_ctrl_c_stops_a_driver_in_time_and_it_ends_where_it_would_have",
         "tests/run/test_faults.py::test_forty_deaths"],
    ),
    (
        "A full disk stops the run with a message; with space it goes on, and nothing is missing",
        ["tests/run/test_faults.py::test_a_full_disk_stops_the_run_and_with_space_it_goes_on"],
    ),
    (
        "Any number of processes tell at the same moment, some killed: what was acknowledged is there, once",
        ["tests/run/test_telling.py"],
    ),
    (
        "Where locks fail, or the ledger is replaced, no writer removes what another one has written: it stops",
        ["tests/storage/test_two_writers.py", "tests/run/test_two_writers.py"],
    ),
    (
        "A changed byte in the ledger or in an array is found, never read as data",
        ["tests/storage/test_ledger_damage.py::test_a_changed_byte_is_found_and_the_rest_stays_readable",
         "tests/storage/test_arrays.py::test_a_changed_byte_in_an_array_is_found_and_other_arrays_stay_readable",
         "tests/storage/test_packs.py::test_a_changed_byte_damages_one_array_only"],
    ),
    (
        "After any single damaged file or line `check` finds it, `repair` makes the run open and go on, and "
        "nothing undamaged is lost",
        ["tests/run/test_repair.py", "tests/storage/test_salvage.py"],
    ),
    (
        "Random sequences of asks, answers, leases, kills, second writers and damage lose nothing acknowledged, "
        "pass no budget, ask for nothing twice, and replay to the live state",
        ["tests/run/test_properties.py"],
    ),
    (
        "A simulation that ends its process is a failed query, and the run goes on",
        ["tests/run/test_attempts.py"],
    ),
    (
        "On Slurm, by dask-jobqueue and as a job array, a node that goes down and a job over its time limit lose "
        "nothing",
        ["tests/test_slurm.py"],
    ),
    (
        "Runs of earlier versions open and go on",
        ["tests/run/test_earlier_versions.py"],
    ),
]  # fmt: skip


def measured(tests: list[str], environment: dict[str, str], quick: bool) -> tuple[Counter[str], float]:
    """What came of tests: how many passed and did not, and the figures that they told; and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        marks = "not slow" if quick else "slow or not slow"
        command = [sys.executable, "-m", "pytest", "-q", "-m", marks, f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)
        found: Counter[str] = Counter()
        seconds = 0.0
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            seconds += float(case.get("time", "0"))
            if case.find("skipped") is not None:
                found["skipped"] += 1
            elif (fault := case.find("failure")) is not None or (fault := case.find("error")) is not None:
                found["FAILED"] += 1
                print(f"{case.get('name')}: {fault.get('message')}\n{fault.text}", file=sys.stderr, flush=True)
            else:
                found["tests"] += 1
            for one in case.iter("property"):
                found[str(one.get("name"))] += int(float(one.get("value", "0")))
        return found, seconds


def main() -> None:
    """Run the tests and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="leave slow tests out")
    parser.add_argument("--sequences", type=int, default=3000, help="of the random sequences (default: 3000)")
    parser.add_argument("numbers", type=int, nargs="*", help="promises to show again, from 1 (default: all)")
    options = parser.parse_args()
    environment = {**os.environ, "MRAFNO_SEQUENCES": str(options.sequences), "OMP_NUM_THREADS": "1"}
    failed = False
    for number, (promise, tests) in enumerate(PROMISES, 1):
        if options.numbers and number not in options.numbers:
            continue
        found, seconds = measured(tests, environment, options.quick)
        failed |= bool(found["FAILED"])
        said = ", ".join(f"{count:,} {name}" for name, count in found.items() if count)
        files = sorted({test.partition("::")[0] for test in tests})
        row = f"| {promise} | {', '.join(f'`{file}`' for file in files)} | {said}; {seconds:.0f} s |"
        print(row, flush=True)
        write_row(promise, row)
    sys.exit(1 if failed else 0)


def write_row(promise: str, row: str) -> None:
    """Put a row into the table of the page, in the order of the promises."""
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    rows = {line.split(" | ")[0][2:]: line for line in text[len(before) : -len(after)].splitlines() if line}
    rows[promise] = row
    table = [rows[one] for one, _ in PROMISES if one in rows]
    PAGE.write_text("\n".join([before, "| promise | shown by | figures |", "|---|---|---|", *table, after]))


if __name__ == "__main__":
    main()
