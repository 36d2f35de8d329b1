"""Recording events and reading them back, beside the bare file calls and the bare parser.

Appends: each is encoded, written and fsynced; the reference writes and fsyncs the same lines, encoded before. The two
take turns, since a disk has its moods. Replay: a ledger is opened for reading; the references parse the same lines with
json.loads, without and with a SHA-256 of each. Appends by the clock, replay in processor time.
"""

import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from benchmarks.record import Report, arguments
from mrafno.storage.ledger import Ledger

ARRAY = {"file": "arrays/q000012-output.npy", "sha256": "0" * 64, "shape": [1, 129], "dtype": "float64"}


def told(number: int) -> dict[str, object]:
    """What a told simulation records."""
    return {"query": f"q{number:06d}", "cost": 41.2 + number / 7, "seconds": number / 3, "output": ARRAY}


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def appends(report: Report, folder: Path, count: int, rounds: int) -> None:
    """Appends per second, in the median of rounds."""
    ours, bare = [], []
    with Ledger.create(folder / "appends") as ledger:
        for _ in range(rounds):
            start, size = len(ledger.events), (folder / "appends" / "ledger.jsonl").stat().st_size

            def record(start: int = start) -> None:
                for number in range(start, start + count):
                    ledger.append("told", **told(number))

            ours.append(timed(record))
            lines = (folder / "appends" / "ledger.jsonl").read_bytes()[size:].splitlines(keepends=True)
            handle = os.open(folder / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

            def plain(handle: int = handle, lines: list[bytes] = lines) -> None:
                for line in lines:
                    os.write(handle, line)
                    os.fsync(handle)

            bare.append(timed(plain))
            os.close(handle)
        with patch("os.fsync"):
            own = timed(record, time.process_time) / count
    fast, slow = (count / statistics.median(times) for times in (bare, ours))
    report.ratio("appends: ours / bare write and fsync", ours, bare)
    table = report.table(
        f"Appends, medians of {rounds} rounds of {count}",
        {"a second": ",.0f", "bare write and fsync, a second": ",.0f", "µs without the disk": ".0f"},
    )
    table.add(slow, fast, 1e6 * own)


def replay(report: Report, folder: Path, counts: list[int], repeat: int) -> None:
    table = report.table(
        f"Replay, the fastest of {repeat}, in seconds of processor time",
        {"events": ",d", "MB": ".1f", "ours": ".3f", "µs each": ".1f", "json": ".3f", "json + sha": ".3f"},
    )
    for count in counts:
        path = folder / f"replay-{count}"
        with patch("os.fsync"), Ledger.create(path) as ledger:  # the disk is not what is measured here
            for number in range(1, count):
                ledger.append("told", **told(number))
        lines = (path / "ledger.jsonl").read_bytes().splitlines()

        def parse(lines: list[bytes] = lines) -> object:
            return [json.loads(line) for line in lines]

        def parse_and_check(lines: list[bytes] = lines) -> object:
            return [(json.loads(line), hashlib.sha256(line).hexdigest()) for line in lines]

        def ours(path: Path = path) -> object:
            return Ledger.open(path)

        works = (ours, parse, parse_and_check)
        rounds = [[timed(work, time.process_time) for work in works] for _ in range(repeat)]
        all_times = [list(row) for row in zip(*rounds, strict=True)]
        times = [min(row) for row in all_times]
        table.add(count, sum(map(len, lines)) / 1e6, times[0], 1e6 * times[0] / count, *times[1:])
        for name, others in zip(("json", "json + sha"), all_times[1:], strict=True):
            report.ratio(f"replay of {count:,} events: ours / {name}", all_times[0], others)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="rounds of each (default: 5)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: the system's temporary folder)")
    options = parser.parse_args()
    report = Report("ledger", "Recording events", __doc__, options)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        appends(report, Path(folder), 200, options.repeat)
        replay(report, Path(folder), [10_000, 100_000], options.repeat)
    report.save()


if __name__ == "__main__":
    main()
