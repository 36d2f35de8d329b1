"""What a driver says of itself: written while it works, believed only where it makes sense."""

import json
import os

import pytest

from mrafno.run import status
from mrafno.run.status import StatusWriter, read_status
from tests.runs import create, ready


def test_the_status_of_an_advance(tmp_path):
    said = []

    def watch(phase, done=None):
        said.append((phase, read_status(tmp_path / "run")))

    with ready(tmp_path / "run") as run:
        run.advance(steps=2, budget=50.0, watch=watch)
    first = next(found for phase, found in said if found is not None)
    assert (first.pid, first.goals) == (os.getpid(), {"steps": 2.0, "budget": 50.0})
    ended = read_status(tmp_path / "run")
    assert (ended.phase, ended.done, ended.goals) == ("", None, first.goals)
    assert ended.updated >= ended.started
    assert ended.samples[-1].memory > 1e6


def test_samples_are_thinned_and_keep_the_whole_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(status.time, "time", lambda: 1000.0 + now[0])
    monkeypatch.setattr(status.time, "process_time", lambda: 0.5 * now[0])
    writer = StatusWriter(tmp_path, {"steps": None, "budget": 10, "target": None})
    for second in range(2000):
        now[0] = float(second)
        writer("simulating")
    found = read_status(tmp_path)
    assert found.goals == {"budget": 10.0}
    assert 120 <= len(found.samples) <= 240
    assert found.samples[0].time < 1020
    assert found.samples[-1].time > 2990
    assert all(sample.cpu == pytest.approx(0.5) for sample in found.samples[1:])


def test_time_left_of_a_phase(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(status.time, "time", lambda: now[0])
    writer = StatusWriter(tmp_path, {})
    writer("training", 0.0)
    now[0] = 10.0
    writer("training", 0.25)
    assert read_status(tmp_path).phase_seconds_left(10.0) == pytest.approx(30.0)
    assert read_status(tmp_path).phase_seconds_left(15.0) == pytest.approx(25.0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"pid": 1}',
        b"[" * 100_000,
        b'{"goals": []}',
        json.dumps({"pid": "x" * 200_000}).encode(),
    ],
)
def test_a_status_that_makes_no_sense_is_none(tmp_path, content):
    (tmp_path / "status.json").write_bytes(content)
    assert read_status(tmp_path) is None


def test_a_status_with_infinite_numbers_or_behind_a_link_is_none(tmp_path):
    StatusWriter(tmp_path, {"steps": 3}).write()
    assert read_status(tmp_path).goals == {"steps": 3.0}
    values = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps({**values, "started": float("inf")}))
    assert read_status(tmp_path) is None
    (tmp_path / "real.json").write_text(json.dumps(values))
    (tmp_path / "status.json").unlink()
    (tmp_path / "status.json").symlink_to(tmp_path / "real.json")
    assert read_status(tmp_path) is None


def test_a_status_that_cannot_be_written_stops_nothing(tmp_path):
    with create(tmp_path / "run") as run:
        (tmp_path / "run" / "status.json").mkdir()
        (tmp_path / "run" / "fits.jsonl").mkdir()
        assert run.advance(steps=1).steps == 1
