"""Advance a run by its loop, with its status on disk and requests from other processes taken."""

import warnings
from typing import TYPE_CHECKING

from mrafno.errors import MrafnoWarning, StopRequested
from mrafno.run.control import Controlled, Watch
from mrafno.run.goals import Goals, SimulationOptions
from mrafno.run.loop import Loop
from mrafno.run.status import StatusWriter

if TYPE_CHECKING:  # a run drives itself by this
    from mrafno.run.run import Run


def drive(run: "Run", goals: Goals, options: SimulationOptions, watch: Watch, *, progress: bool = False) -> str:
    """Advance to the goals, and return why the advance ended.

    Args:
        watch: called with what the run is doing.
        progress: show a progress bar while the first examples are simulated.
    """
    wanted = {"steps": goals.steps, "budget": goals.budget, "target": goals.target}
    status = StatusWriter(run.path, wanted, goals.count)
    loop = Loop(
        run.recorder,
        run.session,
        run.trainer,
        run.task,
        ask=run.ask_for_loop,
        goals=goals,
        options=options,
        watch=Controlled(run.path, status, watch, lambda: run.trainer.ahead),
    )
    known = set(run.state.warnings)
    try:
        reason = loop.run(progress=progress)
        for about, text in run.state.warnings.items():
            if about not in known:
                warnings.warn(text, MrafnoWarning, stacklevel=3)
        return reason
    except StopRequested as request:
        return str(request)  # the loop has recorded it
    finally:
        status.end()
