"""Tests that interrupt a program need interrupts, and none may touch what the person who runs them has at home."""

import atexit
import os
import shutil
import signal
import tempfile

# A shell that starts tests in the background has interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

_home = tempfile.mkdtemp(prefix="mrafno-test-state-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["XDG_STATE_HOME"] = _home
