"""Nothing is lost: drivers that are killed at any moment, full disks, and files that somebody else has made.

What is promised of a driver that dies: the resumed run asks the same queries as one that nothing happened to, at the
same costs, and ends with the same bits of weights; what the ledger holds stays; and a simulation whose result was
recorded, or spooled by a worker, is not run again. One that was cut off in the middle is.
"""

import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import CheckpointError, LedgerError
from mrafno.run import Run
from mrafno.simulation.executors import InProcess
from mrafno.simulation.worker import simulate
from mrafno.storage.layout import FITS, LEDGER_COPY, STATUS
from tests import runs


def tormented(folder, **jobs):
    """What came of runs that were killed and resumed, in a process of its own that can fork their drivers."""
    values = []
    for name, job in jobs.items():
        (folder / name).mkdir()
        values.append({"folder": str(folder / name), "seed": 1, **job})
    command = [sys.executable, "-m", "tests.runs", json.dumps(values)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    reports = dict(zip(jobs, json.loads(done.stdout), strict=True))
    for name, report in reports.items():
        print(name, report)
        assert report["codes"] == [], done.stderr
    return reports


def check(report, deaths, workers=1):
    assert report["deaths"] == deaths
    # Of the simulations that were finished when the driver died, all but the very last ones were safe.
    assert report["unsafe"] <= workers
    assert report["different"] == 0
    assert report["lost"] == 0
    assert report["again"] == []


# Drivers that die.


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return tormented(
        tmp_path_factory.mktemp("torment"),
        time={"deaths": 10, "manner": "time"},
        file={"deaths": 10, "manner": "file", "settings": {"batch": 3}},
        interrupt={"deaths": 5, "manner": "interrupt"},
    )


@pytest.mark.parametrize("manner", ["time", "file"])
def test_a_driver_that_is_killed_and_resumed_ends_where_it_would_have(reports, manner, record_property):
    """With SIGKILL, at random times (training, choosing, simulating) or in the middle of a write to the disk."""
    check(reports[manner], 10)
    record_property("kills", reports[manner]["deaths"])


def test_ctrl_c_stops_a_driver_in_time_and_it_ends_where_it_would_have(reports):
    check(reports["interrupt"], 5)
    assert reports["interrupt"]["stopped"] > 2  # the others had not begun, or had ended
    assert reports["interrupt"]["slowest"] < 5


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["time", "file", "interrupt"])
@pytest.mark.parametrize("workers", [0, 2])
def test_forty_deaths(tmp_path, manner, workers, record_property):
    """In this process, and with a pool, whose workers go on when their driver is dead."""
    settings = {"batch": 2} if workers or manner == "file" else {"refit_growth": 0.5, "update_every": 2}
    job = {"deaths": 40, "manner": manner, "workers": workers, "settings": settings}
    report = tormented(tmp_path, run=job)["run"]
    check(report, 40, workers or 1)
    record_property("kills", report["deaths"])
    assert len(report["phases"]) > 1


# Full disks.


#: Files that no result depends on: a disk that is full for one write of theirs stops nothing.
NEEDLESS = (LEDGER_COPY, STATUS, FITS)


class Full:
    """A disk that is full at its n-th write of files that results depend on, or from then on for all files."""

    def __init__(self, monkeypatch, call, at, forever):
        self.real, self.at, self.forever, self.count = getattr(os, call), at, forever, 0
        monkeypatch.setattr(os, call, self)

    def __call__(self, handle, *content):
        needless = Path(f"/proc/self/fd/{handle}").readlink().name.removeprefix(".").startswith(NEEDLESS)
        self.count += not needless
        if (self.count == self.at and not needless) or (self.forever and self.count > self.at):
            for text in content:
                self.real(handle, text[: len(text) // 2])  # some of it fits
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.real(handle, *content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four steps that nothing happened to, and how often it wrote."""
    with runs.ready(tmp_path_factory.mktemp("whole") / "run") as run, pytest.MonkeyPatch.context() as patch:
        counts = {call: Full(patch, call, 0, False) for call in ("write", "fsync")}
        run.advance(total_steps=4)
        return runs.decisions(run.state), runs.weights(run), {call: disk.count for call, disk in counts.items()}


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("forever", [False, True])
def test_a_full_disk_stops_the_run_and_with_space_it_goes_on(tmp_path, monkeypatch, whole, call, forever):
    moments = np.random.default_rng(forever).choice(np.arange(1, whole[2][call] + 1), 3, replace=False)
    for at in sorted(moments.tolist()):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch:
            run = runs.ready(folder)
            before = runs.ledger_bytes(run)
            Full(patch, call, at, forever)
            with pytest.raises((LedgerError, CheckpointError), match=r"could not be written .*No space left"):
                run.advance(total_steps=4)
            kept = runs.ledger_bytes(run)
            assert kept.startswith(before)
        # With space again, in the same process or in the next one.
        if at % 2:
            run.close()
            run = Run.open(folder, runs.tiny())
        assert run.advance(total_steps=4).reason == "finished 4 steps"
        assert runs.ledger_bytes(run).startswith(kept[: kept.rfind(b"\n") + 1])
        assert runs.decisions(run.state) == whole[0]
        assert runs.weights(run) == whole[1]
        run.close()
        with Run.open(folder, write=False) as again:
            assert again.state == run.state


# Files that somebody else has made.


def test_a_link_in_place_of_the_spool_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with runs.ready(tmp_path / "run") as run:
        (tmp_path / "run" / "spool").symlink_to(tmp_path / "elsewhere")
        for executor in (None, InProcess()):
            with pytest.raises(LedgerError, match="spool is a symbolic link, which is not followed"):
                run.advance(total_steps=1, executor=executor)
    assert list((tmp_path / "elsewhere").iterdir()) == []


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_spooled_results_of_somebody_elses_making_are_not_taken(tmp_path):
    spool = tmp_path / "run" / "spool"
    with runs.ready(tmp_path / "run") as run:
        first, second = run.ask(2)
        spool.mkdir()
        for query in (first, second):
            simulate(run.task, query, spool=spool)
        (spool / f"{first.id}.npy").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
        (spool / f"{second.id}.npy").rename(tmp_path / "elsewhere.npy")
        (spool / f"{second.id}.npy").symlink_to(tmp_path / "elsewhere.npy")
        run.advance(total_steps=2)
        assert [q.status for q in run.state.of_kind("pool")] == ["told", "told"]
        assert any("checksum is wrong" in note for note in run.ledger.damage)
        assert any("is a symbolic link" in note for note in run.ledger.damage)
        for query in (first, second):
            told = run.ledger.read_array(run.state.queries[query.id].output)
            np.testing.assert_array_equal(told, runs.smooth(query.f, query.level))
    assert not (tmp_path / "exploded").exists()
