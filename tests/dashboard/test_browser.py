"""The page in a real browser: opened, clicked through, watched while a run advances, by keyboard and on a phone."""

import shutil
import threading
import time

import pytest

from mrafno.run import Run
from mrafno.tasks import FunctionTask
from tests.browser import until
from tests.made_runs import made_run, made_task, real_run
from tests.runs import SETTINGS, fields, smooth

EVIL = "<img src=x onerror=\"document.title='owned'\"><b>no convergence</b>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("browser") / "runs"
    levels = (0, 1) * 15
    made_run(runs / "group" / "first", levels=levels, errors=(0.4, 0.3, 0.2, 0.1), failures=[EVIL], stopped=EVIL)
    made_run(runs / "second", levels=(1,), running=True, method="mra-auto", task=made_task("<i>made</i>"), seed=7)
    shutil.copytree(real_run(tmp_path_factory), runs / "real")
    (runs / "broken").mkdir()
    (runs / "broken" / "ledger.jsonl").write_text("nothing")
    return runs


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def drawn(page, card):
    """Numbers in a figure, as plotly.js has them."""
    return page.evaluate("card => document.querySelector(card).querySelector('.plot').data[0].y", card)


ERROR = "#figures [data-key='error-against-cost']"
NAMES = "#runs tbody td:nth-child(2) a"


def test_list_search_sort_and_navigation(visit, folder):
    page = visit(folder)
    until(page, "document.querySelectorAll('#runs tbody tr').length === 4")
    page.wait_for_selector("#runs >> text=mra-auto")
    assert texts(page, NAMES) == ["broken", "group/first", "real", "second"]
    assert "no whole line" in page.inner_text("#runs tbody tr:first-child")
    # Sorted by cost; what is not known comes last, either way.
    page.click("th button:text('Cost')")
    up = texts(page, NAMES)
    assert (up[-2:], set(up)) == (["group/first", "broken"], {"second", "real", "group/first", "broken"})
    page.click("th button:text('Cost')")
    assert texts(page, NAMES) == [*up[-2::-1], "broken"]
    assert page.get_attribute("th:has-text('Cost')", "aria-sort") == "descending"
    page.fill("#search", "DARCY seed 3")
    assert texts(page, NAMES) == ["real"]
    assert page.inner_text("#count") == "1 of 4"
    page.fill("#search", "")

    page.click("text=group/first")
    page.wait_for_selector(f"{ERROR} .main-svg")
    assert page.inner_text("h1#title") == page.evaluate("document.activeElement.textContent") == "group/first"
    assert drawn(page, ERROR) == [0.4, 0.3, 0.2, 0.1]
    assert texts(page, "#keys dt") == [
        "Step", "Cost", "Error", "Own estimate", "Forecast of cost", "Without output", "Time",
        "On 5 points", "On 9 points",
    ]  # fmt: skip
    assert page.inner_text("#keys div:nth-child(2) dd").startswith("171")
    # What runs say is text, whatever it looks like.
    assert EVIL in page.inner_text("#problem")
    assert page.locator("#run img, #run b").count() == 0
    assert page.title() == "group/first · mrafno"

    assert page.locator("#queries tbody tr").count() == 25
    page.click("#older")
    page.wait_for_selector("#queries >> text=q000000")
    assert page.inner_text("#pages") == "37 queries, page 2 of 2"
    page.select_option("#state", "failed")
    until(page, "document.querySelectorAll('#queries tbody tr').length === 1")
    assert EVIL in page.inner_text("#queries tbody")

    page.go_back()
    page.wait_for_selector(NAMES)
    assert page.is_hidden("#run")
    page.click("text=broken")
    page.wait_for_selector("#missing >> text=no whole line")
    page.click("#missing >> text=All runs")
    page.wait_for_selector(NAMES)


def test_an_example_is_viewed(visit, folder):
    page = visit(folder, "?run=real")
    page.select_option("#kind", "test")
    until(page, "document.querySelectorAll('#queries tbody tr').length === 4")
    page.click("#queries tbody tr:last-child a")
    until(page, "document.querySelectorAll('#panels .main-svg').length >= 5")
    headings = ["input", "truth", "prediction", "prediction minus truth", "standard deviation"]
    assert texts(page, "#panels h3") == headings
    assert "Relative L2 error" in page.inner_text("#example-text")
    until(page, "document.querySelectorAll('#panels .heatmaplayer image').length === 5")
    first = page.inner_text("#example-title")
    page.click("#after")
    until(page, "before => document.getElementById('example-title').textContent !== before", first)
    page.click("#close")
    page.wait_for_selector("#example", state="hidden")
    # Of one that is still running, and without a checkpoint, there is the input.
    page.goto(page.url.partition("?")[0] + "?run=second&query=q000007")
    page.wait_for_selector("#panels .main-svg")
    assert texts(page, "#panels h3") == ["input"]
    assert "no checkpoint" in page.inner_text("#example-text")
    assert texts(page, "#running a") == ["q000007"]


