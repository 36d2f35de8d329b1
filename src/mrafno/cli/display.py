"""Progress of a run: a live display on a terminal, plain lines elsewhere, or JSON lines.

All three are watchers, see :class:`mrafno.run.loop.Watcher`: they read the run's state and change nothing.
"""

import abc
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mrafno.errors import printable
from mrafno.plot.text import duration, mesh_name
from mrafno.run.fit_time import FitAhead
from mrafno.run.progress import outlook, progress
from mrafno.run.spending import Count, Spent
from mrafno.run.state import RunState

#: Seconds between plain lines; every measurement has a line of its own.
_LINE_SECONDS = 10.0
#: Fits that take longer are announced on a line of their own, and again if they take so many times as long as was said.
_ANNOUNCED_SECONDS, _LONGER = 10.0, 1.5


class HasState(Protocol):
    """What a display needs of a run."""

    @property
    def state(self) -> RunState:
        """The state after the last event."""


@dataclass(frozen=True)
class Snapshot:
    """A run's figures at one moment.

    Attributes:
        step: chosen examples that have been simulated.
        spent: what the run has spent.
        error: last measured relative L2 error on the test examples; measured: the step after which it was measured.
        estimate: the run's own estimate of its error, on examples that single networks were not trained on.
        meshes: names of the resolutions, with the number of training examples and running queries of each.
        failed: number of failed simulations.
        seconds: recorded time of each phase.
    """

    step: int
    spent: Spent
    error: float | None
    measured: int | None
    estimate: float | None
    meshes: tuple[str, ...]
    examples: tuple[int, ...]
    running: tuple[int, ...]
    failed: int
    seconds: dict[str, float]

    @staticmethod
    def of(state: RunState) -> "Snapshot":
        """The figures of a state, to which another thread may append events meanwhile."""
        queries = list(state.queries.values())
        trainings, evaluations = list(state.trainings), list(state.evaluations)
        meshes = tuple(mesh_name(shape) for shape in state.task["resolutions"])
        told = [q for q in queries if q.status == "told"]
        bought = [q for q in told if q.kind == "pool"]
        last = measurements[-1] if (measurements := state.measurements) else None
        levels = range(len(meshes))
        return Snapshot(
            step=len(bought),
            spent=state.spent,
            error=last.metrics["relative_l2"] if last else None,
            measured=last.step if last else None,
            estimate=state.estimate,
            meshes=meshes,
            examples=tuple(sum(q.level == level and q.kind != "test" for q in told) for level in levels),
            running=tuple(sum(q.level == level and q.status == "running" for q in queries) for level in levels),
            failed=sum(q.status == "failed" for q in queries),
            seconds={
                "simulating": sum(q.seconds or 0.0 for q in told),
                "training": sum(t.seconds for t in trainings),
                "choosing": sum(q.choice.get("seconds", 0.0) for q in queries),
                "evaluating": sum(e.seconds for e in evaluations),
            },
        )

    def queries(self) -> str:
        """Examples of each resolution, as in ``33: 12 (1 running), 129: 5``."""
        counts = zip(self.meshes, self.examples, self.running, strict=True)
        text = ", ".join(f"{mesh}: {n}" + (f" ({now} running)" if now else "") for mesh, n, now in counts)
        return text + (f", {self.failed} failed" if self.failed else "")


