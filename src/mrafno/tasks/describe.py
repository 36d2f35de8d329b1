"""A table of the built-in tasks."""

from collections.abc import Sequence

from rich.table import Table

from mrafno.tasks.registry import TASKS, get_task


def task_table(names: Sequence[str] = ()) -> Table:
    """Name, input, output, meshes and costs of these tasks, or of all."""
    table = Table(title="Problems")
    for heading in ("name", "input", "output", "meshes", "cost of one solve"):
        table.add_column(heading, overflow="fold")
    for name in names or TASKS:
        task = get_task(name)
        table.add_row(
            name,
            ", ".join([_function(task.input_name, task.domain.function_channels), *task.parameters]),
            _function(task.output_name, task.out_channels),
            ", ".join("x".join(map(str, shape)) for shape in task.resolutions),
            " : ".join(f"{cost:g}" for cost in task.costs),
        )
    return table


def _function(name: str, channels: int) -> str:
    return name if channels == 1 else f"{name} ({channels} frames)"
