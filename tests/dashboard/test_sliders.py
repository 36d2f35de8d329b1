"""Sliders through fields of more than two dimensions, in a real browser."""

from mrafno.report import write_report
from mrafno.run import Run
from mrafno.tasks import get_task
from tests.browser import until


def test_a_slider_goes_through_slices(visit, chromium, tmp_path):
    """Of a field in three dimensions, on the page of the dashboard and in a report."""
    settings = {"pool": 4, "initial": 2, "test": 1, "members": 2, "iterations": 2}
    task = get_task("diffusion3d", resolutions=((4,) * 3, (6,) * 3))
    with Run.create(tmp_path / "runs" / "box", task, **settings) as run:
        run.advance(steps=0)
        y = run.recorder.example(run.state.queries["q000004"])[1][0]
    write_report([tmp_path / "runs" / "box"], tmp_path / "report.html")
    page = visit(tmp_path / "runs", "?run=box&query=q000004")
    page.wait_for_selector("#panels >> text=truth")
    total = "plot => [...plot._fullData[0].z].flatMap(row => [...row]).reduce((a, b) => a + b, 0)"
    drawn_sum = f"({total})(document.querySelectorAll('#panels .plot')[1])"

    def shows(field):
        until(page, f"sum => Math.abs({drawn_sum} - sum) < 1e-4 * Math.abs(sum)", float(field.sum()))

    shows(y[:, :, 3])
    page.focus("#frames input")
    said = page.inner_text("#frames output")
    page.keyboard.press("ArrowRight")
    shows(y[:, :, 4])
    assert page.inner_text("#frames output") != said
    page.keyboard.press("Home")
    shows(y[:, :, 0])
    assert page.evaluate("document.activeElement.type") == "range"

    # A report has all slices.
    context = chromium.new_context()
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    slider, plots = page.locator(".frame input").last, "[...document.querySelectorAll('.panels')].at(-1)"
    slider.scroll_into_view_if_needed()
    until(page, f"[...{plots}.querySelectorAll('.plot')].every(plot => plot._fullData)")
    seen = (
        f"[...{plots}.querySelectorAll('.plot')].map(plot => plot._fullData.findIndex(trace => trace.visible === true))"
    )
    assert set(page.evaluate(seen)) == {3}
    said = page.locator(".frame output").last.inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    until(page, f"{seen}.every(place => place === 4)")
    assert page.locator(".frame output").last.inner_text() != said
    context.close()
