"""What a simulator may change in its process, and what is put back after it.

Kept are the working directory, the environment, the permissions of new files, where output goes, handlers of signals
and alarms, filters of warnings, the depth of recursion, what NumPy does about floating-point errors, PyTorch's default
type, number of threads and recording of gradients, and the states of the global random generators of Python, NumPy and
PyTorch. ``os._exit`` raises SystemExit meanwhile.

A simulator that draws from a global generator must not draw the same numbers in every simulation, so its stream goes
on where its last simulation left it, unless the caller's own state has changed since: then it begins there.
"""

import contextlib
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
#: Held while the number of running simulations changes; those of several threads share one process.
_lock = threading.Lock()
_running = 0
#: Threads that simulate.
_threads: list[int] = []
_undo: list[Callable[[], None]] = []


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Put back what the code inside changes, once no other thread is inside."""
    global _running
    with _lock:
        if not _running:
            _undo[:] = [keep() for keep in _keepers()]
        _running += 1
        _threads.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            _threads.remove(threading.get_ident())
            if not _running:
                for undo in _undo:
                    undo()
                _undo.clear()


def undisturbed(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call returns, with everything put back that it changes."""
    with restored():
        return call(*args, **kwargs)


# Each keeps one thing, and returns what puts it back. What was not changed is not touched.


def _folder() -> Callable[[], None]:
    try:
        before = os.getcwd()  # noqa: PTH109 - a plain text is faster, and as good
    except OSError:  # it was removed
        return _nothing

    def undo() -> None:
        with contextlib.suppress(OSError):
            os.chdir(before)

    return undo


def _environment() -> Callable[[], None]:
    before = dict(os.environ)

    def undo() -> None:
        if os.environ != before:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)

    return undo


def _permissions() -> Callable[[], None]:
    before = os.umask(0o077)  # it is only told when it is changed
    os.umask(before)

    def undo() -> None:
        os.umask(before)

    return undo


def _exit() -> Callable[[], None]:
    """An exit that no handler sees, with code 0 perhaps, would end the run as if all were well."""
    before, process = os._exit, os.getpid()

    def refused(status: int) -> NoReturn:
        if os.getpid() != process or threading.get_ident() not in _threads:
            before(status)  # in a process that the simulator has forked, or not by a simulator
        raise SystemExit(status)

    def undo() -> None:
        os._exit = before

    os._exit = refused
    return undo


def _streams() -> Callable[[], None]:
    before = sys.stdin, sys.stdout, sys.stderr

    def undo() -> None:
        sys.stdin, sys.stdout, sys.stderr = before

    return undo


def _recursion() -> Callable[[], None]:
    before = sys.getrecursionlimit()
    return lambda: sys.setrecursionlimit(before)


def _signals() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return _nothing  # only the main thread can set handlers
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    timers = [timer for timer in _TIMERS if not any(signal.getitimer(timer))]

    def undo() -> None:
        for timer in timers:  # before the handlers: an alarm without one ends the process
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            # A handler of None was not installed by Python, so Python cannot put it back.
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)

    return undo


def _warnings() -> Callable[[], None]:
    before, content, show = warnings.filters, list(warnings.filters), warnings.showwarning

    def undo() -> None:
        if warnings.filters is not before or list(warnings.filters) != content:
            warnings.filters = before
            before[:] = content  # type: ignore[index]
            with warnings.catch_warnings():
                pass  # leaving it tells Python that what it knows of the filters is out of date
        warnings.showwarning = show

    return undo


def _numpy() -> Callable[[], None]:
    before, call = np.geterr(), np.geterrcall()

    def undo() -> None:
        np.seterr(**before)
        np.seterrcall(call)

    return undo


def _torch() -> Callable[[], None]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return _nothing
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    gradients = torch.is_grad_enabled()

    def undo() -> None:
        torch.set_grad_enabled(gradients)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    return undo


def _keepers() -> list[Callable[[], Callable[[], None]]]:
    own = [_folder, _environment, _permissions, _exit, _streams, _recursion, _signals, _warnings, _numpy, _torch]
    return [*own, *_generators()]


def _nothing() -> None:
    pass


class _Generator:
    """A global random generator: its state for the caller, and another one for simulators.

    Args:
        get, set: read and write its state; key: makes a state comparable.
    """

    def __init__(
        self, get: Callable[[], Any], set: Callable[[Any], Any], key: Callable[[Any], Any] = lambda state: state
    ) -> None:
        self._get, self._set, self._key = get, set, key
        #: What the caller had when it was last put back, and where the simulators' stream was then.
        self._left: Any = None
        self._stream: Any = None

    def __call__(self) -> Callable[[], None]:
        """Go on with the simulators' stream; returns what puts the caller's back."""
        before = self._get()
        if self._stream is not None and self._key(before) == self._key(self._left):
            self._set(self._stream)

        def undo() -> None:
            after = self._get()
            if self._stream is None and self._key(after) == self._key(before):
                return  # no simulator has drawn from it
            self._left, self._stream = before, after
            self._set(before)

        return undo


_python = _Generator(random.getstate, random.setstate)
_legacy = _Generator(np.random.get_state, np.random.set_state, lambda state: (state[1].tobytes(), *state[2:]))
_of_torch: list[_Generator] = []


def _generators() -> list[_Generator]:
    """The global generators that there are: that of PyTorch, once it is imported."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and not _of_torch and hasattr(torch, "get_rng_state"):
        state = (torch.get_rng_state, torch.set_rng_state, lambda state: state.numpy().tobytes())
        _of_torch.append(_Generator(*state))
    return [_python, _legacy, *_of_torch]
