"""The command line: flags to constructors, and no logic.

Commands import what they need when they run, so that ``--help`` is fast. A new command is a function with
``@app.command()`` in one of these modules, which are imported here to register it. Flags are in
:mod:`mrafno.cli.options`; errors and exit codes in :mod:`mrafno.cli.program`.

May import every other package; nothing imports it.
"""

from mrafno.cli import ask_tell, dashboard, export, inspect, mend, run, study
from mrafno.cli.program import app, main

__all__ = ["app", "ask_tell", "dashboard", "export", "inspect", "main", "mend", "run", "study"]
