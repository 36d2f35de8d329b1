"""A real run on burgers: mrafno chooses inputs and meshes, beside random choice, until both have spent the same.

Both run at once, one core each. Interrupted, the same call goes on where it stopped.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from mrafno.report import write_report

METHODS = ("mra-auto", "random-mix")
#: Three networks and short fits: minutes, instead of the best surrogate.
SETTINGS = {"--members": 3, "--evaluate": 5, "--test": 100, "--pool": 500, "--setting": "brief=2"}


def start(method: str, folder: Path, budget: float, iterations: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "mrafno"]
    if (folder / "ledger.jsonl").exists():
        words += ["resume", str(folder), "--budget", str(budget)]
    else:
        words += ["run", "burgers", "--method", method, "--out", str(folder), "--budget", str(budget)]
        words += [str(word) for pair in {**SETTINGS, "--iterations": iterations}.items() for word in pair]
    # One thread each: two processes with two threads would fight over two cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def relay(method: str, process: "subprocess.Popen[str]") -> None:
    for line in process.stdout or ():
        print(f"{method:>10}  {line}", end="", flush=True)


def draw(page: Path, picture: Path) -> None:
    """The first figure of a report as an SVG file, drawn by Chromium."""
    from playwright.sync_api import sync_playwright

    script = """async () => {
        const figure = document.querySelector(".js-plotly-plot")
        const layout = {updatemenus: [], "margin.t": 20, "font.size": 15}
        await Plotly.relayout(figure, layout)
        return Plotly.toImage(figure, {format: "svg", width: 800, height: 440, imageDataOnly: true})
    }"""
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 800, "height": 600})
        tab.goto(page.resolve().as_uri())
        svg = tab.evaluate(script)
        browser.close()
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(svg, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--budget", type=float, default=150.0, help="cost of the chosen examples; a coarse solve is 1")
    parser.add_argument("--iterations", type=int, default=200, help="of each whole fit")
    parser.add_argument("--picture", type=Path, help="draw error against cost to this SVG file, too (needs Chromium)")
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
        print(f"a run ended with exit code {max(codes)}; see above, then call this again to go on")
        return max(codes)
    page = arguments.out / "report.html"
    write_report(folders, page)
    write_report([folders[0]], arguments.out / "run.html")
    if arguments.picture:
        draw(page, arguments.picture)
    print(f"\nOpen these in a browser: {page.resolve().as_uri()} compares the two,")
    print(f"{(arguments.out / 'run.html').resolve().as_uri()} shows the run of {METHODS[0]} in detail.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