class Display(abc.ABC):
    """A watcher that shows where a run is and how long the rest will take; leaving its context ends the display.

    Args:
        goals: steps, budget and target, where given.
        count: what costs have, see :mod:`mrafno.run.spending`.
        ahead: returns the fit that is about to start or going on.
    """

    def __init__(
        self,
        run: HasState,
        goals: Mapping[str, float],
        count: Count = "total",
        *,
        ahead: Callable[[], FitAhead | None] = lambda: None,
    ) -> None:
        self.run, self.goals, self.count, self.ahead = run, goals, count, ahead
        self.phase: str = "starting"
        self.done: float | None = None
        #: By the clock of the events, and by one that is never set back.
        self.began = time.time()
        self.started = self.since = time.monotonic()
        self._clock, self._reported, self._done_before = self.started, self.started, 0.0
        self._fit, self._announced = "", 0.0
        self._expected: float | None = None
        self._evaluations_shown = len(run.state.evaluations)

    def __call__(self, phase: str, done: float | None = None) -> None:
        """Update, see :class:`mrafno.run.loop.Watcher`."""
        fit = self.ahead() if phase == "training" else None
        name = str(fit or "")
        if phase != self.phase or name != self._fit:
            self.since, self._announced = time.monotonic(), 0.0
            self._clock, self._done_before = self.since, done or 0.0
        elif done and not self._done_before:
            # The clock starts with the first iteration, which is slower than the others.
            self._clock, self._done_before = time.monotonic(), done
        self.phase, self.done, self._fit, self._reported = phase, done, name, time.monotonic()
        self._expected = fit.seconds if fit else None
        self._announce_if_long()
        self._show()

    def _announce_if_long(self) -> None:
        """Say how long a fit will take: before it starts, from the second one on; again if it is clearly longer."""
        left = self.phase_left() if self._fit else None
        if left is None or left < max(_ANNOUNCED_SECONDS, _LONGER * self._announced):
            return
        longer = ", longer than expected" if self._announced else ""
        self._announced = left
        self._announce(f"{self._fit}: about {duration(left)}{longer}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 (a display of lines has nothing to stop)
        """Stop showing."""

    def warn(self, text: str) -> None:
        """Show a warning, apart from the results."""
        print(printable(f"warning: {text}"), file=sys.stderr, flush=True)

    @abc.abstractmethod
    def finish(self, outcome: str, reason: str) -> None:
        """Show the end: ``done``, ``interrupted`` or ``failed``, and why."""

    def _announce(self, text: str) -> None:  # noqa: B027 (not every display announces)
        """Say how long a fit will take."""

    def phase_left(self) -> float | None:
        """Seconds until the phase ends, at its speed so far, or as expected before that is known; None if unknown."""
        now = time.monotonic()
        if not self.done or self.done <= self._done_before:
            return None if self._expected is None else max(self._expected - (now - self.since), 0.0)
        left = (self._reported - self._clock) * (1 - self.done) / (self.done - self._done_before)
        return max(left - (now - self._reported), 0.0)

    @abc.abstractmethod
    def _show(self) -> None:
        """Show where the run stands."""

    def _measured(self) -> bool:
        """Whether the run was measured since the last call."""
        before, self._evaluations_shown = self._evaluations_shown, len(self.run.state.evaluations)
        return self._evaluations_shown > before

    def time_left(self) -> float | None:
        """Seconds to the first goal at the speed of the last steps; None while the speed is unknown."""
        return progress(self.run.state, self.goals, count=self.count, since=self.began, now=time.time()).seconds_left

    def _cost(self, now: Snapshot) -> str:
        cost, budget = now.spent.counted(self.count), self.goals.get("budget")
        return f"{cost:g}" if budget is None else f"{cost:g}, {max(budget - cost, 0):g} left of {budget:g}"

    def activity(self) -> str:
        """The phase, and the share of it that is done."""
        return self.phase if self.done is None else f"{self.phase} {100 * self.done:.0f} %"


class LiveDisplay(Display):
    """A block on a terminal, redrawn four times a second."""

    def __init__(
        self, run: HasState, goals: Mapping[str, float], console: Console, count: Count = "total", **more: Any
    ) -> None:
        super().__init__(run, goals, count, **more)
        self._end = ""
        self._ahead: tuple[tuple[int, int], str | None] | None = None
        #: The phase, by when it began, and the seconds that were recorded then.
        self._counted: tuple[float, dict[str, float]] = (-1.0, {})
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4)

    def _show(self) -> None:
        # Started late, because simulating the initial examples has its own progress bar.
        if not self._live.is_started:
            self._live.start(refresh=True)

    def finish(self, outcome: str, reason: str) -> None:
        """Leave the last figures on the screen."""
        self._end = f"{outcome}: {reason}" if outcome != "done" else reason
        self._show()

    def warn(self, text: str) -> None:
        """Print a warning above the block."""
        self._live.console.print(Text(printable(f"warning: {text}")))

    def __exit__(self, *_: object) -> None:
        """Draw once more and stop."""
        if self._live.is_started:
            self._live.stop()

    def render(self) -> RenderableType:
        """The block, one figure per line; called by the drawing thread."""
        state, now = self.run.state, Snapshot.of(self.run.state)
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="bold", no_wrap=True, width=8)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, value in (
            ("run", f"{state.task['name']}, {state.method}, seed {state.seed}"),
            ("step", _of(now.step, self.goals.get("steps"))),
            ("cost", self._cost(now)),
            ("error", _error(now, self.goals.get("target"))),
            *([("forecast", ahead)] if (ahead := self._outlook()) else []),
            ("examples", now.queries()),
            ("time", self._times(now)),
            ("now", self._now(now)),
        ):
            table.add_row(name, Text(value))
        share = self._share(now)
        if share is not None:
            table.add_row("", ProgressBar(total=1.0, completed=share, width=60))
        return table

    def _outlook(self) -> str | None:
        """The forecast, made again after each fit or measurement only."""
        state = self.run.state
        version = len(state.trainings), len(state.evaluations)
        if self._ahead is None or self._ahead[0] != version:
            self._ahead = version, outlook(state, self.goals.get("target"))
        return self._ahead[1]

    def _times(self, now: Snapshot) -> str:
        seconds = dict(now.seconds)
        if self._counted[0] != self.since:
            self._counted = self.since, seconds
        if self.phase in seconds and not self._end:
            # What the phase has taken so far is recorded while it goes on.
            spent = self._counted[1][self.phase] + time.monotonic() - self.since
            seconds[self.phase] = max(seconds[self.phase], spent)
        return ", ".join(f"{phase} {duration(spent)}" for phase, spent in seconds.items())

    def _now(self, now: Snapshot) -> str:
        if self._end:
            return self._end
        time_left = self.time_left()
        fit_left = self.phase_left() if self.phase == "training" else None
        soon = f" ({self._fit}, about {duration(fit_left)})" if fit_left and fit_left >= 1 else ""
        return self.activity() + soon + (f", about {duration(time_left)} left" if time_left else "")

    def _share(self, now: Snapshot) -> float | None:
        shares = [
            have / self.goals[goal]
            for goal, have in (("steps", now.step), ("budget", now.spent.counted(self.count)))
            if self.goals.get(goal, 0) > 0
        ]
        return min(max(shares), 1.0) if shares else None


