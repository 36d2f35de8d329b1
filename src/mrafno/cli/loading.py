"""Load a task by name: that of a built-in task, ``FILE.py:NAME`` or ``package.module:NAME``.

NAME is a task, or a function without arguments that returns one. The file is imported: code that should only run when
the file is started as a script belongs under ``if __name__ == "__main__":``.
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
        text: the name of a built-in task, ``/absolute/FILE.py:NAME``, or ``package.module:NAME``.
        folder: searched first for a module.
    """

    text: str
    folder: Path | None = None

    @staticmethod
    def of(text: str) -> "Source":
        """From the command line, without executing anything; a file must exist."""
        where, colon, name = text.rpartition(":")
        if not colon and _is_file(text):
            raise TaskError(f"task {text!r}: it is a file. Name the task in it, as in {text}:task.")
        if not colon:
            if text not in TASKS:
                raise TaskError(f"unknown task {text!r}. {hint(text, list(TASKS))} {_FORMS}")
            return Source(text)
        if not where or not name.isidentifier():
            raise TaskError(f"task {text!r}: {name!r} is not the name of a Python object. {_FORMS}")
        if not _is_file(where):
            return Source(text, Path.cwd())
        file = Path(where).expanduser().resolve()
        if not file.is_file():
            raise TaskError(f"task {text!r}: there is no file {file}. {_FORMS}")
        return Source(f"{file}:{name}")

    @property
    def is_code(self) -> bool:
        """Whether loading it executes code outside of mrafno."""
        return ":" in self.text

    @property
    def place(self) -> Path | None:
        """The file, or the folder of the module; None for a built-in task."""
        return self.folder or (Path(self.text.rpartition(":")[0]) if self.is_code else None)

    def load(self, *, by_value: bool = False) -> Task:
        """The task. What its code prints goes to stderr, because stdout is for results.

        Args:
            by_value: pickle a task from a file with all its code, for workers of a cluster that do not have the file.
                That needs cloudpickle, which Dask installs.
        """
        if not self.is_code:
            return get_task(self.text)
        where, _, name = self.text.rpartition(":")
        with contextlib.redirect_stdout(sys.stderr):
            try:
                if self.folder is not None:
                    _add_to_path(self.folder)
                    module = importlib.import_module(where)
                else:
                    module = _from_file(Path(where), by_value)
                found = self._object(module, name)
            except MrafnoError:
                raise
            except (Exception, SystemExit) as error:
                raise TaskError(f"task {self.text}: {_describe_error(error, where)}") from error
        return found

    def _object(self, module: ModuleType, name: str) -> Task:
        if not hasattr(module, name):
            tasks = [key for key, value in vars(module).items() if isinstance(value, Task)]
            known = [key for key in vars(module) if not key.startswith("_")]
            advice = hint(name, known, f"Tasks in it: {', '.join(tasks) or 'none'}.")
            raise TaskError(f"task {self.text}: it has no {name!r}. {advice}")
        found: Any = getattr(module, name)
        if not isinstance(found, Task) and callable(found):
            found = self._call_factory(found, name)
        if not isinstance(found, Task):
            raise TaskError(
                f"task {self.text}: it is a {type(found).__name__}, not a task. Make one with FunctionTask or "
                "CommandTask of mrafno.tasks, or name a function that returns one."
            )
        return found

    def _call_factory(self, found: Any, name: str) -> Any:
        """Call a function without arguments; one with arguments is an error, as it is probably the simulator."""
        with contextlib.suppress(ValueError, TypeError):  # some callables have no signature
            needed = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty]
            if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
                raise TaskError(
                    f"task {self.text}: it is a function of ({', '.join(p.name for p in needed)}), not a task. If it "
                    f"is the simulator, make a task of it, task = FunctionTask({name}, inputs, resolutions=..., "
                    f"costs=...) with FunctionTask of mrafno.tasks, and give {self.text.rpartition(':')[0]}:task."
                )
        return found()


def _is_file(text: str) -> bool:
    return text.endswith(".py") or "/" in text


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _from_file(file: Path, by_value: bool) -> ModuleType:
    """Import a file as a module, with its folder on the path.

    Workers on this machine import it by its name. With ``by_value`` the name cannot be imported, so that a task is
    pickled with its code.
    """
    _add_to_path(file.parent)
    if by_value:
        return _load_unnamed(file)
    name = file.stem
    if "." in name or not _same(sys.modules.get(name), file):
        raise TaskError(
            f"task file {file}: {name!r} is not a valid module name, or another module has it. Rename the file."
        )
    module = importlib.import_module(name)
    if not _same(module, file):
        raise TaskError(f"task file {file}: Python finds another module called {name!r}. Rename the file.")
    return module


def _same(module: ModuleType | None, file: Path) -> bool:
    own = getattr(module, "__file__", None)
    return module is None or (own is not None and Path(own).resolve() == file)


def _load_unnamed(file: Path) -> ModuleType:
    name = f"_mrafno_task_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise TaskError(f"task file {file} is not a Python file. End its name in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses, among others, look it up while it is executed
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def _describe_error(error: BaseException, where: str) -> str:
    """An error in the code of a task, with its line."""
    what = f"exit({error.code!r}) was called" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{what}. Correct it; `mrafno --debug ...` shows the traceback."
