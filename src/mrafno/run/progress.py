"""How far a run is: its standing in one word, the share of its goals, what is left in time and in cost.

The terminal, the dashboard and the report show these same figures.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mrafno.run.forecasting import forecast_cost
from mrafno.run.spending import Count
from mrafno.run.state import RunState
from mrafno.run.status import Status
from mrafno.storage.lock import LockState

#: ``failed``: an error ended the last advance; ``interrupted``: its process died, or was stopped by Ctrl-C.
Standing = Literal["running", "paused", "waiting", "finished", "stopped", "interrupted", "failed"]
#: Beginnings of the reasons with which an advance ends as it should.
_REACHED = ("finished", "reached", "used up", "asked for the whole pool", "nothing to do")
#: Steps from which the speed is computed.
_SPEED_STEPS = 30


def standing(state: RunState, lock: LockState, status: Status | None = None) -> Standing:
    """Where a run stands."""
    phase = "" if status is None else status.phase
    if lock == "held" and (state.stopped is None or phase):
        return "paused" if phase == "paused" else "running"
    # A process may hold a run that it does not advance any more.
    if state.stopped is None:
        return "waiting" if lock == "free" else "interrupted"
    if state.stopped.startswith(_REACHED):
        return "finished"
    if state.stopped == "interrupted":
        return "interrupted"
    return "stopped" if state.stopped.startswith("stopped") else "failed"


@dataclass(frozen=True)
class Progress:
    """How far a run is on the way to its goals.

    Attributes:
        steps, budget, target: the goals, where there are any.
        share: of the goal that is nearest, from 0 to 1; None without a goal that can be counted.
        seconds_left: until the first goal, at the speed of the last steps; None while that is not known.
        cost_left: of the budget.
        seconds_per_step: of the last steps.
    """

    steps: float | None = None
    budget: float | None = None
    target: float | None = None
    share: float | None = None
    seconds_left: float | None = None
    cost_left: float | None = None
    seconds_per_step: float | None = None


def progress(
    state: RunState, goals: Mapping[str, float], *, count: Count = "total", since: float, now: float
) -> Progress:
    """The progress of a run.

    Args:
        goals: ``steps``, ``budget`` and ``target``, where given.
        count: what the budget covers, see :mod:`mrafno.run.spending`.
        since: when this advance began: time in which the run stood still does not count.
        now: the time.
    """
    steps, budget = goals.get("steps"), goals.get("budget")
    told = state.of_kind("pool", "told")
    step, cost = len(told), state.spent.counted(count)
    reached = [have / goal for have, goal in ((step, steps), (cost, budget)) if goal]
    rests, each = [], None
    # The time before the first step of an advance is that of the initial examples and the first fit.
    recent = sorted((q.answered, q.cost) for q in told if q.answered is not None and q.answered >= since)
    recent = recent[-_SPEED_STEPS - 1 :]
    if len(recent) > 1 and recent[-1][0] > recent[0][0]:
        spent, seconds = math.fsum(cost for _, cost in recent[1:]), recent[-1][0] - recent[0][0]
        each = seconds / (len(recent) - 1)
        if steps is not None:
            rests.append((steps - step) * each)
        if budget is not None and spent > 0:
            rests.append((budget - cost) * seconds / spent)
        # The current step has used some of it.
        rests = [max(rest - (now - recent[-1][0]), 0.0) for rest in rests]
    return Progress(
        steps=steps,
        budget=budget,
        target=goals.get("target"),
        share=min(max(reached), 1.0) if reached else None,
        seconds_left=min(rests) if rests else None,
        cost_left=None if budget is None else max(budget - cost, 0.0),
        seconds_per_step=each,
    )


def outlook(state: RunState, target: float | None) -> str | None:
    """What it will cost to reach the target or, without one, half of the error now; None while too little is known."""
    now = state.measurements[-1].metrics["relative_l2"] if state.measurements else state.estimate
    error = target or (None if now is None else now / 2)
    forecast = forecast_cost(state, error) if error else None
    return None if forecast is None else str(forecast)
