"""No serious finding of axe-core on any page, light and dark, wide and narrow; `make accessibility` installs it."""

import os
import shutil
from pathlib import Path

import pytest

from mrafno.report import write_report
from tests.made_runs import made_run, real_run

_BUILT = Path(__file__).parent.parent.parent / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
AXE = Path(os.environ.get("AXE", _BUILT))
pytestmark = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make accessibility")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("accessibility") / "runs"
    made_run(
        runs / "failed", levels=(0, 1) * 15, errors=(0.4, 0.3, 0.2, 0.1), failures=["no convergence"],
        stopped="run failed: 5 simulations failed, 100 % of all. The last said: ValueError (heat.py:17): CFL violated.",
    )  # fmt: skip
    made_run(runs / "waiting", levels=(1,), running=True, method="mra-auto", seed=7)
    shutil.copytree(real_run(tmp_path_factory), runs / "real")
    (runs / "broken").mkdir()
    (runs / "broken" / "ledger.jsonl").write_text("nothing")
    write_report([runs / "real"], runs.parent / "report.html")
    write_report([runs / "real", runs / "failed"], runs.parent / "comparison.html")
    return runs


def findings(page):
    """Serious findings: the rule, what it says, and the elements."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        (one["id"], one["help"], [node["html"][:120] for node in one["nodes"][:4]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_have_no_serious_finding(chromium, serve, folder, scheme, width):
    server = serve(folder, control=True)
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(60_000)
    found = {}
    try:
        page.goto(server.page)
        page.wait_for_selector("#runs >> text=mra-auto")
        page.check("#all")
        page.wait_for_selector("#overlay .main-svg")
        found["list"] = findings(page)
        page.goto(f"{server.url}?run=real&input=0")
        page.wait_for_selector("#map .main-svg")
        page.wait_for_selector("#panels .main-svg")
        page.wait_for_selector("#figures .main-svg")
        page.click("#edit")
        found["run"] = findings(page)
        page.goto(f"{server.url}?run=failed")
        page.wait_for_selector("#figures .main-svg")
        found["failed"] = findings(page)
        page.goto(f"{server.url}?run=broken")
        page.wait_for_selector("#missing >> text=All runs")
        found["broken"] = findings(page)
        for name in ("report", "comparison"):
            page.goto((folder.parent / f"{name}.html").as_uri())
            page.locator(".plot").first.scroll_into_view_if_needed()  # figures are drawn when they come near
            page.wait_for_selector(".main-svg")
            found[name] = findings(page)
    finally:
        context.close()
    assert {name: problems for name, problems in found.items() if problems} == {}
