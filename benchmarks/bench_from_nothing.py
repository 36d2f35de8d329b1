"""A run of mra-auto that begins from nothing: its error at total costs, and what it knows of it.

    python -m benchmarks.bench_from_nothing [TASK] [--budget 350] [--seeds 0,1,2] [--out build/from-nothing]

Costs are those of all examples, the first ones included. A hundred test examples show the error and are not counted, as
no run needs them. A run is kept in the output folder and not made again.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import mrafno
from mrafno.analysis.curves import Curve, at_costs
from mrafno.run import Run, RunReader


def advanced(task: str, seed: int, budget: float, folder: Path) -> RunReader:
    """A run that has spent the budget."""
    if not folder.exists():
        started, unfinished = time.process_time(), folder.with_name(f".{folder.name}-{time.time_ns()}")
        with Run.create(unfinished, mrafno.get_task(task), "mra-auto", seed, test=100, evaluate=5) as run:
            run.advance(budget=budget, count="training")
        unfinished.rename(folder)
        print(f"{folder.name}: {time.process_time() - started:.0f} s of processor time", flush=True)
    return RunReader(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="burgers")
    parser.add_argument("--budget", type=float, default=350.0)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=Path("build/from-nothing"))
    given = parser.parse_args()
    costs = [given.budget * part / 7 for part in range(3, 8)]
    print(
        f"{given.task}, error at a total cost of\n{'':<8}" + "".join(f"{cost:>9.4g}" for cost in costs) + "   estimate"
    )
    found = []
    for seed in map(int, given.seeds.split(",")):
        reader = advanced(given.task, seed, given.budget, given.out / f"{given.task}-{seed}")
        curve = reader.state.error_curve(count="training")
        assert curve is not None, "a run with test examples measures its error"
        reached = Curve((*curve.costs, given.budget + 1), (*curve.errors, curve.errors[-1]))  # the last error stays
        found.append(at_costs([reached], costs)[0])
        estimate, bought = reader.state.error_estimate, reader.state.counts(len(reader.costs), "told")
        row = "".join(f"{error:>9.4f}" for error in found[-1])
        print(f"seed {seed:<3}{row}   {estimate.interval if estimate else 'none yet'}; examples {bought}", flush=True)
    print(f"{'mean':<8}" + "".join(f"{error:>9.4f}" for error in np.mean(found, axis=0)))


if __name__ == "__main__":
    main()
