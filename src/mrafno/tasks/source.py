"""The source code of a person's simulator as text, so that a change of it can be noticed and shown."""

import ast
import contextlib
import difflib
import dis
import functools
import hashlib
import inspect
import textwrap
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Text of a file or a function beyond which only its digest is kept, and lines of a difference that are shown.
_LONGEST, _SHOWN = 50_000, 30
#: Instructions that give a value to a name of the module or of a function around.
_ASSIGNMENTS = ("STORE_GLOBAL", "STORE_DEREF")
#: Types of values that are listed.
_PLAIN = (bool, int, float, complex, str)


def source_of(function: Any) -> str | None:
    """Source of a function, and of what it uses from its own module; None if it cannot be had.

    Numbers and texts that it uses, from its module or from around it, are listed with their values, but for those that
    it assigns itself, such as a counter of calls.
    """
    parts: dict[str, str] = {}
    _collect(function, parts, _module(function))
    return "\n\n".join(parts[name] for name in parts) or None


def source_of_command(words: Sequence[str]) -> str:
    """A command line, and the text of the files that it names."""
    parts = [" ".join(words)]
    for word in words:
        path = Path(word)
        try:
            content = path.read_bytes() if path.is_file() else None
        except OSError:
            content = None
        if content is None:
            continue
        text = content.decode(errors="replace")
        short = len(content) <= _LONGEST and "\0" not in text
        parts.append(f"# {word}\n{text}" if short else f"# {word}: sha256 {hashlib.sha256(content).hexdigest()}")
    return "\n".join(parts)


def same_source(before: str, now: str) -> bool:
    """Whether two texts are the same but, where they are Python, for comments and blanks."""
    return before == now or source_key(before) == source_key(now)


def source_key(text: str) -> str:
    """A short digest of a source, the same for texts that :func:`same_source` takes for the same."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # a command, perhaps
        text = ast.dump(ast.parse(text))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def source_change(before: str, now: str) -> str:
    """The lines that differ, with a - for those that are gone and a + for those that are new."""
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1))[2:]
    more = [f"... and {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return "\n".join([*lines[:_SHOWN], *more])


def _module(thing: Any) -> str | None:
    thing = thing.func if isinstance(thing, functools.partial) else thing
    return getattr(thing, "__module__", None) or type(thing).__module__


def _collect(thing: Any, parts: dict[str, str], module: str | None) -> None:
    """Add the source of a thing, and of all that it refers to in the same module."""
    if isinstance(thing, functools.partial):
        given = [*enumerate(thing.args), *sorted(thing.keywords.items())]
        plain = [(name, value if isinstance(value, _PLAIN) else type(value).__name__) for name, value in given]
        parts.setdefault("partial", f"arguments = {plain!r}")
        _collect(thing.func, parts, module)
        return
    thing = getattr(thing, "__func__", thing)
    if not isinstance(thing, types.FunctionType | type):
        thing = type(thing)  # an object that is called
    thing = inspect.unwrap(thing)
    name = getattr(thing, "__qualname__", repr(thing))
    if name in parts or getattr(thing, "__module__", None) != module:
        return
    try:
        parts[name] = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        return
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    for function in (getattr(one, "__func__", one) for one in members):
        if isinstance(function, types.FunctionType):
            for used, value in _used(function):
                _add(used, value, parts, module)


def _used(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Names that a function uses from its module or from around it, with their values."""
    code, found = function.__code__, {}
    inside = [code, *(one for one in code.co_consts if isinstance(one, types.CodeType))]  # functions inside of it
    names = {name for one in inside for name in one.co_names}
    assigned = {
        step.argval for one in inside for step in dis.get_instructions(one) if step.opname in _ASSIGNMENTS
    }  # fmt: skip
    for name in sorted(names & function.__globals__.keys()):
        found[name] = function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return [(name, value) for name, value in found.items() if name not in assigned]


def _add(name: str, value: Any, parts: dict[str, str], module: str | None) -> None:
    if isinstance(value, _PLAIN):
        parts.setdefault(f"value {name}", f"{name} = {value!r}"[:_LONGEST])
    elif isinstance(value, types.FunctionType | type | functools.partial):
        _collect(value, parts, module)
