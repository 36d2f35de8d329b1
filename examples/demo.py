"""A real run on burgers from nothing: mrafno chooses inputs and meshes, beside random choice, for the same total cost.

Every simulation that the surrogates are trained on is counted, the first ones included. A hundred fine test examples
show the true error beside the run's own estimate; no run needs them, so they are not counted.

Both runs go on at once, one core each. Interrupted, the same call goes on where it stopped.
"""

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

from mrafno import Run
from mrafno.report import write_report

METHODS = ("mra-auto", "random-mix")
#: Three networks and short fits: minutes, instead of the best surrogate.
SETTINGS = {"initial": "10,2", "members": 3, "evaluate": 5, "test": 100, "pool": 500, "setting": "update_every=3"}


def start(method: str, folder: Path, budget: float, iterations: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "mrafno"]
    if (folder / "ledger.jsonl").exists():
        words += ["resume", str(folder)]
    else:
        words += ["run", "burgers", "--method", method, "--out", str(folder), "--setting", "design=spread"]
        words += [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
        words += ["--iterations", str(iterations)]
    words += ["--budget", str(budget), "--count", "training"]
    # One thread each: two processes with two threads would fight over two cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def relay(method: str, process: "subprocess.Popen[str]") -> None:
    for line in process.stdout or ():
        print(f"{method:>10}  {line}", end="", flush=True)


def advance(folders: list[Path], budget: float, iterations: int) -> bool:
    """Advance both runs until they have spent the budget; whether both did."""
    processes = [start(method, folder, budget, iterations) for method, folder in zip(METHODS, folders, strict=True)]
    readers = [threading.Thread(target=relay, args=pair) for pair in zip(METHODS, processes, strict=True)]
    for reader in readers:
        reader.start()
    codes = [process.wait() for process in processes]
    for reader in readers:
        reader.join()
    if any(codes):
        print(f"runs ended with exit codes {codes}; see above, then call this again to go on")
    return not any(codes)


def forecast(folder: Path, budget: float) -> str:
    """What the run says half-way of its error at the end."""
    with Run.open(folder) as run:
        found = run.forecast(cost=run.spent.total - run.spent.counted("training") + budget)
        return "none yet" if found is None else f"{found.error:.3g} ({found.low:.3g} to {found.high:.3g})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--budget", type=float, default=300.0, help="cost of all examples; a coarse solve is 1")
    parser.add_argument("--iterations", type=int, default=300, help="of each whole fit")
    arguments = parser.parse_args()
    folders, note = [arguments.out / method for method in METHODS], arguments.out / "half-way.txt"
    first = 92.4  # ten coarse and two fine solves
    if not note.exists():
        if not advance(folders, (first + arguments.budget) / 2, arguments.iterations):
            return 1
        note.write_text(forecast(folders[0], arguments.budget), encoding="utf-8")
    if not advance(folders, arguments.budget, arguments.iterations):
        return 1
    page = arguments.out / "report.html"
    write_report(folders, page, count="training")
    write_report([folders[0]], arguments.out / "run.html", count="training")
    for method, folder in zip(METHODS, folders, strict=True):
        with Run.open(folder) as run:
            coarse, fine = run.state.counts(2, "told")
            error, estimate = run.state.measurements[-1].metrics["relative_l2"], run.estimate()
        print(f"\n{method}: {coarse} coarse and {fine} fine solves, relative error {error:.3g} on test examples")
        print(f"its own estimate, without them: {'none yet' if estimate is None else estimate.interval}")
        if folder == folders[0]:
            print(f"forecast half-way: {note.read_text(encoding='utf-8')}")
    print(f"\nOpen these in a browser: {page.resolve().as_uri()} compares the two,")
    print(f"{(arguments.out / 'run.html').resolve().as_uri()} shows the run of {METHODS[0]} in detail.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
