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
