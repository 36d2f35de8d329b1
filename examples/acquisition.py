"""A way to choose inputs of your own: the largest ensemble spread on the finest mesh, per cost."""

import tempfile
from pathlib import Path

import numpy as np

import mrafno


class Greedy:
    """Largest predicted standard deviation at the finest level, per cost."""

    name = "greedy"

    def score(self, context, chosen):
        spread = context.predict(level=-1).std.mean(axis=(1, 2))  # (candidates,)
        return spread[:, None] / np.asarray(context.costs)  # (candidates, levels)


method = mrafno.Method(acquisition=Greedy())

if __name__ == "__main__":
    task = mrafno.get_task("burgers")
    quick = {"initial": 4, "test": 20, "pool": 50, "members": 3, "iterations": 50}  # leave out for a useful surrogate
    with mrafno.Run.create(Path(tempfile.mkdtemp()) / "run", task, method, **quick) as run:
        print(run.advance(steps=5))
        print([(query.row, query.level) for query in run.state.of_kind("pool")])
