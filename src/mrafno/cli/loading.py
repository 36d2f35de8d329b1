"""Load a task, a method or a callback: a built-in one by its name, others by ``FILE.py:NAME`` or
``package.module:NAME``.

NAME is the object, or a function without arguments (or a class) that returns it. The file is imported: code that should
only run when the file is started as a script belongs under ``if __name__ == "__main__":``.
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
from typing import Any, Literal

from mrafno.errors import MrafnoError, RunError, TaskError, hint
from mrafno.run.callbacks import HOOKS
from mrafno.run.methods import METHODS, Method, get_method
from mrafno.tasks import TASKS, TableTask, Task, get_task
from mrafno.tasks.table_files import is_table

What = Literal["task", "method", "callback"]

#: Built-in names, where to find them listed, and how to make such an object.
_NAMES: dict[What, tuple[str, ...]] = {"task": tuple(TASKS), "method": tuple(METHODS), "callback": ()}
_FORMS: dict[What, str] = {
    "task": "Give a problem's name (see `mrafno tasks`), FILE.py:NAME, package.module:NAME or a table, .npz or .h5.",
    "method": "Give the name of a built-in method (see --help), FILE.py:NAME or package.module:NAME.",
    "callback": "Give FILE.py:NAME or package.module:NAME.",
}
_MAKE: dict[What, str] = {
    "task": "Make one with FunctionTask or CommandTask of mrafno.tasks, or name a function that returns one.",
    "method": "Make one with mrafno.Method(acquisition=...), or name a function that returns one.",
    "callback": f"A callback has at least one of the methods {', '.join(HOOKS)}.",
}


@dataclass(frozen=True)
class Source:
    """Where a task, a method or a callback comes from.

    Attributes:
        text: a built-in name, ``/absolute/FILE.py:NAME``, ``package.module:NAME``, or the file of a table.
        folder: searched first for a module.
        what: which of the three it is.
    """

    text: str
    folder: Path | None = None
    what: What = "task"

    @staticmethod
    def of(text: str, what: What = "task") -> "Source":
        """From the command line, without executing anything; a file must exist."""
        where, colon, name = text.rpartition(":")
        source = Source(text, None, what)
        if source.is_table:
            file = Path(text).expanduser().resolve()
            if not file.is_file():
                raise source.error(f"there is no file {file}. {_FORMS[what]}")
            return Source(str(file), None, what)
        if not colon and _is_file(text):
            raise source.error(f"it is a file. Name the {what} in it, as in {text}:{what}.")
        if not colon:
            if text not in _NAMES[what]:
                known = [hint(text, _NAMES[what])] if _NAMES[what] else []
                raise _error(what)(" ".join([f"unknown {what} {text!r}.", *known, _FORMS[what]]))
            return source
        if not where or not name.isidentifier():
            raise source.error(f"{name!r} is not the name of a Python object. {_FORMS[what]}")
        if not _is_file(where):
            return Source(text, Path.cwd(), what)
        file = Path(where).expanduser().resolve()
        if not file.is_file():
            raise source.error(f"there is no file {file}. {_FORMS[what]}")
        return Source(f"{file}:{name}", None, what)

    def error(self, text: str) -> MrafnoError:
        """An error about this source."""
        return _error(self.what)(f"{self.what} {self.text!r}: {text}")

    @property
    def is_code(self) -> bool:
        """Whether loading it executes code outside of mrafno."""
        return ":" in self.text and not self.is_table

    @property
    def is_table(self) -> bool:
        """Whether it is a file with a table of simulations."""
        return self.what == "task" and is_table(self.text)

    @property
    def place(self) -> Path | None:
        """The file, or the folder of the module; None for a built-in name."""
        return self.folder or (Path(self.text.rpartition(":")[0]) if self.is_code else None)

    def load(self, *, by_value: bool = False) -> Any:
        """The object. What its code prints goes to stderr, because stdout is for results.

        Args:
            by_value: pickle an object from a file with all its code, for workers of a cluster that do not have the
                file. That needs cloudpickle, which Dask installs.
        """
        if self.is_table:
            return TableTask.load(self.text)
        if not self.is_code:
            return get_task(self.text) if self.what == "task" else get_method(self.text)
        where, _, name = self.text.rpartition(":")
        with contextlib.redirect_stdout(sys.stderr):
            try:
                if self.folder is not None:
                    _add_to_path(self.folder)
                    module = importlib.import_module(where)
                else:
                    module = _from_file(Path(where), by_value)
                return self._object(module, name)
            except MrafnoError:
                raise
            except (Exception, SystemExit) as error:
                raise _error(self.what)(f"{self.what} {self.text}: {_describe_error(error, where)}") from error

    def _object(self, module: ModuleType, name: str) -> Any:
        about, fail = f"{self.what} {self.text}", _error(self.what)
        if not hasattr(module, name):
            found = [key for key, value in vars(module).items() if self._fits(value)]
            known = [key for key in vars(module) if not key.startswith("_")]
            advice = hint(name, known, f"{self.what.capitalize()}s in it: {', '.join(found) or 'none'}.")
            raise fail(f"{about}: it has no {name!r}. {advice}")
        value: Any = getattr(module, name)
        if not self._fits(value) and callable(value):
            value = self._call_factory(value, name)
        if not self._fits(value):
            raise fail(f"{about}: it is a {type(value).__name__}, not a {self.what}. {_MAKE[self.what]}")
        return value

    def _fits(self, value: Any) -> bool:
        if self.what == "callback":
            return not isinstance(value, type) and any(hasattr(value, hook) for hook in HOOKS)
        return isinstance(value, Task if self.what == "task" else Method)

    def _call_factory(self, found: Any, name: str) -> Any:
        """Call a function without arguments; one with arguments is an error, as it is probably the simulator."""
        with contextlib.suppress(ValueError, TypeError):  # some callables have no signature
            needed = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty]
            if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
                what = f"it is a function of ({', '.join(p.name for p in needed)}), not a {self.what}."
                if self.what != "task":
                    raise RunError(f"{self.what} {self.text}: {what} {_MAKE[self.what]}")
                raise TaskError(
                    f"task {self.text}: {what} If it is the simulator, make a task of it, task = FunctionTask({name}, "
                    f"inputs, resolutions=..., costs=...) with FunctionTask of mrafno.tasks, and give "
                    f"{self.text.rpartition(':')[0]}:task."
                )
        return found()


def _error(what: What) -> type[MrafnoError]:
    return TaskError if what == "task" else RunError


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