def test_a_run_is_watched_while_it_advances(visit, tmp_path):
    """Simulations wait for the test, so that each state can be seen; the page is never loaded again."""
    may = threading.Semaphore(0)

    def solve(f, level):
        may.acquire()
        return smooth(f, level)

    task = FunctionTask(solve, fields(40, 17), ((9,), (17,)), (1.0, 5.0), name="watched")
    page = visit(tmp_path)
    page.wait_for_selector("text=There is no run in this folder yet.")
    page.evaluate("window.same = true")

    def advance():
        with Run.create(tmp_path / "live", task, **SETTINGS) as run:
            run.advance(total_steps=4)

    thread = threading.Thread(target=advance)
    thread.start()
    try:
        page.click("text=live")
        page.wait_for_selector("#running >> text=q000000")
        assert page.inner_text("#running-title") == "Running now"
        may.release(10)  # three of each mesh, and four to test on
        page.wait_for_selector("#running >> text=step 1")
        page.wait_for_selector(f"{ERROR} .main-svg")
        assert len(drawn(page, ERROR)) == 1
        assert page.inner_text("#keys div:nth-child(1) dd").startswith("0")
        may.release(2)
        page.wait_for_selector("#running >> text=step 3")
        points = "card => document.querySelector(card).querySelector('.plot').data[0].y.length === 2"
        until(page, points, ERROR)
        assert page.inner_text("#keys div:nth-child(1) dd").startswith("2")
        page.click("#running a")
        page.wait_for_selector("#example-text >> text=not answered")
        may.release(2)
        page.wait_for_selector("#standing >> text=Finished")
        assert "4 of 4 steps" in page.inner_text("#progress-text")
        # The example that is being looked at has its truth now.
        page.wait_for_selector("#panels >> text=prediction minus truth")
        page.wait_for_selector("#running-part", state="hidden")
        page.wait_for_selector("#now", state="hidden")
    finally:
        may.release(1000)
        thread.join()
    assert page.evaluate("window.same")


def test_nothing_scrolls_sideways_on_a_phone(visit, folder):
    page = visit(folder, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, device_scale_factor=1)
    page.wait_for_selector("text=mra-auto")
    width = "[document.documentElement.scrollWidth, window.innerWidth]"
    assert page.evaluate(width) == [390, 390]
    page.tap("text=real")
    page.wait_for_selector("#figures .main-svg")
    page.tap("#queries tbody a")
    page.wait_for_selector("#panels .main-svg")
    assert page.evaluate(width) == [390, 390]
    inside = "[...document.querySelectorAll('.main-svg')].every(s => s.getBoundingClientRect().right <= 390)"
    assert page.evaluate(inside)


def test_by_keyboard_alone(visit, folder):
    page = visit(folder)
    page.wait_for_selector("text=mra-auto")
    focus = "document.activeElement.textContent.trim() || document.activeElement.id"

    def tab_to(text, most=40):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate(focus) == text:
                outline = "getComputedStyle(document.activeElement).outlineStyle"
                assert page.evaluate(outline) == "solid", f"{text} does not show that it has the focus"
                return
        raise AssertionError(f"{text} cannot be reached by Tab")

    tab_to("Skip to the content", 1)
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to("search", 3)
    page.keyboard.type("group")
    tab_to("Error")
    page.keyboard.press("Enter")
    assert page.get_attribute("th:has-text('Error')", "aria-sort") == "ascending"
    tab_to("group/first")
    page.keyboard.press("Enter")
    page.wait_for_selector("#queries tbody a")
    assert page.evaluate(focus) == "group/first"
    tab_to("Older", 120)
    page.keyboard.press("Space")
    page.wait_for_selector("#queries >> text=q000000")
    assert page.evaluate(focus) == "Older"
    tab_to("q000010")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panels .main-svg")
    until(page, "document.activeElement.id === 'example-title'")
    tab_to("Close", 5)
    page.keyboard.press("Enter")
    page.wait_for_selector("#example", state="hidden")


def test_dark_mode_has_no_black_lines(visit, folder):
    page = visit(folder, "?run=group%2Ffirst&query=q000000", color_scheme="dark")
    page.wait_for_selector("#panels .main-svg")
    assert page.evaluate("document.querySelector('#panels .plot').data[0].line.color") == "#e8e8e8"
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(22, 24, 27)"
    page.emulate_media(color_scheme="light")
    until(page, "document.querySelector('#panels .plot').data[0].line.color === '#222222'")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"


