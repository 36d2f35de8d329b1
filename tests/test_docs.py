"""What the README and the docs say is true: code runs, shown output is real, commands exist, the site builds."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from playwright.sync_api import sync_playwright
from typer.main import get_command
from typer.testing import CliRunner

from mrafno.cli import app
from mrafno.report import write_report
from tests.browser import ARGUMENTS, MISSING, find_chromium
from tests.made_runs import made_run

ROOT = Path(__file__).parent.parent
PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
FENCE = re.compile(r"^```(\w+)(?: title=\"(.*?)\")?\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(path):
    """Language, title and text of every fenced block."""
    return FENCE.findall(path.read_text(encoding="utf-8"))


def runs(path):
    return any(kind in ("python", "console") for kind, _, _ in blocks(path))


# Code.


def masked(text):
    """Lines without the numbers, and the columns, that differ from machine to machine."""
    return [" ".join(re.sub(r"\d+(\.\d+)?", "#", line).split()) for line in text.splitlines() if line.strip()]


def said_by(command):
    """What a command says, and says to people. Ours runs in this process, because importing torch takes seconds."""
    if command.startswith("mrafno ") and not set("|>;&$") & set(command):
        done = CliRunner(env={"COLUMNS": "100"}).invoke(app, shlex.split(command)[1:])
        return done.exit_code, done.stdout, done.stderr
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def shell(text):
    """Run the commands of a console block; the lines shown after each are in its output, in that order."""
    for part in re.split(r"^\$ ", re.sub(r"\\\n\s*", "", text), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        code, out, err = said_by(command)
        assert code == 0, f"{command}\n{err}"
        check(command, out, shown)


def errors(text):
    """What each line that is not empty says an error is, or 0."""
    found = [re.search(r"error\s+(\d+\.\d+)", line) for line in text.splitlines() if line.strip()]
    return [float(match[1]) if match else 0.0 for match in found]


def check(what, out, shown):
    """All lines that are shown are in the output, in that order, with errors about as small as shown, or smaller."""
    said = iter(zip(masked(out), errors(out), strict=True))
    for line, promised in zip(masked(shown), errors(shown), strict=True):
        found = next((error for other, error in said if other == line), None)
        assert found is not None, f"{what} does not say, or not there: {line}\n{out}"
        assert found <= 1.5 * promised, f"{what} promises an error of {promised}, it is {found}\n{out}"


@pytest.mark.parametrize("name", [name for name, path in PAGES.items() if runs(path)])
def test_code_runs_as_somebody_would_paste_it(name, tmp_path, monkeypatch):
    """A block with a title is a file; Python and console blocks run one after another, in one folder.

    What Python prints is shown in a block of text after it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    names: dict[str, object] = {"__name__": "docs"}
    try:
        for kind, title, text in blocks(PAGES[name]):
            if title:
                Path(title).write_text(text, encoding="utf-8")
            if kind == "python":
                code = compile(text, title or name, "exec")
                if not title:
                    said = io.StringIO()
                    with contextlib.redirect_stdout(said):
                        exec(code, names)
            elif kind == "console":
                shell(text)
            elif kind == "text":
                check("Python", said.getvalue(), text)
    finally:
        for module in set(sys.modules) - known:
            if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
                del sys.modules[module]


def test_there_is_code_to_run():
    assert {"README.md", "docs/tutorial.md", "docs/ask-and-tell.md", "docs/surrogate.md"} <= {
        name for name, path in PAGES.items() if runs(path)
    }


def test_a_shown_line_that_is_not_said_is_found():
    shell("$ printf 'one 1\\ntwo 2.5\\n'\none 7\ntwo 3\n")
    with pytest.raises(AssertionError, match="does not say"):
        shell("$ printf 'one\\ntwo\\n'\ntwo\none\n")
    shell("$ printf 'one 1\\n' \\\n    ; printf 'two\\n'\none 1\ntwo\n")
    with pytest.raises(AssertionError, match="false"):
        shell("$ false\n")
    shell("$ echo 'cost 3, error 0.03'\ncost 2, error 0.021\n")
    for worse in ("0.03", "1.2"):
        with pytest.raises(AssertionError, match=rf"promises an error of 0\.01, it is {worse}"):
            shell(f"$ echo 'cost 3, error {worse}'\ncost 2, error 0.01\n")


# Commands.


def commands(text):
    """Every ``mrafno ...`` in code, and whether it is a whole command rather than a mention of one."""
    text = re.sub(r"\\\n\s*", " ", text)
    for kind, _, code in FENCE.findall(text):
        start = {"console": r"\$ ", "sh": ""}.get(kind)
        for line in re.findall(rf"^{start}(mrafno .*)", code, flags=re.MULTILINE) if start is not None else []:
            yield line, True
    prose = FENCE.sub("", text)
    for line in re.findall(r"^    (mrafno .*)", prose, flags=re.MULTILINE):
        yield line, True
    for line in re.findall(r"`(mrafno [^`]*)`", prose):
        yield " ".join(line.split()), False


def parsed(command):
    """The command as the program understands it; an error of its if it does not."""
    words = shlex.split(re.split(r" [|>] |, then", command)[0], comments=True)[1:]
    words = [word for word in words if word != "$@"]  # what a script was called with
    found = get_command(app)
    parent = typer.Context(found, info_name="mrafno")
    while words and not words[0].startswith("-") and hasattr(found, "commands"):
        assert words[0] in found.commands, f"there is no command {words[0]!r}"
        found = found.commands[words.pop(0)]
    return found.make_context(found.name, words, parent=parent) if words else None


