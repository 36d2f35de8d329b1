"""A task from what a person types: the name of one of ours, ``FILE.py:NAME`` or ``package.module:NAME``.

NAME is a task, or a function without arguments that makes one. The file runs as if it were imported: what it is to do
only when it is started by itself stands under ``if __name__ == "__main__":``.
"""

import contextlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mrafno.errors import MrafnoError, TaskError, hint
from mrafno.tasks import TASKS, Task, get_task

_FORMS = "Give the name of a problem (see `mrafno tasks`), FILE.py:NAME or package.module:NAME."


@dataclass(frozen=True)
class Source:
    """Where a task comes from.

    Attributes:
        text: the name of one of ours, ``/absolute/FILE.py:NAME``, or ``package.module:NAME``.
        folder: where modules are looked for first, if it is a module.
    """

    text: str
    folder: Path | None = None

    @staticmethod
    def of(text: str) -> "Source":
        """What a person typed; nothing is run yet. A file must exist."""
        where, colon, name = text.rpartition(":")
        if not colon and _is_file(text):
            raise TaskError(f"task {text!r}: say which object in the file is the task, as in {text}:task.")
        if not colon:
            if text not in TASKS:
                raise TaskError(f"unknown task {text!r}. {hint(text, list(TASKS))} {_FORMS}")
            return Source(text)
        if not where or not name.isidentifier():
            raise TaskError(f"task {text!r}: {name!r} is no name of a Python object. {_FORMS}")
        if not _is_file(where):
            return Source(text, Path.cwd())
        file = Path(where).expanduser().resolve()
        if not file.is_file():
            raise TaskError(f"task {text!r}: there is no file {file}. {_FORMS}")
        return Source(f"{file}:{name}")

    @property
    def is_code(self) -> bool:
        """Whether loading it runs somebody's code."""
        return ":" in self.text

    @property
    def place(self) -> Path | None:
        """The file, or the folder of the module; None for one of ours."""
        return self.folder or (Path(self.text.rpartition(":")[0]) if self.is_code else None)

    def load(self, *, by_value: bool = False) -> Task:
        """The task. What the code prints goes to stderr, because stdout is for what was asked for.

        Args:
            by_value: make sure that a task from a file travels to other machines with all its code, as it must to the
                workers of a cluster that do not have the file. That needs cloudpickle, which Dask brings.
        """
        if not self.is_code:
            return get_task(self.text)
        where, _, name = self.text.rpartition(":")
        with contextlib.redirect_stdout(sys.stderr):
            try:
                if self.folder is not None:
                    _look_in(self.folder)
                    module = importlib.import_module(where)
                else:
                    module = _from_file(Path(where), by_value)
                found = self._object(module, name)
            except MrafnoError:
                raise
            except (Exception, SystemExit) as error:
                raise TaskError(f"task {self.text}: {_told(error, where)}") from error
        return found

    def _object(self, module: ModuleType, name: str) -> Task:
        if not hasattr(module, name):
            tasks = [key for key, value in vars(module).items() if isinstance(value, Task)]
            known = [key for key in vars(module) if not key.startswith("_")]
            advice = hint(name, known, f"Tasks in it: {', '.join(tasks) or 'none'}.")
            raise TaskError(f"task {self.text}: it has no {name!r}. {advice}")
        found: Any = getattr(module, name)
        if not isinstance(found, Task) and callable(found):
            found = self._made(found, name)
        if not isinstance(found, Task):
            raise TaskError(
                f"task {self.text}: it is a {type(found).__name__} and no task. Make one with FunctionTask or "
                "CommandTask of mrafno.tasks, or name a function that returns one."
            )
        return found

    def _made(self, found: Any, name: str) -> Any:
        """What a function without arguments makes; one with arguments is not that, but perhaps a simulator."""
        with contextlib.suppress(ValueError, TypeError):  # some have no signature
            needed = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty]
            if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
                raise TaskError(
                    f"task {self.text}: it is a function of ({', '.join(p.name for p in needed)}) and no task. If it "
                    f"is the simulator, make a task of it, task = FunctionTask({name}, inputs, resolutions=..., "
                    f"costs=...) with FunctionTask of mrafno.tasks, and give {self.text.rpartition(':')[0]}:task."
                )
        return found()


def _is_file(text: str) -> bool:
    return text.endswith(".py") or "/" in text


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _from_file(file: Path, by_value: bool) -> ModuleType:
    """The file as a module, with its folder to import from, as if Python had started it.

    Workers on this machine import it by its name. By value means: under a name that nobody can import, so that a task
    is sent with its code.
    """
    _look_in(file.parent)
    if by_value:
        return _nameless(file)
    name = file.stem
    if "." in name or not _same(sys.modules.get(name), file):
        raise TaskError(f"task file {file}: {name!r} is no name for a module, or that of another one. Rename the file.")
    module = importlib.import_module(name)
    if not _same(module, file):
        raise TaskError(f"task file {file}: Python finds another module called {name!r}. Rename the file.")
    return module


def _same(module: ModuleType | None, file: Path) -> bool:
    own = getattr(module, "__file__", None)
    return module is None or (own is not None and Path(own).resolve() == file)


def _nameless(file: Path) -> ModuleType:
    name = f"_mrafno_task_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise TaskError(f"task file {file} is no Python file. End its name in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses, among others, look for it while it runs
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def _told(error: BaseException, where: str) -> str:
    """What went wrong in somebody's code, and on which line of it."""
    what = f"exit({error.code!r}) was called" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{what}. Correct it; with `mrafno --debug ...` you see the whole way there."
