"""Settings by name, from a file, from flags and from NAME=VALUE: known names, right types, and flags before files."""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mrafno.cli import options
from mrafno.errors import RunError, hint

#: Names and types of what ends a run, and of how its simulations run.
GOALS, SIMULATIONS = options.types(options.GOALS), options.types(options.SIMULATIONS)

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "none"}


def run_settings() -> dict[str, Any]:
    """Names and types of :class:`~mrafno.run.settings.RunSettings`."""
    from mrafno.run.settings import RunSettings

    return get_type_hints(RunSettings)


def everything() -> dict[str, Any]:
    """All names that a file may set, with their types."""
    groups = options.PLACE, [options.AS_JSON], options.GOALS, options.SIMULATIONS, options.CHOICE, options.SURROGATE
    return options.types(*groups) | run_settings()


def pick(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the values that have one of these names."""
    return {name: values[name] for name in names if name in values}


def gathered(flags: Mapping[str, Any], settings: Sequence[str] = (), file: Path | None = None) -> dict[str, Any]:
    """Values by name: what flags and ``--setting`` say, and where they say nothing, what the file says.

    Args:
        flags: by name; None is a flag that was not given.
        settings: texts ``NAME=VALUE`` for the settings that have no flag of their own, and for those that have.
        file: TOML or YAML.
    """
    given = checked({name: value for name, value in flags.items() if value is not None}, everything(), "the flags")
    for text in settings:
        name, value = _assignment(text)
        if name in given:
            raise RunError(f"--setting {text}: {name} is given twice. Give it once.")
        given[name] = value
    return {**(read_file(file) if file else {}), **given}


def read_file(path: Path) -> dict[str, Any]:
    """The values in a file; an unknown name is an error that tells its line and the nearest known name."""
    where = f"config {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RunError(f"{where} cannot be read ({why}). Give a file in TOML or YAML.") from error
    match path.suffix.lower():
        case ".toml":
            values = _toml(text, where)
        case ".yaml" | ".yml":
            values = _yaml(text, where)
        case _:
            raise RunError(f"{where}: whether it is TOML or YAML is told by its name. End it in .toml, .yaml or .yml.")
    return checked(values, everything(), where, text)


def checked(values: Mapping[Any, Any], kinds: Mapping[str, Any], where: str, text: str = "") -> dict[str, Any]:
    """The values with their types; :class:`RunError` for an unknown name or a value that does not fit.

    Args:
        kinds: the known names and their types.
        where: what error messages begin with.
        text: where the names stand, one a line, if the line is to be told.
    """
    found = {}
    for name, value in values.items():
        place = f"{where}{_line_of(str(name), text)}"
        if name not in kinds:
            raise RunError(f"{place}: {_unknown(str(name), kinds)}")
        found[name] = _converted(name, value, kinds[name], place)
    return found


def _assignment(text: str) -> tuple[str, Any]:
    """Name and value of a ``NAME=VALUE``."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise RunError(f"--setting {text}: it has the form NAME=VALUE, like refresh=0.1.")
    kinds = run_settings()
    if name not in kinds:
        raise RunError(f"--setting {text}: {_unknown(name, kinds)}")
    return name, _converted(name, _parsed(value), kinds[name], f"--setting {text}")


def _parsed(text: str) -> Any:
    """A value as it stands in a shell's word."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _converted(name: str, value: Any, kind: Any, where: str) -> Any:
    kinds = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    if isinstance(value, str) and value.lower() == "none" and NoneType in kinds:  # TOML has no other word for it
        return None
    for one in kinds:
        if get_origin(one) is Literal:
            fits = value in get_args(one)
        elif one is float:
            fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        else:
            fits = isinstance(value, one) and (one is bool or not isinstance(value, bool))
        if fits and isinstance(value, int | float) and value < 0 and name not in run_settings():
            raise RunError(f"{where}: {name} must be 0 or more, got {value!r}.")
        if fits:
            return float(value) if one is float else value
    words = " or ".join(
        f"one of {', '.join(map(str, get_args(one)))}" if get_origin(one) is Literal else _WORDS[one] for one in kinds
    )
    raise RunError(f"{where}: {name} must be {words}, got {value!r}.")


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"unknown setting {name!r}. {hint(name, sorted(known))}"


def _line_of(name: str, text: str) -> str:
    """Where a name is set, as in ``, line 3``; nothing if that cannot be found."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=:.\]]""", line):
            return f", line {number}"
    return ""


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{where} is no TOML: {error}.") from error


def _yaml(text: str, where: str) -> dict[Any, Any]:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise RunError(
            f"{where}: YAML needs a package that is not installed: pip install pyyaml. TOML does not."
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        """YAML as people write it: 1e3 is a number, though YAML 1.1 wants 1.0e+3."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )
    try:
        values = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise RunError(f"{where}{place} is no YAML: {problem or error}.") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise RunError(f"{where} holds no settings. Each line is a name, a colon and a value, like steps: 100.")
    return values
