"""The command line: flags to constructors, and no logic.

Commands import what they need when they run, so that ``--help`` answers at once. A new command is a function with
``@app.command()`` in one of these modules, which are imported here for that; errors end in :mod:`mrafno.cli.program`.

May import every other package; nothing imports it.
"""

from mrafno.cli import ask_tell, dashboard, export, inspect, run, study
from mrafno.cli.program import app, main

__all__ = ["app", "ask_tell", "dashboard", "export", "inspect", "main", "run", "study"]