class LineDisplay(Display):
    """A line for every measurement, and one every ten seconds in between."""

    def __init__(
        self, run: HasState, goals: Mapping[str, float], file: TextIO, count: Count = "total", **more: Any
    ) -> None:
        super().__init__(run, goals, count, **more)
        self._file, self._last = file, time.monotonic()

    def _announce(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()

    def _show(self) -> None:
        if self._measured():
            self._print()
        elif time.monotonic() - self._last >= _LINE_SECONDS:
            self._print(self.activity())

    def finish(self, outcome: str, reason: str) -> None:
        """Print a last measurement, and the end."""
        if self._measured():
            self._print()
        if outcome == "done":
            print(reason, file=self._file, flush=True)

    def _print(self, *more: str) -> None:
        now = Snapshot.of(self.run.state)
        time_left = self.time_left()
        parts = [
            f"step {_of(now.step, self.goals.get('steps'))}",
            f"cost {self._cost(now)}",
            f"error {_error(now, self.goals.get('target'))}",
            f"examples {now.queries()}",
            *more,
            f"{duration(time.monotonic() - self.started)} so far",
            *([f"about {duration(time_left)} left"] if time_left else []),
        ]
        # In one call, so that the output of other threads does not split the line.
        self._file.write("; ".join(parts) + "\n")
        self._file.flush()
        self._last = time.monotonic()


class JsonDisplay(Display):
    """One JSON object per line: for every measurement, and for the end."""

    def __init__(
        self, run: HasState, goals: Mapping[str, float], file: TextIO, count: Count = "total", **more: Any
    ) -> None:
        super().__init__(run, goals, count, **more)
        self._file = file

    def _show(self) -> None:
        if self._measured():
            self._print(event="evaluated")

    def finish(self, outcome: str, reason: str) -> None:
        """Print the last object, with the reason for the end."""
        self._show()
        self._print(event="ended", outcome=outcome, reason=reason)

    def _print(self, **what: Any) -> None:
        state, now = self.run.state, Snapshot.of(self.run.state)
        last = state.evaluations[-1] if state.evaluations else None
        figures = {
            "step": now.step,
            "accumulated_cost": now.spent.chosen,
            "spent": now.spent.as_json(),
            "metrics": last and last.metrics,
            "measured_at_step": last and last.step,
            "estimate": now.estimate,
            "examples": dict(zip(now.meshes, now.examples, strict=True)),
            "failed": now.failed,
            "seconds": now.seconds,
        }
        self._file.write(json.dumps({**what, **figures}) + "\n")
        self._file.flush()


def _of(have: int, goal: float | None) -> str:
    return f"{have}" if goal is None else f"{have} of {goal:g}"


def _error(now: Snapshot, target: float | None) -> str:
    if now.error is None:
        measured = "not measured yet"
    else:
        measured = f"{now.error:.4g}" + (f" after step {now.measured}" if now.measured != now.step else "")
    estimate = "" if now.estimate is None else f", by its own estimate {now.estimate:.4g}"
    return measured + estimate + ("" if target is None else f", target {target:g}")
