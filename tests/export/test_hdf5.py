"""Examples of a run in an HDF5 file: every number as it is in the run, and where PDEBench's readers look."""

import importlib.util
import json
import math

import h5py
import numpy as np
import pytest

from mrafno.errors import ExportError, LedgerError
from mrafno.export import export_hdf5
from mrafno.run.reader import RunReader
from tests import made_runs, runs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of four choices in two dimensions, and its file."""
    folder = made_runs.real_run(tmp_path_factory)
    path = tmp_path_factory.mktemp("hdf5") / "examples.hdf5"
    run = RunReader(folder)
    return run, path, export_hdf5(run, path)


def test_every_example_is_written_exactly(made):
    run, path, counts = made
    told = [q for q in run.state.queries.values() if q.status == "told"]
    assert sum(counts) == len([q for q in told if q.kind != "test"]) == 10
    with h5py.File(path) as file:
        for name, queries in {
            "level-0": [q for q in told if q.kind != "test" and q.level == 0],
            "level-1": [q for q in told if q.kind != "test" and q.level == 1],
            "test": [q for q in told if q.kind == "test"],
        }.items():
            group = file[name]
            assert [text.decode() for text in group["query"]] == [q.id for q in queries]
            for row, query in enumerate(queries):
                np.testing.assert_array_equal(group["tensor"][row], run.output(query))
                np.testing.assert_array_equal(group["nu"][row], run.input(query)[0])
            assert group["cost"][:].tolist() == [q.cost for q in queries]
            assert group["step"][:].tolist() == [q.step or 0 for q in queries]
            expected = [{"pool": "chosen"}.get(q.kind, q.kind) for q in queries]
            assert [text.decode() for text in group["origin"]] == expected
            np.testing.assert_array_equal(
                group["seconds"][:], [math.nan if q.seconds is None else q.seconds for q in queries]
            )


def test_links_for_readers_of_pdebench(made):
    """They take tensor (n, time, x, y), nu (n, x, y) and the coordinates at the top of the file."""
    run, path, counts = made
    with h5py.File(path) as file:
        assert file["tensor"].shape == (counts[1], 1, 8, 8)
        assert file["nu"].shape == (counts[1], 8, 8)
        assert file["tensor"] == file["level-1/tensor"]
        for name, points in zip(("x-coordinate", "y-coordinate"), run.grids[1].axes, strict=True):
            np.testing.assert_array_equal(file[name][:], points)
            np.testing.assert_array_equal(file["level-0"][name].shape, (4,))


def test_attributes(made):
    run, path, _ = made
    with h5py.File(path) as file:
        assert (file.attrs["task"], file.attrs["method"], file.attrs["seed"]) == ("darcy", "mra-auto", 3)
        assert (file.attrs["steps"], file.attrs["accumulated cost"]) == (4, run.state.cost)
        assert json.loads(file.attrs["settings"]) == run.state.settings.as_json()
        assert json.loads(file.attrs["task description"]) == run.state.task
        assert file["level-0"].attrs["resolution"].tolist() == [4, 4]
        assert file["level-1"].attrs["cost of one"] == run.costs[1]


def test_several_channels_levels_without_examples_and_imported_ones(tmp_path):
    from mrafno.run import Run
    from mrafno.tasks import FunctionTask

    rng = np.random.default_rng(0)
    task = FunctionTask(
        lambda f, level: np.stack([f[0], f[1], f[0]]), rng.normal(size=(12, 2, 9)), (5, 9), (1.0, 2.0), out_channels=3
    )
    f = rng.normal(size=(2, 2, 5))
    examples = {"input_0": f, "output_0": np.stack([f[:, 0], f[:, 1], f[:, 0]], axis=1), "cost_0": [0.5, 3.0]}
    with Run.create(tmp_path / "run", task, initial=2, test=0, examples=examples):
        pass
    assert export_hdf5(RunReader(tmp_path / "run"), tmp_path / "file.h5") == [2, 0]
    with h5py.File(tmp_path / "file.h5") as file:
        np.testing.assert_array_equal(file["level-0/nu"][:], f)
        np.testing.assert_array_equal(file["level-0/tensor"][:], examples["output_0"])
        assert file["level-0/cost"][:].tolist() == [0.5, 3.0]
        assert [text.decode() for text in file["level-0/origin"]] == ["imported"] * 2
        assert file["tensor"].shape == (0, 3, 9)
        assert "test" not in file


def test_the_run_is_only_read(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
        reader = RunReader(tmp_path / "run")  # while it is open for writing elsewhere
        assert export_hdf5(reader, tmp_path / "file.h5") == [3, 3]
        with pytest.raises(ExportError, match="is inside the run's own folder, which is only read"):
            export_hdf5(reader, tmp_path / "run" / "file.h5")
        runs.answer(run, run.ask(1))
        assert {path: path.stat().st_mtime_ns for path in before if path.name.startswith("q")} == {
            path: time for path, time in before.items() if path.name.startswith("q")
        }
        assert sum(export_hdf5(RunReader(tmp_path / "run"), tmp_path / "file.h5")) == 7


def test_a_damaged_array_leaves_no_file(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        output = run.state.queries["q000004"].output
    pack = tmp_path / "run" / output.file
    content = bytearray(pack.read_bytes())
    content[output.offset + output.size - 1] ^= 1
    pack.write_bytes(content)
    (tmp_path / "file.h5").write_bytes(b"an older one")
    with pytest.raises(LedgerError, match=rf"{output.file} at byte {output.offset} is damaged"):
        export_hdf5(RunReader(tmp_path / "run"), tmp_path / "file.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.h5", "run"]
    assert (tmp_path / "file.h5").read_bytes() == b"an older one"


def test_a_missing_extra_is_named(made, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExportError, match=r"pip install h5py"):
        export_hdf5(made[0], tmp_path / "file.h5")
