"""The command line: flags to constructors, and no logic.

Commands import what they need when they run, so that ``--help`` answers at once. A new command is a function with
``@app.command()`` in one of these modules, which are imported here for that; errors end in :mod:`mrafno.cli.program`.
"""

from mrafno.cli import by_hand, looking, running, serving, studying, taking
from mrafno.cli.program import app, main

__all__ = ["app", "by_hand", "looking", "main", "running", "serving", "studying", "taking"]
