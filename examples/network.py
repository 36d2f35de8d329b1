"""A network of your own in a run: any torch module from functions on a grid to functions on that grid."""

import tempfile
from pathlib import Path

from torch import nn

import mrafno


def network(domain):
    """Convolutions from (batch, input_channels(domain), points) to (batch, out_channels, points)."""
    return nn.Sequential(
        nn.Conv1d(mrafno.input_channels(domain), 32, 9, padding="same"),
        nn.GELU(),
        nn.Conv1d(32, domain.out_channels, 9, padding="same"),
    )


surrogate = mrafno.SurrogateSpec(network=network, training={"rate": 2e-3})
method = mrafno.Method(acquisition=mrafno.METHODS["coreset-low"].acquisition, surrogate=surrogate, name="convolutions")

if __name__ == "__main__":
    task = mrafno.get_task("burgers")
    quick = {"initial": 4, "test": 20, "pool": 50, "members": 3, "iterations": 50}  # leave out for a useful surrogate
    with mrafno.Run.create(Path(tempfile.mkdtemp()) / "run", task, method, **quick) as run:
        print(run.advance(steps=3))
        print(run.surrogate.predict(task.sample(2)).std.shape)
