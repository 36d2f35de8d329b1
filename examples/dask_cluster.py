"""A run whose simulations go to the workers of a Dask cluster, a new one as soon as a worker is free.

The cluster here is one of this machine, with a scheduler and two worker processes. On Slurm only two lines change::

    from dask_jobqueue import SLURMCluster
    SLURMCluster(cores=1, processes=1, memory="8GB", walltime="04:00:00", n_workers=32) as cluster,

Then the run directory has to be on a file system that all nodes share: each worker puts its results there by itself.
"""

import argparse
import os
import tempfile
from functools import partial

import numpy as np
from distributed import LocalCluster

from mrafno import Run
from mrafno.simulation.executors import dask_executor
from mrafno.tasks import FunctionTask


def simulate(f, level):
    """A stand-in for hours of work, (1, n) to (1, n): a running mean; it tells who did it."""
    print(f"process {os.getpid()} simulates on level {level}")
    return np.cumsum(f, axis=-1) / f.shape[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", help="write which mesh was chosen when as a picture, .svg or .png")
    picture = parser.parse_args().picture
    x, frequencies = np.linspace(0, 1, 33), np.random.default_rng(0).uniform(1, 6, (40, 1))
    task = FunctionTask(simulate, np.sin(frequencies * x), resolutions=(9, 33), costs=(1.0, 4.0))
    quick = {"initial": 3, "test": 4, "members": 2, "iterations": 5}  # a run of seconds
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        tempfile.TemporaryDirectory() as folder,
        Run.create(f"{folder}/run", task, method="mra-uhat", **quick) as run,
    ):
        there = partial(dask_executor, cluster.scheduler_address)  # made anew, should the connection break
        print(run.advance(steps=4, executor=there, asynchronous=True, workers=2))
        print("asked for (candidate, level):", [(q.row, q.level) for q in run.state.of_kind("pool")])
        if picture:
            from mrafno.plot import meshes
            from mrafno.plot.still import write_still

            write_still(meshes(run), picture)
            print(f"wrote {picture}")


if __name__ == "__main__":  # workers import this file
    main()