def test_runs_are_filtered_and_laid_over_one_another(visit, folder):
    page = visit(folder)
    page.wait_for_selector("#runs >> text=mra-auto")
    page.select_option("#filter-standing", "failed")
    assert texts(page, NAMES) == ["group/first"]
    page.select_option("#filter-standing", "")
    page.check("#runs [value='group/first']")
    page.check("#runs [value='real']")
    page.wait_for_selector("#overlay .main-svg")
    names = "[...document.querySelector('#overlay .plot').data].map(trace => trace.name.split(',')[0])"
    until(page, f"JSON.stringify({names}) === JSON.stringify(['group/first', 'real'])")
    page.uncheck("#runs [value='real']")
    until(page, f"JSON.stringify({names}) === JSON.stringify(['group/first'])")
    page.click("#overlay-clear")
    page.wait_for_selector("#overlay", state="hidden")


def test_a_point_of_the_map_is_clicked(visit, folder):
    page = visit(folder, "?run=real")
    page.wait_for_selector("#map .main-svg")
    until(page, "document.querySelectorAll('#figures .main-svg').length > 9")  # the page below has its final height
    page.locator("#map .plot").scroll_into_view_if_needed()
    boxes = "[...document.querySelectorAll('#map .scatterlayer .trace')].at(-1).querySelector('.points path')"
    place = page.evaluate(f"(box => [box.x + box.width / 2, box.y + box.height / 2])({boxes}.getBoundingClientRect())")
    row = page.evaluate("document.querySelector('#map .plot').data.at(-1).customdata[0]")
    page.mouse.move(place[0] + 3, place[1])
    page.mouse.click(*place)
    page.wait_for_selector("#example-title >> text=candidate")
    assert page.inner_text("#example-title").startswith("Input: candidate ")
    assert f"input={row}" in page.url
    until(page, "document.querySelectorAll('#panels .heatmaplayer image').length >= 6")
    assert "8x8: prediction" in texts(page, "#panels h3")
    page.click("#example-links a")
    page.wait_for_selector("#example-title >> text=Example q0000")
    # Another colour, chosen by keyboard.
    page.select_option("#map select", label="step")
    grey = "document.querySelector('#map .plot').data[0].marker.color"
    until(page, f"String({grey}).startsWith('rgba')")


def test_figures_are_downloaded(visit, folder, tmp_path):
    page = visit(folder, "?run=group%2Ffirst")
    page.wait_for_selector(f"{ERROR} .main-svg")
    files = {}
    for kind in ("CSV", "PNG", "SVG"):
        with page.expect_download() as download:
            page.click(f"{ERROR} >> text={kind}")
        files[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[kind])
    assert [path.name for path in files.values()] == [f"error-against-cost.{kind}" for kind in ("csv", "png", "svg")]
    lines = files["CSV"].read_text().splitlines()
    assert [line.split(",")[-2] for line in lines[1:]] == ["0.4", "0.3", "0.2", "0.1"]
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files["SVG"].read_text()


def test_notes_are_edited_with_control_only(visit, folder):
    page = visit(folder, "?run=second")
    page.wait_for_selector("#keys dt")
    assert page.is_hidden("#edit")
    page = visit(folder, "?run=second", control=True)
    assert "token" not in page.url
    page.click("#edit")
    page.fill("#note-tags", "good, <i>odd</i>")
    page.fill("#note-text", "<b>why</b>")
    page.click("text=Save")
    page.wait_for_selector("#tags >> text=<i>odd</i>")
    assert page.inner_text("#note") == "<b>why</b>"
    page.click("text=All runs")
    page.select_option("#filter-tag", "good")
    assert texts(page, NAMES) == ["second"]


def test_a_run_is_paused_resumed_and_stopped_from_the_page(visit, tmp_path):
    def solve(f, level):
        time.sleep(0.02)
        return smooth(f, level)

    task = FunctionTask(solve, fields(400, 17), ((9,), (17,)), (1.0, 5.0), name="watched")
    with Run.create(tmp_path / "live", task, **{**SETTINGS, "pool": 380}) as run:
        thread = threading.Thread(target=run.advance, kwargs={"total_steps": 350})
        thread.start()
        try:
            page = visit(tmp_path, "?run=live", control=True)
            page.click("#pause")
            page.wait_for_selector("#standing >> text=Paused")
            step = run.state.step
            page.wait_for_timeout(300)
            assert run.state.step == step < 350
            page.click("#resume")
            page.wait_for_selector("#standing >> text=Running")
            until(page, "step => Number(document.querySelector('#keys dd').firstChild.textContent) > step", step)
            page.click("#stop")
            page.wait_for_selector("#progress-text >> text=stopped on request")
            thread.join(60)
            assert run.state.stopped == "stopped on request"
        finally:
            thread.join(120)
