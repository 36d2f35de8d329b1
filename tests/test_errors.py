"""What messages are made of."""

import json

import numpy as np
import pytest

from mrafno.errors import SimulationError, place_of, printable, raised, sentence
from mrafno.tasks import FunctionTask


def caught(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_place_is_in_the_code_of_who_reads_it():
    """Not in the library where the error was raised in the end."""
    line = caught.__code__.co_firstlineno  # any line of this file
    error = caught(lambda: json.loads("{"))
    name, _, number = place_of(error).partition(":")
    assert name == "test_errors.py"
    assert int(number) > line
    assert raised(error) == f"JSONDecodeError ({place_of(error)}): {error}"
    assert place_of(caught(lambda: np.linalg.inv(np.zeros((2, 2))))).startswith("test_errors.py:")


def test_what_only_we_raised_has_no_place():
    task = FunctionTask(lambda f: f, np.ones((1, 5)), (5,), (1,))
    with pytest.raises(SimulationError, match=r"raised TypeError: .*takes 1 positional argument but 2 were given$"):
        task.solve(np.ones((1, 1, 5)), 0)


def test_what_cannot_say_what_it_is():
    assert raised(ValueError()) == "ValueError"
    assert raised(ValueError("two\nlines")) == "ValueError: two lines"


@pytest.mark.parametrize(
    ("text", "ends"), [("CFL violated", "CFL violated."), ("Why?", "Why?"), ("no.", "no."), ("cut ...", "cut ...")]
)
def test_a_sentence_ends(text, ends):
    assert sentence(text) == ends


def test_what_commands_a_terminal_is_written_out():
    assert printable("na\u00efve, 34 \u00b0C\nin two lines") == "na\u00efve, 34 \u00b0C\nin two lines"
    assert printable("\x1b[2Jgone\x07\u202e\x9b") == r"\x1b[2Jgone\x07\u202e\x9b"
