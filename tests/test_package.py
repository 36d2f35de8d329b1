"""The names that people start with."""

import logging
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mrafno


def test_every_name_is_there_and_listed():
    for name in mrafno.__all__:
        assert getattr(mrafno, name) is not None
    assert set(dir(mrafno)) >= {"Run", "FunctionTask", "CommandTask", "get_task", "Surrogate", "Method"}
    assert set(mrafno.__all__) - {"__version__"} == set(dir(mrafno))
    with pytest.raises(AttributeError, match="module 'mrafno' has no attribute 'Rum'"):
        mrafno.Rum  # noqa: B018


def test_importing_it_imports_nothing_heavy():
    code = "import sys, mrafno; mrafno.Method, mrafno.FunctionTask, mrafno.Run; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_types_ship_and_logging_is_silent_by_default():
    assert files("mrafno").joinpath("py.typed").is_file()
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("mrafno").handlers)


def test_no_message_advises_to_install_a_package_of_this_name_from_an_index():
    """Whatever has the name there is not this package."""
    for path in Path(mrafno.__file__).parent.rglob("*.py"):
        assert not re.search(r"pip install [\"']?mrafno", path.read_text(encoding="utf-8")), path
