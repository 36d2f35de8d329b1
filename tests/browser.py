"""A real browser, where there is one."""

import shutil

#: It needs no network, and in a container it may not have a sandbox.
ARGUMENTS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
MISSING = "no chromium found: install Debian's package chromium"


def find_chromium():
    """The path of a Chromium or Chrome; None if there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def until(page, expression, arg=None):
    """Wait until it is true. Playwright's own way evaluates text inside the page, which the page's policy forbids."""
    for _ in range(600):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it never became true: {expression}")
