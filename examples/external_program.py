"""A simulator that is a program of its own: input and output go through .npy files that its command line names.

Here the program is a Python script; anything that reads and writes .npy will do. ``{input}`` and ``{output}`` stand for
the files, ``{level}`` and ``{resolution}`` are there for programs that want to know. What it says when it fails is
recorded, and the run goes on with another input.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from mrafno import Run
from mrafno.tasks import CommandTask

PROGRAM = """
import sys
import numpy as np

source, target, limit = sys.argv[1:]
f = np.load(source)                     # (1, nx, ny): one channel on this level's grid
if f.max() > float(limit):
    sys.exit("the input is too large for this program")
np.save(target, np.cumsum(f, axis=-1) / f.shape[-1])
"""
SETTINGS = {"initial": 3, "test": 2, "members": 2, "iterations": 5, "retries": 0}  # a run of seconds

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="write how long each simulation took as a picture, .svg or .png")
picture = parser.parse_args().picture
with tempfile.TemporaryDirectory() as folder:
    program = Path(folder, "simulator.py")
    program.write_text(PROGRAM)
    x, y = np.meshgrid(np.linspace(0, 1, 16), np.linspace(0, 1, 24), indexing="ij")
    heights = np.random.default_rng(0).uniform(0.5, 1.5, (30, 1, 1))
    task = CommandTask(
        [sys.executable, str(program), "{input}", "{output}", "1.4"],
        inputs=heights * np.sin(np.pi * x) * np.cos(y),  # (30, 16, 24)
        resolutions=((8, 12), (16, 24)),  # grids need not be square
        costs=(1.0, 4.0),
        layout="cells",
        timeout=60.0,  # a program that hangs is ended, with every process it started
    )
    with Run.create(Path(folder, "run"), task, method="random-mix", **SETTINGS) as run:
        print(run.advance(steps=3))
        for query in run.state.queries.values():
            print(query.id, query.kind, "on level", query.level, query.status, query.reason or "")
        if picture:
            from mrafno.plot import simulations
            from mrafno.plot.still import write_still

            write_still(simulations(run), picture)
            print(f"wrote {picture}")
