"""A page on this machine that lists the runs under a folder and shows any of them while it advances.

::

    runs.py      which runs there are, and what each says now: read again only when its ledger grew
    views.py     what the page shows of a run, as JSON values
    examples.py  one example: input, truth, prediction and spread
    site.py      what is found at which address
    server.py    HTTP: who may ask, and how answers travel
    static/      the page itself

Everything is read, nothing is written, and nothing outside the folder is looked at.
"""

from mrafno.dashboard.server import Server

__all__ = ["Server"]
