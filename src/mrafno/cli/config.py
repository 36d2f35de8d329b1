"""Settings by name from flags, NAME=VALUE and files, with names and types checked; flags take precedence."""

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
GOALS, SIMULATIONS = options.types(options.GOALS), options.types([options.COUNT], options.SIMULATIONS)

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "none",
    dict: "a table of settings, or NAME.SETTING=VALUE",
    list: "a list of texts",
    tuple: "a list of whole numbers",
}


def run_settings() -> dict[str, Any]:
    """Names and types of :class:`~mrafno.run.settings.RunSettings`."""
    from mrafno.run.settings import RunSettings

    return get_type_hints(RunSettings)


def all_settings() -> dict[str, Any]:
    """All names that a file may set, with their types."""
    groups = (
        options.PLACE,
        [options.AS_JSON, options.COUNT],
        options.GOALS,
        options.SIMULATIONS,
        options.CHOICE,
        options.SURROGATE,
    )
    return options.types(*groups) | run_settings()


def pick(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values that have one of these names."""
    return {name: values[name] for name in names if name in values}


def collect(flags: Mapping[str, Any], settings: Sequence[str] = (), file: Path | None = None) -> dict[str, Any]:
    """Values by name from flags and ``--setting``, then from the file.

    Args:
        flags: by name; None for a flag that was not given.
        settings: ``NAME=VALUE`` for any setting of a run.
        file: TOML or YAML.
    """
    given = check_types(
        {name: value for name, value in flags.items() if value is not None}, all_settings(), "the flags"
    )
    for text in settings:
        name, value = _assignment(text)
        known = given.get(name)
        if isinstance(value, dict) and isinstance(known, dict) and not value.keys() & known.keys():
            value = {**known, **value}
        elif name in given:
            raise RunError(f"--setting {text}: {name} is given twice. Give it once.")
        given[name] = value
    return {**(read_file(file) if file else {}), **given}


def read_file(path: Path) -> dict[str, Any]:
    """The values in a file; the error for an unknown name has its line and the nearest known name."""
    where = f"config {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise RunError(f"{where} cannot be read ({why}). Give a file in TOML or YAML.") from error
    match path.suffix.lower():
        case ".toml":
            values = _toml(text, where)
        case ".yaml" | ".yml":
            values = _yaml(text, where)
        case _:
            raise RunError(f"{where}: the format follows from the name. End it in .toml, .yaml or .yml.")
    return check_types(values, all_settings(), where, text)


def check_types(values: Mapping[Any, Any], kinds: Mapping[str, Any], where: str, text: str = "") -> dict[str, Any]:
    """Values converted to their types; raises RunError for an unknown name or a value of another type.

    Args:
        kinds: the known names and their types.
        where: what error messages begin with.
        text: of the file, to find the line of a name.
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
        raise RunError(f"--setting {text}: the form is NAME=VALUE, like refit_growth=0.1.")
    kinds = run_settings()
    name, _, part = name.partition(".")  # training.rate=0.002 is one entry of the dictionary training
    if name not in kinds:
        raise RunError(f"--setting {text}: {_unknown(name, kinds)}")
    parsed = {part: _parsed(value)} if part else _parsed(value)
    return name, _converted(name, parsed, kinds[name], f"--setting {text}")


def _parsed(text: str) -> Any:
    """A value from a word of the shell."""
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
    if isinstance(value, str) and value.lower() == "none" and NoneType in kinds:  # TOML has no null
        return None
    if isinstance(value, str) and any(get_origin(one) is tuple for one in kinds):
        value = _whole_numbers(value)
    for one in kinds:
        if get_origin(one) is Literal:
            fits = value in get_args(one)
        elif get_origin(one) is dict:
            fits = isinstance(value, dict)
        elif get_origin(one) is tuple:
            fits = isinstance(value, list | tuple) and all(type(part) is int for part in value)
            value = tuple(value) if fits else value
        elif get_origin(one) is list:
            fits = isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
        elif one is float:
            fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        else:
            fits = isinstance(value, one) and (one is bool or not isinstance(value, bool))
        if fits and isinstance(value, int | float) and value < 0 and name not in run_settings():
            raise RunError(f"{where}: {name} must be 0 or more, got {value!r}.")
        if fits:
            return float(value) if one is float else value
    words = " or ".join(
        f"one of {', '.join(map(str, get_args(one)))}" if get_origin(one) is Literal else _WORDS[get_origin(one) or one]
        for one in kinds
    )
    raise RunError(f"{where}: {name} must be {words}, got {value!r}.")


def _whole_numbers(text: str) -> Any:
    """A whole number, or several from ``20,3``; any other text as it is."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        return text
    return int(parts[0]) if len(parts) == 1 else tuple(map(int, parts))


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"unknown setting {name!r}. {hint(name, sorted(known))}"


def _line_of(name: str, text: str) -> str:
    """The line where a name is set, as in ``, line 3``; empty if it is not found."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=:.\]]""", line):
            return f", line {number}"
    return ""


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{where} is not valid TOML: {error}.") from error


def _yaml(text: str, where: str) -> dict[Any, Any]:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise RunError(
            f"{where}: YAML needs a package that is not installed: pip install pyyaml. Or use TOML."
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        """YAML in which 1e3 is a number; YAML 1.1 wants 1.0e+3."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )
    try:
        values = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise RunError(f"{where}{place} is not valid YAML: {problem or error}.") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise RunError(f"{where} has no settings. Write a name, a colon and a value on each line, like steps: 100.")
    return values
