"""The guard passes what is as quick as it was, and fails a loss of more than a quarter."""

import json
from contextlib import contextmanager

import pytest

from benchmarks import bench_check


def busy(n):
    return lambda: sum(range(n))


@contextmanager
def pair(ours):
    yield busy(400_000), busy(ours), 1.0


def guarded(monkeypatch, ours):
    monkeypatch.setattr(bench_check, "GUARDS", {"sums": lambda: pair(ours)})


def test_what_is_as_quick_passes_and_a_loss_does_not(monkeypatch, capsys):
    guarded(monkeypatch, 100_000)
    assert bench_check.compare({"sums": 4.0}) == {}
    assert "recorded 4" in capsys.readouterr().out
    lost = bench_check.compare({"sums": 12.0})
    assert 0.1 < lost["sums"] < 0.6
    assert capsys.readouterr().out.count("measured again") == bench_check.TRIES - 1


def test_a_loss_of_a_quarter_is_the_limit():
    recorded = {"a": 10.0, "b": 10.0}
    assert bench_check.losses({"a": 7.6, "b": 7.4, "c": 0.1}, recorded) == {"b": pytest.approx(0.74)}


def test_what_is_not_recorded_is_named(monkeypatch, capsys):
    guarded(monkeypatch, 100_000)
    assert bench_check.compare({}) == {}
    assert "it is not recorded" in capsys.readouterr().out


def test_all_guards_are_recorded():
    kept = json.loads((bench_check.RESULTS / "check.json").read_text())
    assert {name for name in bench_check.GUARDS if bench_check.possible(name)} <= set(kept["ratios"])
    assert all(ratio["median"] > 1 for ratio in kept["ratios"].values())
