"""A figure of a report's or a study's page as an SVG file, drawn by Chromium: ``picture.py PAGE.html PICTURE.svg``."""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

_SCRIPT = """async number => {
    const figure = document.querySelectorAll(".js-plotly-plot")[number]
    await Plotly.relayout(figure, {updatemenus: [], "margin.t": 20, "font.size": 15})
    return Plotly.toImage(figure, {format: "svg", width: 800, height: 440, imageDataOnly: true})
}"""


def draw(page: Path, picture: Path, figure: int = 0) -> None:
    """The figure with this number, from 0, without its buttons."""
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 800, "height": 600})
        tab.goto(page.resolve().as_uri())
        # Figures are drawn one after another, some when the page has loaded.
        drawn = "number => document.querySelectorAll('.js-plotly-plot').length > number"
        tab.wait_for_function(drawn, arg=figure)
        svg = tab.evaluate(_SCRIPT, figure)
        browser.close()
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(svg, encoding="utf-8")


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--figure", type=int, default=0)
    arguments = parser.parse_args()
    draw(arguments.page, arguments.picture, arguments.figure)


if __name__ == "__main__":
    main()
