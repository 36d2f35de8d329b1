"""The queries of a run as a pandas DataFrame, in the order in which they were asked.

Columns: ``query``, ``kind``, ``status``, ``step``, ``candidate``, ``level``, ``mesh``, ``cost``, ``seconds``,
``asked``, ``answered`` (times), ``error_before_training``, ``measured_error`` (on the test examples after this step),
``total_cost`` (of the run until it was answered), ``reason``, and one column for each parameter of the inputs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrafno.errors import RunError
from mrafno.run.records import QueryRecord
from mrafno.run.state import RunState
from mrafno.storage.ledger import Ledger

if TYPE_CHECKING:
    from pandas import DataFrame


def query_frame(state: RunState, ledger: Ledger) -> "DataFrame":
    """The queries of a run, a row each; needs pandas."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError as error:
        raise RunError("to_dataframe: it needs pandas. Install it with pip install pandas.") from error
    return pandas.DataFrame(query_rows(state, ledger)).astype(
        {name: kind for name, kind in _TYPES.items() if state.queries}
    )


#: Columns that have gaps, and their types.
_TYPES = {
    "step": "Int64", "candidate": "Int64", "asked": "datetime64[s]", "answered": "datetime64[s]", "cost": "float64",
    "seconds": "float64", "error_before_training": "float64", "measured_error": "float64", "total_cost": "float64",
}  # fmt: skip


def query_rows(state: RunState, ledger: Ledger) -> list[dict[str, Any]]:
    """The rows, as values by the names of the columns."""
    before = {query.id: error for query, error in state.prequential_errors()}
    measured = {step["query"]: step for step in state.as_json()["steps"]}
    names = tuple(state.task.get("parameter_names") or ())
    meshes = ["x".join(map(str, shape)) for shape in state.task["resolutions"]]

    def row(query: QueryRecord) -> dict[str, Any]:
        step = measured.get(query.id, {})
        metrics = step.get("metrics") or {}
        values = {
            "query": query.id,
            "kind": "chosen" if query.kind == "pool" else query.kind,
            "status": query.standing,
            "step": query.step,
            "candidate": query.row if query.kind == "pool" else None,
            "level": query.level,
            "mesh": meshes[query.level],
            "cost": query.cost if query.status == "told" else None,
            "seconds": query.seconds,
            "asked": int(query.asked),
            "answered": None if query.answered is None else int(query.answered),
            "error_before_training": before.get(query.id),
            "measured_error": metrics.get("relative_l2"),
            "total_cost": step.get("total_cost"),
            "reason": query.reason,
        }
        if names:
            f = ledger.read_array(query.input)
            values |= {name: float(f[len(f) - len(names) + i].flat[0]) for i, name in enumerate(names)}
        return values

    return [row(query) for query in state.queries.values()]
