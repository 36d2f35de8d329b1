"""A local web page that lists the runs under a folder and shows each of them while it advances.

::

    runs.py      finds runs and reads them, again only when their ledgers grew
    views.py     content of the page for a run, as JSON values
    examples.py  one input: what was simulated of it, prediction and spread
    maps.py      the map of a run's inputs
    site.py      responses by address
    server.py    HTTP: access checks, headers, compression
    static/      the page itself

It writes nothing unless it is started with control, and reads nothing outside the folder. May import ``run`` (its
readers), ``plot`` and ``report``.
"""

from mrafno.dashboard.server import Server

__all__ = ["Server"]
