"""What tests of storage share."""

import os

import pytest


@pytest.fixture
def quick(monkeypatch):
    """Thousands of files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
