"""What the driver of a run is doing now, in a file beside the ledger, for whoever looks at the run.

The file is written at most once a second, and is lost without harm: goals, phase, CPU and memory are not results.
"""

import contextlib
import json
import math
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrafno.errors import MrafnoError
from mrafno.run.spending import Count, check_count
from mrafno.storage.files import read_bytes, write_bytes
from mrafno.storage.layout import STATUS

#: Goals that an advance may have.
GOALS = ("steps", "budget", "target")
#: Seconds between two writes, and between two samples of CPU and memory at the beginning.
_WRITE_SECONDS, _SAMPLE_SECONDS = 1.0, 2.0
#: Most samples; when there are more, every second one is dropped and the time between them doubles.
_SAMPLES = 240
#: Bytes of a status that are believed.
_LARGEST = 100_000
#: Characters of a text that are read.
_TEXT = 200


@dataclass(frozen=True)
class Sample:
    """The driver at one moment: share of one core since the last sample, and resident memory in bytes."""

    time: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Status:
    """What a driver last said of itself.

    Attributes:
        pid, host: of the driver.
        started: when this advance began; updated: when this was written. Seconds since the epoch.
        goals: of this advance: ``steps`` in all, ``budget``, ``target``.
        count: what the budget covers, see :mod:`mrafno.run.spending`.
        phase: ``simulating``, ``training``, ``choosing``, ``paused`` for example; empty when the advance has ended.
        since: when the phase began.
        done: share of the phase that is done, where it is known.
        note: what the phase is about, ``fit 3 on 24 examples`` for example.
        expected: seconds that the phase was expected to take when it began, where that was known.
        samples: CPU and memory of the driver.
    """

    pid: int
    host: str
    started: float
    updated: float
    goals: dict[str, float]
    count: Count = "total"
    phase: str = ""
    since: float = 0.0
    done: float | None = None
    note: str = ""
    expected: float | None = None
    samples: tuple[Sample, ...] = ()

    def phase_seconds_left(self, now: float) -> float | None:
        """Seconds until the phase ends, at its speed so far, or as expected at first; None if that is not known."""
        spent = now - self.since
        if self.done is None or self.done < 0.02 or spent <= 0:
            return None if self.expected is None else max(0.0, self.expected - spent)
        return max(0.0, (self.updated - self.since) * (1 / self.done - 1) - (now - self.updated))


def read_status(folder: Path) -> Status | None:
    """The status in a run's folder; None if there is none that makes sense."""
    try:
        content = read_bytes(folder / STATUS)
        if len(content) > _LARGEST:
            return None
        values = json.loads(content)
        goals = {name: _number(values["goals"][name]) for name in GOALS if values["goals"].get(name) is not None}
        samples = [Sample(*(_number(value) for value in sample)) for sample in values["samples"][-_SAMPLES:]]
        check_count(values["count"])
        done = None if values["done"] is None else min(max(_number(values["done"]), 0.0), 1.0)
        return Status(
            pid=int(values["pid"]),
            host=str(values["host"])[:_TEXT],
            started=_number(values["started"]),
            updated=_number(values["updated"]),
            goals=goals,
            count=values["count"],
            phase=str(values["phase"])[:_TEXT],
            since=_number(values["since"]),
            done=done,
            note=str(values["note"])[:_TEXT],
            expected=None if values.get("expected") is None else _number(values["expected"]),
            samples=tuple(samples),
        )
    except (MrafnoError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


class StatusWriter:
    """A watcher that writes the status of a run, see :class:`mrafno.run.loop.Watcher`.

    Args:
        folder: of the run.
        goals: of the advance.
        count: what its budget covers.
    """

    def __init__(self, folder: Path, goals: Mapping[str, float | None], count: Count = "total") -> None:
        self.folder, self.count = folder, count
        self.goals = {name: float(value) for name, value in goals.items() if value is not None}
        self.phase, self.note = "starting", ""
        self.done: float | None = None
        self.expected: float | None = None
        self.started = self.since = time.time()
        self._written = self._sampled = self._clock = time.monotonic() - _WRITE_SECONDS
        self._cpu, self._every = time.process_time(), _SAMPLE_SECONDS
        self._samples: list[Sample] = []

    def __call__(self, phase: str, done: float | None = None, note: str = "", expected: float | None = None) -> None:
        """Note what the run is doing; it is written if the last time was a second ago."""
        another = (phase, note) != (self.phase, self.note)
        if another:
            self.since = time.time()
        changed = another or (done is None) != (self.done is None)
        self.phase, self.done, self.note, self.expected = phase, done, note, expected
        now = time.monotonic()
        if now - self._sampled >= self._every:
            self._sample(now)
        if now - self._written >= (_WRITE_SECONDS / 4 if changed else _WRITE_SECONDS):
            self.write()

    def end(self) -> None:
        """Say that nothing is being done any more; the goals stay."""
        self.phase, self.done, self.note, self.expected = "", None, "", None
        self._sample(time.monotonic())
        self.write()

    def write(self) -> None:
        """Write the file now; a full disk is no reason to stop a run."""
        self._written = time.monotonic()
        values = {
            "pid": os.getpid(), "host": socket.gethostname(), "started": self.started, "updated": time.time(),
            "goals": self.goals, "count": self.count, "phase": self.phase, "since": self.since,
            "done": self.done, "note": self.note, "expected": self.expected,
            "samples": [[round(s.time, 1), round(s.cpu, 3), s.memory] for s in self._samples],
        }  # fmt: skip
        with contextlib.suppress(OSError):
            write_bytes(self.folder / STATUS, json.dumps(values).encode(), durable=False)

    def _sample(self, now: float) -> None:
        cpu = time.process_time()
        share = (cpu - self._cpu) / max(now - self._clock, 1e-3)
        self._sampled = self._clock = now
        self._cpu = cpu
        self._samples.append(Sample(time.time(), share, resident_memory()))
        if len(self._samples) > _SAMPLES:
            self._samples = self._samples[1::2]
            self._every *= 2


def resident_memory() -> float:
    """Bytes of memory that this process holds; its peak where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        import resource  # Unix only

        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a status has finite numbers")
    return number
