"""Docstrings as Markdown: formulas, tables, references and literal blocks are written as in reStructuredText."""

import re
import textwrap
from collections.abc import Callable
from typing import Any

import griffe


def as_markdown(text: str, full_name: Callable[[str], str] = str) -> str:
    """A docstring's text as Markdown; ``full_name`` finds the full name of what a reference names."""
    text = re.sub(r"^( *)\.\. math::(.*\n(?:\1 +.*\n?|\n(?=\1 ))*)", _formula, text + "\n", flags=re.MULTILINE)
    text = re.sub(r"^( *)\.\. code-block:: \w+\n", r"\1::\n", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)(.*::\n\n)((?:\1 +.*\n|\n)+)", _literal, text, flags=re.MULTILINE)
    text = re.sub(r"^=+(?: +=+)+\n(?:.+\n)+", _table, text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]*)`", lambda found: f"${' '.join(found[1].split())}$", text)
    text = re.sub(r":(?:mod|class|func|meth|attr|data):`([^`]*)`", lambda found: _reference(found[1], full_name), text)
    text = re.sub(r"^( *)::\n", r"\n", text, flags=re.MULTILINE)
    return re.sub(r"(\w)::\n", r"\1:\n", text)


def _literal(found: re.Match[str]) -> str:
    """A literal block, in which a reference is plain text."""
    return found[1] + found[2] + re.sub(r":(?:mod|class|func|meth|attr|data):`~?([^`]*)`", r"\1", found[3])


def _formula(found: re.Match[str]) -> str:
    body = " ".join(found[2].split())
    if "&" in body:
        body = rf"\begin{{aligned}} {body} \end{{aligned}}"
    return f"{found[1]}$$ {body} $$\n"


def _table(found: re.Match[str]) -> str:
    """A simple table: its columns begin where the lines of = begin. A row without a first cell continues the last."""
    border, *lines = found[0].splitlines()
    starts = [match.start() for match in re.finditer("=+", border)]
    ends = [*starts[1:], None]
    rows = [
        [line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in lines if not line.startswith("==")
    ]
    for number in range(len(rows) - 1, 0, -1):
        if not rows[number][0]:
            rest = rows.pop(number)
            rows[number - 1] = [" ".join(f"{a} {b}".split()) for a, b in zip(rows[number - 1], rest, strict=True)]
    rule = ["---"] * len(starts)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [rows[0], rule, *rows[1:]])


def _reference(name: str, full_name: Callable[[str], str]) -> str:
    """A link where the reference has a page with that name, and code where it has none."""
    shown = name.rpartition(".")[2] if name.startswith("~") else name
    return f'<autoref identifier="{full_name(name.lstrip("~"))}" optional><code>{shown}</code></autoref>'


class Markdown(griffe.Extension):
    """Turns every docstring into Markdown before it is rendered."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called for everything that is found in the package."""
        del loader, kwargs
        if obj.docstring is None:
            return

        def full_name(name: str) -> str:
            try:
                return str(obj.resolve(name))
            except griffe.NameResolutionError:
                return name

        obj.docstring.value = as_markdown(textwrap.dedent(obj.docstring.value), full_name).rstrip()
