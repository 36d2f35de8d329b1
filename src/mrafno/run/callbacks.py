"""Calls a person's objects after each event of a run.

A callback is any object with any of these methods:

============================  ====================================================================================
method                        is called
============================  ====================================================================================
on_asked(run, queries)        with the list of :class:`~mrafno.simulation.query.Query` that were just asked
on_told(run, record)          with the :class:`~mrafno.run.state.QueryRecord` whose output was just recorded
on_failed(run, record)        with the record of a simulation that failed; ``record.reason`` says why
on_trained(run, training)     with the :class:`~mrafno.run.state.Training` that has just ended
on_warned(run, text)          with what a person should know of the run, once
on_evaluated(run, evaluation) with the :class:`~mrafno.run.state.Evaluation` on test examples
on_stopped(run, outcome)      with the :class:`~mrafno.run.outcome.Outcome` when an advance ends, however it ends
============================  ====================================================================================

Each is called after its event is on disk. An exception in a callback becomes a
:class:`~mrafno.errors.CallbackError`, which stops the run; nothing that was recorded is lost.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mrafno.errors import CallbackError, RunError, raised
from mrafno.run.outcome import Outcome
from mrafno.storage.ledger import Event

if TYPE_CHECKING:  # a run holds these, and they are given the run
    from mrafno.run.run import Run

#: Names of the methods that a callback may have.
HOOKS = ("on_asked", "on_told", "on_failed", "on_trained", "on_evaluated", "on_warned", "on_stopped")


class Callbacks:
    """Dispatches the events of a run to callbacks, in their order.

    Args:
        run: given to every callback.
        callbacks: objects with any of :data:`HOOKS`; one that has none of them is an error.
    """

    def __init__(self, run: "Run", callbacks: Sequence[object]) -> None:
        for callback in callbacks:
            found = [name for name in dir(callback) if name.startswith("on_")]
            if isinstance(callback, type) or not set(found) & set(HOOKS):
                what = "the class, not an instance of it" if isinstance(callback, type) else repr(callback)
                raise RunError(
                    f"run: a callback has at least one of the methods {', '.join(HOOKS)}; got {what}."
                    + (f" It has {', '.join(found)}." if found and not isinstance(callback, type) else "")
                )
        self.run, self.callbacks = run, tuple(callbacks)

    def __call__(self, event: Event) -> None:
        """Call every callback that has a method for this event."""
        name = f"on_{event.kind}"
        hooks = [hook for callback in self.callbacks if (hook := getattr(callback, name, None)) is not None]
        withdrawn = event.kind == "warned" and event.data["text"] is None
        if name not in HOOKS or not hooks or withdrawn:
            return
        payload = self._payload(event)
        for hook in hooks:
            self._call(hook, payload)

    def _call(self, hook: Callable[..., Any], payload: Any) -> None:
        try:
            hook(self.run, payload)
        except Exception as error:
            raise CallbackError(
                f"run {self.run.path}: the callback {getattr(hook, '__qualname__', hook)} raised {raised(error)}. What "
                "was recorded is kept: correct the callback, or leave it out, and resume."
            ) from error

    def _payload(self, event: Event) -> Any:
        state = self.run.state
        match event.kind:
            case "asked":
                return [self.run.query(state.queries[entry["id"]]) for entry in event.data["queries"]]
            case "told" | "failed":
                return state.queries[event.data["id"]]
            case "trained":
                return state.trainings[-1]
            case "evaluated":
                return state.evaluations[-1]
            case "warned":
                return event.data["text"]
            case _:
                return Outcome.of(state, event.data["reason"])
