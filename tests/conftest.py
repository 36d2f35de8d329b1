"""Tests that interrupt a program need interrupts: a shell that starts them in the background has them ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
