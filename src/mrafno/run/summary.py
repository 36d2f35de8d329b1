"""What ``mrafno show --json`` prints of a run: its figures, and a row for every step."""

import math
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mrafno.storage.lock import LockState

if TYPE_CHECKING:
    from mrafno.run.state import RunState


def summary(state: "RunState", lock: LockState = "free") -> dict[str, Any]:
    """A run's state as JSON values; the names of its members are kept from version to version."""
    # As they were asked, but for those that were told after what was asked later had been told and measured.
    told = sorted(state.of_kind("pool", "told"), key=lambda q: q.measured)
    measured = {evaluation.step: evaluation for evaluation in state.evaluations}
    steps, spent = [], Fraction(0)  # exact, as the sum of all is
    for number, query in enumerate(told, 1):
        spent += Fraction(query.cost)
        evaluation = measured.get(number)
        steps.append(
            {
                "step": number,
                "query": query.id,
                "candidate": query.row,
                "level": query.level,
                "cost": query.cost,
                "accumulated_cost": float(spent),
                "total_cost": evaluation.spent.total if evaluation else None,
                "seconds": query.seconds,
                "metrics": evaluation.metrics if evaluation else None,
            }
        )
    return {
        "task": state.task["name"],
        "method": state.method,
        "seed": state.seed,
        "state": state.activity(lock),
        "settings": state.settings.as_json(),
        "created": _iso(state.created),
        "updated": _iso(state.last),
        "accumulated_cost": state.cost,
        "spent": state.spent.as_json(),
        "estimate": None if state.error_estimate is None else state.error_estimate.as_json(),
        "initial_cost": math.fsum(q.cost for q in state.of_kind("initial", "told")),
        "test_cost": math.fsum(q.cost for q in state.of_kind("test", "told")),
        "initial_metrics": measured[0].metrics if 0 in measured else None,
        "initial_total_cost": measured[0].spent.total if 0 in measured else None,
        "running": [q.id for q in state.running],
        "failed": [
            {"query": q.id, "reason": q.reason, "cost": q.cost, "seconds": q.seconds}
            for q in state.queries.values()
            if q.status == "failed"
        ],
        "warnings": list(state.warnings.values()),
        "steps": steps,
    }


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
