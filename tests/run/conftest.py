"""What tests of runs share."""

import os

import pytest

from tests import runs


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Nothing is synced to the disk, and the cache of solutions is the test's own."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path):
    """A run of the tiny task that has learnt from its first examples."""
    with runs.ready(tmp_path / "run") as run:
        yield run
