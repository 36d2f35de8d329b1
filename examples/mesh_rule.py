"""A rule of your own for which mesh comes next: one fine simulation after every four coarse ones."""

import tempfile
from pathlib import Path

import mrafno
from mrafno.acquisition import Information


class EveryFifth:
    """The finest level at every fifth choice, the coarsest at all others."""

    name = "every-fifth"

    def gains(self, context, chosen):
        number = len(context.observed) + len(chosen) + 1
        best = context.levels - 1 if number % 5 == 0 else 0
        return [float(level == best) for level in range(context.levels)]


method = mrafno.Method(acquisition=Information("all"), mesh_rule=EveryFifth(), name="every-fifth")

if __name__ == "__main__":
    task = mrafno.get_task("burgers")
    quick = {"initial": 4, "test": 20, "pool": 50, "members": 3, "iterations": 50}  # leave out for a useful surrogate
    with mrafno.Run.create(Path(tempfile.mkdtemp()) / "run", task, method, **quick) as run:
        print(run.advance(steps=6))
        print([query.level for query in run.state.of_kind("pool")])
