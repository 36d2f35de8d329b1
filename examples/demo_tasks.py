"""Solve one input of every shipped problem on each of its meshes, and write a page of pictures."""

import argparse
import time
from pathlib import Path

from rich.console import Console

from mrafno.grids import relative_l2, resample
from mrafno.plot.fields import task_figure
from mrafno.report.html import write_page
from mrafno.tasks import TASKS, get_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo/tasks.html"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console()
    sections = []
    for name in TASKS:
        task = get_task(name)
        f = task.sample(1, seed=arguments.seed)
        outputs, times = [], []
        for level in range(task.levels):
            restricted = task.restrict(f, level)
            start = time.perf_counter()
            outputs.append(task.solve(restricted, level))
            times.append(time.perf_counter() - start)
        distance = relative_l2(outputs[0], resample(outputs[-1], task.grids[-1], task.grids[0]))[0]
        meshes = ", ".join(
            f"{'x'.join(map(str, shape))} in {1e3 * seconds:.1f} ms"
            for shape, seconds in zip(task.resolutions, times, strict=True)
        )
        frames = " The last of 20 frames is shown." if task.out_channels > 1 else ""
        text = f"Input: {task.input_name}. Output: {task.output_name}.{frames} Solved on {meshes}. "
        console.print(f"[bold]{name}[/bold]: {meshes}; coarsest from finest {distance:.2%}")
        text += f"Relative L2 distance of the coarsest solution from the finest: {distance:.2%}."
        sections.append((name, text, task_figure(task, f[0], [y[0] for y in outputs])))
    lead = "One input of each problem, solved on every mesh. Coarse solutions cost less and are biased."
    write_page(arguments.out, "mrafno: the problems", lead, sections)
    console.print(f"Open [bold]{arguments.out.resolve().as_uri()}[/bold] in a browser.", soft_wrap=True)


if __name__ == "__main__":
    main()
