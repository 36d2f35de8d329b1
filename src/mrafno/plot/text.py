"""Numbers as text, the same on pages, in figures and in the terminal: durations, costs, counts, meshes."""

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """A time span: ``0.012 s``, ``8.5 s``, ``59 s``, ``3 min 20 s``, ``2 h 5 min``, ``4 d 3 h``."""
    whole = round(seconds)
    for unit, size, next_unit, next_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // next_size
            return f"{whole // size} {unit}" + (f" {rest} {next_unit}" if rest else "")
    return f"{seconds:.2g} s" if seconds < 9.95 else f"{whole} s"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 run``, ``3 runs``, ``2 queries``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def mesh_name(shape: Sequence[int]) -> str:
    """The shape of a grid: ``129``, ``64x64``."""
    return "x".join(map(str, shape))
