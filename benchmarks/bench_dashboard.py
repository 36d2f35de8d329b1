"""The dashboard beside many long runs: how long a browser waits for a list, a run's figures, and nothing new.

Ledgers of 1,000 steps each are made without any training. Requests go through HTTP on this machine; times are medians,
but for those that happen once, by the clock and of the processor (server and client together), which differ where other
programs are busy. A first list answers with what it could read in a twentieth of a second; the time until all runs
are read is told too.
"""

import http.client
import json
import resource
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.dashboard import Server
from mrafno.run.settings import RunSettings
from mrafno.storage.ledger import Ledger
from mrafno.tasks import get_task
from mrafno.tasks.stored import task_as_json

#: What each time is to stay below on a quiet machine, in milliseconds.
AIMS = {
    "list, the first": 100,
    "list, as a whole": 100,
    "list, nothing new": 100,
    "list, one run advanced": 100,
    "key figures of a run": 100,
    "run, nothing new": 10,
    "figures of a run": 500,
}


#: By the clock, and of the processor.
Times = tuple[float, float]


def array(name: str) -> dict[str, Any]:
    """A file that an event names and nobody opens."""
    return {"file": f"arrays/{name}.npy", "sha256": "0" * 64, "shape": [1, 129], "dtype": "float64"}


def step(ledger: Ledger, number: int, rng: np.random.Generator) -> None:
    """What a run records for one step: asked, told, trained, and measured now and then."""
    id, level = f"q{number:06d}", int(rng.integers(2))
    best = rng.uniform(size=2).tolist()
    choice = {"score": best[level], "best": best, "costs": [0.2, 0.8], "seconds": 0.25}
    query = {"id": id, "kind": "pool", "level": level, "row": number, "step": number, "choice": choice}
    ledger.append("asked", queries=[{**query, "expires": None, "input": array(f"{id}-input")}])
    ledger.append("told", id=id, output=array(f"{id}-output"), cost=(1.0, 41.2)[level], seconds=0.1)
    fit = {"added": [id], "step": number, "loss": 1.0, "seconds": 2.0, "out_of_fold_error": 0.1, "shift": 0.0}
    ledger.append("trained", **fit, events=[], prequential_errors={id: 0.5 / number})
    if number % 10 == 0:
        metrics = {"relative_l2": 1 / number, "coverage": {"0.5": 0.4, "0.9": 0.8}}
        ledger.append("evaluated", step=number, cost=20.0 * number, metrics=metrics, seconds=0.5)


def make_runs(folder: Path, runs: int, steps: int) -> Ledger:
    """Runs of a number of steps; the first is returned, open, to be gone on with."""
    about = {"task": task_as_json(get_task("burgers")), "method": "mra-uhat", "settings": RunSettings().as_json()}
    first: Ledger | None = None
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        ledger = Ledger.create(folder / f"run-{seed:03d}", seed=seed, **about)
        for number in range(1, steps + 1):
            step(ledger, number, rng)
        if first is None:
            first = ledger
        else:
            ledger.close()
    assert first is not None
    return first


def now() -> Times:
    return time.perf_counter(), time.process_time()


def since(start: Times) -> Times:
    """Milliseconds by the clock, and of the processor."""
    clock, processor = now()
    return 1000 * (clock - start[0]), 1000 * (processor - start[1])


class Browser:
    """One connection, as a browser has it."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        self.tags: dict[str, str] = {}
        self.status = 0

    def get(self, address: str) -> tuple[Times, bytes]:
        """How long it took, and the body."""
        headers = {"If-None-Match": self.tags[address]} if address in self.tags else {}
        start = now()
        self.connection.request("GET", address, headers=headers)
        answer = self.connection.getresponse()
        body = answer.read()
        self.status = answer.status
        self.tags[address] = answer.headers["ETag"]
        return since(start), body

    def forget(self) -> None:
        """Ask as if for the first time."""
        self.tags.clear()


def measure(server: Server, ledger: Ledger, steps: int, repeat: int) -> dict[str, list[Times]]:
    """Times in milliseconds, by what was asked for."""
    browser, rng = Browser(server), np.random.default_rng(0)
    times: dict[str, list[Times]] = {}

    def ask(what: str, address: str, status: int = 200) -> bytes:
        took, body = browser.get(address)
        if browser.status != status:
            raise RuntimeError(f"{address} answered {browser.status}, not {status}: {body[:200]!r}")
        times.setdefault(what, []).append(took)
        return body

    start = now()
    content = json.loads(ask("list, the first", "/api/runs"))
    while content["unread"]:
        content = json.loads(browser.get("/api/runs")[1])
    times["list, until all runs are read"] = [since(start)]
    if any(run["steps"] != steps for run in content["runs"]):
        raise RuntimeError("a run was not read as a whole")

    ask("figures, the first ever", "/api/figures?run=run-000")
    for number in range(1, repeat + 1):
        browser.forget()
        ask("list, as a whole", "/api/runs")
        ask("list, nothing new", "/api/runs", 304)
        # Another one each time: what has been drawn is kept.
        other = f"run=run-{number % len(content['runs']):03d}"
        ask("key figures of a run", f"/api/run?{other}")
        ask("figures of a run", f"/api/figures?{other}")
        ask("queries of a run", f"/api/queries?{other}")
        ask("run, nothing new", f"/api/run?{other}", 304)
        step(ledger, steps + number, rng)
        ask("list, one run advanced", "/api/runs")
    return times


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--steps", type=int, default=1000, help="of each (default: 1000)")
    parser.add_argument("--repeat", type=int, default=20, help="requests of each kind (default: 20)")
    options = parser.parse_args()
    report = Report("dashboard", "The dashboard beside many long runs", __doc__, options)
    # The disk is not what is measured here.
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"):
        ledger = make_runs(Path(folder), options.runs, options.steps)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ledger, Server(Path(folder), port=0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            server.warm_up()  # as the command does
            times = measure(server, ledger, options.steps, options.repeat)
            server.shutdown()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    table = report.table(
        f"{options.runs} runs of {options.steps} steps",
        {"asked for": "", "clock ms": ".1f", "slowest": ".1f", "processor ms": ".1f", "aim": "d"},
    )
    for what, found in times.items():
        clock, processor = zip(*found, strict=True)
        table.add(what, statistics.median(clock), max(clock), statistics.median(processor), AIMS.get(what))
    report.note(f"The server's memory grew by {grown:.0f} MB, of which torch and plotly are a part.")
    report.save()


if __name__ == "__main__":
    main()
