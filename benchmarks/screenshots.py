"""Pictures of every page of dashboard and report, wide and narrow, light and dark, to be looked at.

Without ``--runs`` three short runs are made first. Problems that a browser reports on the way are
printed, and pages that scroll sideways.
"""

import argparse
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from mrafno import Run, get_task
from mrafno.dashboard import Server
from mrafno.report import write_report

WIDTHS = (1280, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Figures are drawn when they come near the screen.
_SCROLL, _PAUSE = 700, 120


def make_runs(folder: Path) -> None:
    """Three short runs, in one to three dimensions."""
    quick: dict[str, Any] = {"pool": 60, "initial": 4, "test": 10, "members": 3, "iterations": 60, "evaluate": 2}
    for name, task in (
        ("burgers", get_task("burgers", resolutions=((33,), (65,)))),
        ("darcy", get_task("darcy", resolutions=((8, 8), (16, 16)))),
        ("diffusion3d", get_task("diffusion3d", resolutions=((4, 4, 4), (8, 8, 8)))),
    ):
        with Run.create(folder / name, task, **quick) as run:
            run.advance(steps=10)


def pages(server: Server, runs: list[str], reports: Path) -> dict[str, str]:
    """Addresses of all pages, by the names of their pictures."""
    found = {"list": server.page}
    for name in runs:
        short = name.replace("/", "-")
        found[f"run-{short}"] = f"{server.url}?{urlencode({'run': name})}"
        found[f"input-{short}"] = f"{server.url}?{urlencode({'run': name, 'input': 0})}"
        found[f"report-{short}"] = (reports / f"{short}.html").as_uri()
    return {**found, "comparison": (reports / "comparison.html").as_uri()}


def look(page: Any, address: str) -> None:
    """Open a page, and scroll through it until all figures are drawn."""
    page.goto(address)
    page.wait_for_timeout(2500)
    if page.locator("#all").is_visible() if page.locator("#all").count() else False:
        page.check("#all")
    for selector in ("#map .main-svg", "#figures .main-svg", "#overlay .main-svg"):
        part = selector.partition(" ")[0]
        if page.locator(part).count() and page.locator(part).is_visible():
            page.wait_for_selector(selector, timeout=120_000)
    for _ in range(0, page.evaluate("document.documentElement.scrollHeight"), _SCROLL):
        page.mouse.wheel(0, _SCROLL)
        page.wait_for_timeout(_PAUSE)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(800)


def take(folder: Path, out: Path) -> list[str]:
    """All pictures; returns the problems that were seen."""
    runs = sorted(str(ledger.parent.relative_to(folder)) for ledger in folder.rglob("ledger.jsonl"))
    out.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as reports, Server(folder, port=0, control=True) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in runs:
            write_report([folder / name], Path(reports, f"{name.replace('/', '-')}.html"))
        write_report([folder / name for name in runs], Path(reports, "comparison.html"))
        with sync_playwright() as playwright:
            path = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for width in WIDTHS:
                for scheme in SCHEMES:
                    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                    page = context.new_page()
                    page.on("console", lambda said: problems.append(said.text) if said.type != "log" else None)
                    page.on("pageerror", lambda error: problems.append(str(error)))
                    for name, address in pages(server, runs, Path(reports)).items():
                        look(page, address)
                        if page.evaluate("document.documentElement.scrollWidth") > width:
                            problems.append(f"{name} scrolls sideways at {width} pixels")
                        page.screenshot(path=str(out / f"{name}-{width}-{scheme}.png"), full_page=True)
                    context.close()
            browser.close()
        server.shutdown()
    return problems


def main() -> None:
    """Take the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--runs", type=Path, help="a folder with runs in it; three short ones are made without")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if options.runs is None:
            make_runs(Path(made))
        problems = take(options.runs or Path(made), options.out)
    print(f"{len(list(options.out.glob('*.png')))} pictures in {options.out}")
    for problem in dict.fromkeys(problems):
        print(f"problem: {problem}")


if __name__ == "__main__":
    main()
