"""A simulator that is a program of its own: input and output go through .npy files that its command line names.

Here the program is a Python script; anything that reads and writes .npy will do. ``{input}`` and ``{output}`` stand for
the files, ``{level}`` and ``{resolution}`` are there for programs that want to know.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from mrafno.errors import SimulationError
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

with tempfile.TemporaryDirectory() as folder:
    program = Path(folder, "simulator.py")
    program.write_text(PROGRAM)
    task = CommandTask(
        [sys.executable, str(program), "{input}", "{output}", "5.0"],
        inputs=np.random.default_rng(0).standard_normal((50, 32, 48)),
        resolutions=((16, 24), (32, 48)),  # grids need not be square
        costs=(1.0, 4.0),
        layout="cells",
        timeout=60.0,  # a program that hangs is ended, with every process it started
    )
    f = task.sample(2)
    y = task.solve(f, 1)
    print("solved", y.shape)
    try:
        task.solve(f + 10, 1)
    except SimulationError as error:
        print("failed as it should:", error)