@pytest.mark.parametrize("name", PAGES)
def test_commands_exist(name):
    for command, whole in commands(PAGES[name].read_text(encoding="utf-8")):
        try:
            parsed(command)
        except typer.Exit:
            pass  # --version
        except AssertionError as error:
            raise AssertionError(f"{command}: {error}") from error
        except Exception as error:
            # Typer brings the classes of these exceptions along, under names that changed.
            if whole or type(error).__name__ != "MissingParameter":
                raise AssertionError(f"{command}: {error}") from error


@pytest.mark.parametrize("name", PAGES)
def test_commands_leave_room_for_the_button_that_copies_them(name):
    """Longer ones are cut on the page, and continue after a backslash instead."""
    text = PAGES[name].read_text(encoding="utf-8")
    lines = [line for kind, _, code in FENCE.findall(text) if kind == "sh" for line in code.splitlines()]
    for kind, _, code in FENCE.findall(text):
        if kind == "console":
            lines += re.findall(r"^\$ .*(?:\n    .*(?=\n))*", code, flags=re.MULTILINE)
    assert [line for entry in lines for line in entry.splitlines() if len(line) > 70] == []


def test_commands_that_do_not_exist_are_found():
    found = dict(commands("    mrafno show a \\\n        b\n\n`mrafno run --stepz 3`\n"))
    assert found == {"mrafno show a  b": True, "mrafno run --stepz 3": False}
    for command in ("mrafno run --stepz 3", "mrafno show a b", "mrafno run burgers --steps many"):
        with pytest.raises(Exception, match=r"No such option|unexpected extra argument|valid integer"):
            parsed(command)
    with pytest.raises(AssertionError, match="no command"):
        parsed("mrafno fly")


# The site.


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_loads_nothing_from_the_network(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(https?:|//)[^>]*", text)
        assert not loaded, path
        assert not re.search(r"fonts\.g|unpkg|jsdelivr|cdnjs", text), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:|//)", path.read_text(encoding="utf-8")), path


def test_the_reference_is_whole(site):
    """Docstrings have become Markdown, and every command has its place."""
    for path in (site / "reference").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        left = re.findall(
            r":(?:mod|class|func|meth|attr|data|math):|\.\. math|={8}|\[bold\]|class=.arithmatex|&lt;autoref", text
        )
        assert not left, f"{path}: {left}"
    text = (site / "reference" / "acquisition.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for name in get_command(app).commands:
        assert f"<code>mrafno {name}</code>" in commands


def test_search_works_without_a_server(site):
    if find_chromium() is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto((site / "index.html").as_uri())
        page.get_by_placeholder("Search").press_sequentially("entropy")
        page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
        assert page.locator(".md-search-result__item").filter(has_text="entropy").count()
        browser.close()
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob", "about"}
    assert said == []


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("A :func:`~a.b.f` here", 'A <autoref identifier="a.b.f" optional><code>f</code></autoref> here'),
        ("Rate :math:`\\alpha`.", "Rate $\\alpha$."),
        ("So\n\n    .. math:: a +\n        b\n\n    end", "So\n\n    $$ a + b $$\n\n    end"),
        (".. math::\n    a &= 1 \\\\\n    b &= 2", "$$ \\begin{aligned} a &= 1 \\\\ b &= 2 \\end{aligned} $$"),
        ("===  ===\nm    n\n===  ===\n1    2 3\n===  ===", "| m | n |\n| --- | --- |\n| 1 | 2 3 |"),
        ("===  ===\nm    n\n===  ===\n1    2\n     3\n===  ===", "| m | n |\n| --- | --- |\n| 1 | 2 3 |"),
        ("Like this::\n\n    code", "Like this:\n\n    code"),
        ("Like this::\n\n    see :mod:`~a.b`\n\nEnd", "Like this:\n\n    see a.b\n\nEnd"),
        ("So:\n\n.. code-block:: python\n\n    code", "So:\n\n\n\n    code"),
    ],
)
def test_docstrings_become_markdown(docstring, markdown, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "machinery")
    from docstrings import as_markdown

    assert as_markdown(docstring).rstrip() == markdown


def test_the_pictures_are_drawings():
    pictures = sorted((ROOT / "docs" / "pictures").iterdir())
    assert {"demo.svg", "flow.svg"} <= {picture.name for picture in pictures}
    for picture in pictures:
        assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_figure_of_a_report_becomes_a_picture(tmp_path, monkeypatch):
    if find_chromium() is None:
        pytest.skip(MISSING)
    monkeypatch.syspath_prepend(ROOT / "docs" / "machinery")
    from picture import draw

    folders = [
        made_run(tmp_path / method, method=method, levels=[0, 1], errors=[0.5, 0.25])
        for method in ("mra-auto", "mra-u")
    ]
    write_report(folders, tmp_path / "report.html")
    draw(tmp_path / "report.html", tmp_path / "pictures" / "demo.svg")
    root = ElementTree.parse(tmp_path / "pictures" / "demo.svg").getroot()
    assert (root.get("width"), root.get("height")) == ("800", "440")
    words = " ".join(root.itertext())
    assert all(text in words for text in ("mra-auto (1 run)", "relative L2 error", "accumulated simulation cost"))
    assert "logarithmic cost" not in words  # a button is of no use there
