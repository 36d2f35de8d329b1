"""A cache, a folder for whole studies, and results with chosen numbers."""

import pytest

from tests.studies.tiny import made_result


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path_factory.getbasetemp() / "studies-cache"))


@pytest.fixture
def made():
    """Two methods with two seeds each; ours ends at half the cost."""
    return {
        "mra-uhat": [
            made_result("mra-uhat", seed, (0.0, 20.0, 50.0), (0.8, 0.2 * (1 + seed), 0.1), (0, 0, 1)) for seed in (0, 1)
        ],
        "random-high": [
            made_result("random-high", seed, (0.0, 50.0, 100.0), (0.8, 0.6, 0.4), (1, 1)) for seed in (0, 1)
        ],
    }


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """A folder that whole studies share, so that they share runs."""
    return tmp_path_factory.mktemp("study")
