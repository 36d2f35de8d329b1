"""Results on disk: read back exactly, and nothing damaged or foreign is taken for one."""

import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError, TaskError
from mrafno.simulation import spool as spool_module
from mrafno.simulation.query import Query
from mrafno.simulation.spool import clear_spool, read_result, read_spool
from mrafno.simulation.worker import simulate
from tests.simulators import (
    double,
    query_of,
    task_of,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


def test_damage_anywhere_is_found(scratch):
    """Every byte in turn is changed: there is never another number than the right one, and a complaint says where."""
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    for path in (scratch / "q000001.json", scratch / "q000001.npy"):
        good = path.read_bytes()
        for position in range(len(good)):
            damaged = bytearray(good)
            damaged[position] ^= 1
            path.write_bytes(damaged)
            found, complaints = read_spool(scratch, [query])
            assert found == {}
            assert len(complaints) == 1
            assert path.name in complaints[0]
            assert complaints[0].endswith("Remove it: the query is simulated again.")
            assert read_result(scratch, query) is None
        for size in (0, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:size])
            assert read_spool(scratch).observations == {}
        path.write_bytes(good)
    assert list(read_spool(scratch, [query]).observations) == ["q000001"]
    (scratch / "q000001.json").write_text("{}")
    np.testing.assert_array_equal(simulate(task_of(double), query, spool=scratch).output, 2 * query.f)
    assert list(read_spool(scratch, [query]).observations) == ["q000001"]


@pytest.mark.parametrize("ending", ["json", "npy"])
def test_a_result_that_is_recorded_and_removed_meanwhile_is_no_damage(scratch, monkeypatch, ending):
    """A check looks at a spool that a driver empties."""
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    read = spool_module.read_bytes

    def late(path, **how):
        if path.suffix == f".{ending}":
            clear_spool(scratch, [query.id])
        return read(path, **how)

    monkeypatch.setattr(spool_module, "read_bytes", late)
    assert read_spool(scratch) == ({}, [])


def resealed(path, **changes):
    """A .json with other content and a check that fits, as somebody might make it who means harm."""
    record = json.loads(path.read_text()) | changes
    del record["check"]
    path.write_bytes(spool_module._encode(record))


def test_a_pickle_is_not_unpickled(scratch):
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    np.save(scratch / "q000001.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    content = (scratch / "q000001.npy").read_bytes()
    resealed(scratch / "q000001.json", sha256=hashlib.sha256(content).hexdigest(), shape=[1])
    found, complaints = read_spool(scratch)
    assert found == {}
    assert "no real numbers" in complaints[0]
    (scratch / "q000001.npy").write_bytes(pickle.dumps(Bomb()))
    assert read_spool(scratch).observations == {}
    (scratch / "q000001.json").write_bytes(pickle.dumps(Bomb()))
    assert read_spool(scratch).observations == {}
    assert not (scratch / "exploded").exists()


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path(os.environ["SCRATCH"], "exploded"),)


def test_a_record_that_is_whole_but_wrong_is_complained_about(scratch):
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    for changes in ({"shape": [3]}, {"id": "q000002"}, {"seconds": "long"}, {"seconds": -1}, {"reason": 3}):
        resealed(scratch / "q000001.json", **changes)
        found, complaints = read_spool(scratch)
        assert (found, len(complaints)) == ({}, 1), changes
        clear_spool(scratch, ["q000001"])
        simulate(task_of(double), query, spool=scratch)
    for content in ("", "[1]", "[" * 100_000, "{}"):
        (scratch / "q000001.json").write_text(content)
        assert len(read_spool(scratch).complaints) == 1


@pytest.mark.parametrize("kind", ["json", "npy"])
def test_links_and_pipes_are_not_followed(scratch, kind):
    spool = scratch / "spool"
    spool.mkdir()
    simulate(task_of(double), query_of(), spool=spool)
    path = spool / f"q000001.{kind}"
    path.rename(scratch / "elsewhere")
    path.symlink_to(scratch / "elsewhere")
    found, complaints = read_spool(spool)
    assert found == {}
    assert "is a symbolic link, which is not followed" in complaints[0]
    path.unlink()
    os.mkfifo(path)
    assert "is no regular file" in read_spool(spool).complaints[0]
    # Writing goes to a new file in the link's place.
    path.unlink()
    path.symlink_to(scratch / "elsewhere")
    before = (scratch / "elsewhere").read_bytes()
    simulate(task_of(double), query_of(), spool=spool)
    assert (scratch / "elsewhere").read_bytes() == before
    assert list(read_spool(spool).observations) == ["q000001"]


def test_a_spool_that_is_a_link_is_refused(scratch):
    (scratch / "real").mkdir()
    (scratch / "link").symlink_to(scratch / "real")
    for refused in (
        lambda: simulate(task_of(double), query_of(), spool=scratch / "link"),
        lambda: read_spool(scratch / "link"),
        lambda: clear_spool(scratch / "link", ["q000001"]),
    ):
        with pytest.raises(LedgerError, match="is a symbolic link"):
            refused()
    assert list((scratch / "real").iterdir()) == []


def test_foreign_names_are_left_alone(scratch):
    names = [
        "notes.txt",
        "q1.json",
        "q000001.json.json",
        "Q000001.json",
        "q00000\u0661.json",
        "q000001 .json",
        ".hidden",
    ]
    for name in names:
        (scratch / name).write_text("{}")
    (scratch / ".q000001.json.0123456789abcdef.part").write_text("half")
    (scratch / "q000001.npy").write_text("without its .json")
    found, complaints = read_spool(scratch)
    assert found == {}
    assert sorted(Path(c.split(" is not a spooled result")[0]).name for c in complaints) == sorted(names)


@pytest.mark.parametrize("name", ["../q000001", "q1", "q000001/../../x", "q000001\n", "", "q000001.npy", None, 1])
def test_an_id_that_is_none_becomes_no_file_name(scratch, name):
    (scratch / "spool").mkdir()
    query = Query(name, "pool", 1, query_of().f)
    with pytest.raises(TaskError, match="is not the id of a query"):
        simulate(task_of(double), query, spool=scratch / "spool")
    with pytest.raises(TaskError, match="is not the id of a query"):
        clear_spool(scratch / "spool", [name])
    assert [path.name for path in scratch.iterdir()] == ["spool"]


def test_a_result_that_was_not_asked_for_is_not_taken(scratch):
    simulate(task_of(double), query_of(1), spool=scratch)
    simulate(task_of(double), query_of(2), spool=scratch)
    other = Query("q000002", "pool", 1, query_of(2).f + 1)
    found, complaints = read_spool(scratch, [other])
    assert found == {}
    assert "answers a query that was not asked" in complaints[0]
    assert "is the result of another input or level" in complaints[1]


def test_clearing_removes_all_of_a_query_and_nothing_else(scratch):
    for number in (1, 2):
        simulate(task_of(double), query_of(number), spool=scratch)
    (scratch / ".q000001.npy.0123456789abcdef.part").write_text("half")
    clear_spool(scratch, ["q000001", "q000003"])
    assert sorted(path.name for path in scratch.iterdir()) == ["q000002.json", "q000002.lock", "q000002.npy"]
    clear_spool(scratch / "nowhere", ["q000001"])
    assert read_spool(scratch / "nowhere") == ({}, [])
