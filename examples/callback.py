"""A callback of your own in a run: it writes a line of CSV after each evaluation."""

import csv
import tempfile
from pathlib import Path

import numpy as np

from mrafno import Run
from mrafno.tasks import FunctionTask


class CsvLog:
    def __init__(self, path):
        self.path = Path(path)

    def on_evaluated(self, run, evaluation):
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerow([evaluation.step, evaluation.cost, evaluation.metrics["relative_l2"]])


candidates = np.random.default_rng(0).normal(size=(50, 4)) @ np.sin(np.outer(np.arange(1, 5), np.linspace(0, 3, 33)))
task = FunctionTask(lambda f, level: np.cumsum(f, axis=-1) / f.shape[-1], candidates, (9, 33), (1.0, 16.0))
quick = {"initial": 4, "test": 10, "members": 3, "iterations": 20, "evaluate": 2}

with tempfile.TemporaryDirectory() as folder:
    with Run.create(f"{folder}/run", task, callbacks=[CsvLog(f"{folder}/errors.csv")], **quick) as run:
        run.advance(steps=4)
    print(Path(f"{folder}/errors.csv").read_text(), end="")
