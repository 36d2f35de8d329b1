"""A real run on burgers: mrafno chooses inputs and meshes, beside random choice, until both have spent the same.

Both run at once, one core each. Interrupted, the same call goes on where it stopped.
"""

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

from mrafno.report import write_report

METHODS = ("mra-auto", "random-mix")
#: Three networks and short fits: minutes, instead of the best surrogate.
SETTINGS = {
    "--initial": 10,
    "--members": 3,
    "--evaluate": 5,
    "--test": 100,
    "--pool": 500,
    "--setting": "update_every=3",
}


def start(method: str, folder: Path, budget: float, iterations: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "mrafno"]
    if (folder / "ledger.jsonl").exists():
        words += ["resume", str(folder), "--budget", str(budget), "--count", "chosen"]
    else:
        words += ["run", "burgers", "--method", method, "--out", str(folder), "--budget", str(budget)]
        words += ["--count", "chosen"]
        words += [str(word) for pair in {**SETTINGS, "--iterations": iterations}.items() for word in pair]
    # One thread each: two processes with two threads would fight over two cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def relay(method: str, process: "subprocess.Popen[str]") -> None:
    for line in process.stdout or ():
        print(f"{method:>10}  {line}", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--budget", type=float, default=150.0, help="cost of the chosen examples; a coarse solve is 1")
    parser.add_argument("--iterations", type=int, default=250, help="of each whole fit")
    arguments = parser.parse_args()
    folders = [arguments.out / method for method in METHODS]
    goals = arguments.budget, arguments.iterations
    processes = [start(method, folder, *goals) for method, folder in zip(METHODS, folders, strict=True)]
    readers = [threading.Thread(target=relay, args=pair) for pair in zip(METHODS, processes, strict=True)]
    for reader in readers:
        reader.start()
    codes = [process.wait() for process in processes]
    for reader in readers:
        reader.join()
    if any(codes):
        print(f"runs ended with exit codes {codes}; see above, then call this again to go on")
        return 1
    page = arguments.out / "report.html"
    write_report(folders, page)
    write_report([folders[0]], arguments.out / "run.html")
    print(f"\nOpen these in a browser: {page.resolve().as_uri()} compares the two,")
    print(f"{(arguments.out / 'run.html').resolve().as_uri()} shows the run of {METHODS[0]} in detail.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
