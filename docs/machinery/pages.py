"""What is done to pages while the site is built: formulas to MathML, and the page about the command line."""

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

COMMANDS = "reference/commands.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the page about the command line, made from the program itself."""
    files.append(File.generated(config, COMMANDS, content=commands()))
    return files


def commands() -> str:
    """All commands and their flags, as Markdown."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from mrafno.cli import app

    program = get_command(app)
    context = typer.Context(program)
    context.obj = {"rich_markup_mode": "rich"}
    text = get_docs_for_click(obj=program, ctx=context, name="mrafno", title="Commands")
    text = re.sub(r"\[bold\](.*?)\[/\]", r"**\1**", text)
    # The list of commands is cut short, and the table of contents has it; types and ranges are told by the words.
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)
    text = re.sub(r"  \[[\d.<=]*x[\d.<>=]*\]|; [\d.<=]*x[\d.<>=]*(?=\])| <[\w\[\] ]+>(?=`)", "", text)
    return re.sub(r"(?<=\n)\* `--help`:.*\n", "", text).replace("**Options**:\n\n\n", "")


def on_page_content(content: str, **_: Any) -> str:
    """Formulas, as the extension arithmatex marks them, become MathML: browsers draw it by themselves."""
    content = re.sub(
        r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
        lambda found: mathml(html.unescape(found[2]), block=found[1] == "div"),
        content,
        flags=re.DOTALL,
    )
    if "arithmatex" in content:
        raise ValueError("a formula was left as it is")
    return content


def mathml(formula: str, *, block: bool) -> str:
    """A formula in LaTeX as MathML."""
    formula = formula.strip().replace(r"\arg", r"\mathrm{arg}\,").replace(r"\operatorname", r"\mathrm")
    text = convert(formula, display="block" if block else "inline")
    if "\\" in text:
        raise ValueError(f"a formula has something that cannot be converted: {formula}")
    # Names of functions, and relations, keep away from what they stand beside.
    text = re.sub(r"<mi>(log|exp|sin|cos|tr)</mi>", r'<mo lspace="0.167em" rspace="0.167em">\1</mo>', text)
    return text.replace("<mi>&#x0007E;</mi>", '<mo lspace="0.278em" rspace="0.278em">&#x0223C;</mo>')
