"""What one simulation costs on each level: as the task declares it, or learnt from the seconds that simulations took.

Both follow from the ledger alone, so a run that is resumed has the prices that it had.
"""

from mrafno.run.state import RunState

#: Simulations of a level, the first one left out, from which on declared costs are compared with seconds.
_ENOUGH = 3
#: Factor between declared and seen ratios of costs that is worth a warning.
_FACTOR = 2.0
#: Shortest typical seconds of the slowest level whose ratio says something of the simulator.
_SHORTEST = 0.05
#: Smallest price: a budget is divided by it.
_LEAST = 1e-9


def is_measured(state: RunState) -> bool:
    """Whether the task's costs are the seconds that its simulations take."""
    return bool(state.task.get("measured_costs", False))


def prices(state: RunState) -> tuple[float, ...]:
    """Price of one simulation on each level.

    Of measured costs it is the typical time of a level. A level without simulations has that of the nearest level that
    has some, times the ratio of their numbers of grid points; before all simulations that ratio alone.
    """
    declared = tuple(float(cost) for cost in state.task["costs"])
    if not is_measured(state):
        return declared
    seen = typical_seconds(state)
    known = [level for level, seconds in enumerate(seen) if seconds is not None]
    found = []
    for level, guess in enumerate(declared):
        nearest = min(known, key=lambda other: (abs(other - level), other), default=None)
        seconds = 1.0 if nearest is None else seen[nearest] or 0.0
        found.append(max(seconds * guess / declared[0 if nearest is None else nearest], _LEAST))
    return tuple(found)


def typical_seconds(state: RunState) -> list[float | None]:
    """Median time of the simulations of each level that gave an output; None of a level without any.

    The first one is left out where there are others: it may have compiled code or filled caches.
    """
    return [state.queries.durations.typical(level) for level in range(len(state.task["costs"]))]


def mismatch(state: RunState) -> str | None:
    """A warning if declared costs are far from the times that simulations took; None if not, or not known.

    Built-in tasks have the costs of their publication, so nothing is said of those.
    """
    if is_measured(state) or state.task["builtin"]:
        return None
    declared, seen = prices(state), typical_seconds(state)
    known = [level for level in range(len(declared)) if state.queries.durations.number(level) >= _ENOUGH]
    times = {level: seen[level] or 0.0 for level in known}
    if len(known) < 2 or max(times.values()) < _SHORTEST:
        return None
    first = known[0]
    ratios = {level: (declared[level] / declared[first], times[level] / max(times[first], _LEAST)) for level in known}
    if all(1 / _FACTOR <= said / max(took, _LEAST) <= _FACTOR for said, took in ratios.values()):
        return None
    said, took = (" : ".join(f"{pair[i]:.3g}" for pair in ratios.values()) for i in range(2))
    seconds = ", ".join(f"{times[level]:.3g} s" for level in known)
    return (
        f"The declared costs of {state.task['name']} are as {said}, but its simulations take {seconds}, as {took}. "
        'Choices and budgets follow the declared costs. Declare others, or costs="measured".'
    )
