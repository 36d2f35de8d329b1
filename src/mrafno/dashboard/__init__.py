"""A local web page that lists the runs under a folder and shows each of them while it advances.

::

    runs.py      finds runs and reads them, again only when their ledgers grew
    views.py     content of the page for a run, as JSON values
    examples.py  one example: input, truth, prediction and spread
    site.py      responses by address
    server.py    HTTP: access checks, headers, compression
    static/      the page itself

It writes nothing, and reads nothing outside the folder. May import ``run`` (its readers), ``plot`` and ``report``.
"""

from mrafno.dashboard.server import Server

__all__ = ["Server"]
