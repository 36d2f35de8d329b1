"""Predictions, exports and imports from the shell."""

import json
import subprocess
import sys

import h5py
import numpy as np
import onnxruntime
import pytest

from mrafno import export
from mrafno.surrogate import Surrogate
from tests.cli.conftest import TINY, mrafno, shown


@pytest.fixture
def inputs(tmp_path):
    phase = np.array([[0.6], [0.9], [1.2]])
    f = np.sin(2 * np.pi * np.linspace(0, 1, 33) + phase)[:, None]  # like the task's own: no warning is due
    np.save(tmp_path / "in.npy", f)
    return tmp_path / "in.npy"


def test_predict_writes_mean_and_std_and_prints_their_reliability(original, inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = original[0]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = mrafno("predict", folder, inputs)
    assert result.exit_code == 0
    assert result.stderr == "warning: std is calibrated on 2 examples, which is too few to rely on it.\n"
    first, calibrated, measured = result.stdout.splitlines()
    assert first == "wrote prediction.npz: mean and std, each 3 x 1 x 33 (functions, channels, grid)"
    assert calibrated.startswith("std is ")
    error = shown(folder)["steps"][-1]["metrics"]["relative_l2"]
    assert measured.startswith(f"Last measured on 4 test examples, after step 4: relative error {error:.4g}; 90 % ")
    expected = Surrogate.load(folder).predict(np.load(inputs))
    with np.load(tmp_path / "prediction.npz") as out:
        np.testing.assert_array_equal(out["mean"], expected.mean)
        np.testing.assert_array_equal(out["std"], expected.std)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_predict_on_another_grid_with_json(original, inputs, tmp_path):
    out = tmp_path / "p.npz"
    result = mrafno("predict", original[0], inputs, "--grid", "9", "--level", 0, "--out", out, "--json")
    found = json.loads(result.stdout)
    assert (found["shape"], found["level"], found["out"]) == ([3, 1, 9], 0, str(out))
    assert found["measured"]["metrics"] == shown(original[0])["steps"][-1]["metrics"]
    with np.load(out) as values:
        assert values["std"].shape == (3, 1, 9)
        np.testing.assert_array_equal(
            values["mean"], Surrogate.load(original[0]).predict(np.load(inputs)[..., ::4], 0).mean
        )


def test_invalid_arguments_of_predict(original, inputs, tmp_path):
    def refusal(code, *arguments):
        result = mrafno("predict", *arguments, "--out", tmp_path / "p.npz")
        assert (result.exit_code, result.stdout) == (code, "")
        assert not (tmp_path / "p.npz").exists()
        return result.stderr

    folder = original[0]
    assert refusal(1, tmp_path / "none", inputs) == (
        f"error: export: there is no run at {tmp_path / 'none'}. Give the folder of a run or of a checkpoint.\n"
    )
    assert refusal(1, tmp_path, inputs).endswith("Give the folder of a run, or one that Surrogate.save wrote.\n")
    assert refusal(1, folder, tmp_path / "none.npy").startswith(f"error: {tmp_path / 'none.npy'} is missing.")
    assert "'a' is not a number of points per axis" in refusal(2, folder, inputs, "--grid", "a")
    assert refusal(1, folder, inputs, "--grid", "5x5").startswith("error: predict: a grid of 5x5 points does not fit")
    assert refusal(1, folder, inputs, "--level", 5) == "error: surrogate: unknown level 5; it knows 0 to 1.\n"
    for values, said in (
        (np.ones((2, 3, 9)), "error: surrogate: inputs of shape (2, 3, 9) are not (n, 1, grid of 1 axis), nor one "),
        (np.full(9, np.nan), "error: surrogate: the inputs have NaN or infinite values.\n"),
        (np.array([{}], dtype=object), f"error: {tmp_path / 'wrong.npy'} holds object, which are no real numbers. "),
    ):
        np.save(tmp_path / "wrong.npy", values, allow_pickle=True)
        assert refusal(1, folder, tmp_path / "wrong.npy").startswith(said)


def test_export_passes_its_arguments_on(original, tmp_path, monkeypatch):
    calls = []

    def write(kind):
        return lambda surrogate, path, **how: calls.append((kind, surrogate.fits, path, how)) or 2.5e-7

    monkeypatch.setattr(export, "export_onnx", write("onnx"))
    monkeypatch.setattr(export, "export_torch", write("torch"))
    onnx, program = tmp_path / "m.onnx", tmp_path / "m.pt2"
    result = mrafno("export", original[0], "--torch", program, "--onnx", onnx)
    end = ": f (n, 1, 17) to mean and std; the largest difference from the surrogate is 2.5e-07 of the largest value"
    assert result.stdout.splitlines() == [f"wrote {onnx}{end}", f"wrote {program}{end}"]
    how = {"level": None, "about": {"task": "tiny", "method": "mra-auto", "seed": 0}}
    fits = Surrogate.load(original[0]).fits
    assert calls == [("onnx", fits, onnx, how), ("torch", fits, program, how)]


@pytest.mark.slow
def test_exported_files(original, tmp_path):
    folder = original[0]
    onnx, hdf5 = tmp_path / "model.onnx", tmp_path / "examples.h5"
    result = mrafno("export", folder, "--onnx", onnx, "--hdf5", hdf5, "--level", 0)
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert first.startswith(f"wrote {onnx}: f (n, 1, 9) to mean and std; the largest difference from the surrogate is ")
    assert second.startswith(f"wrote {hdf5}: ")
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    f = np.linspace(-1, 1, 18, dtype=np.float32).reshape(2, 1, 9)
    mean, std = session.run(["mean", "std"], {"f": f})
    expected = Surrogate.load(folder).predict(f, 0)
    np.testing.assert_allclose(mean, expected.mean, atol=1e-5 * np.abs(expected.mean).max())
    np.testing.assert_allclose(std, expected.std, rtol=1e-4)
    about = session.get_modelmeta().custom_metadata_map
    assert (about["mrafno.task"], about["mrafno.method"], about["mrafno.seed"]) == ("tiny", "mra-auto", "0")
    with h5py.File(hdf5) as file:
        assert len(file["level-0/tensor"]) + len(file["level-1/tensor"]) == 6 + 4


def test_invalid_arguments_of_export(original, finished, tmp_path):
    nothing = mrafno("export", original[0])
    assert nothing.exit_code == 2
    assert "give at least one file to write" in nothing.stderr
    result = mrafno("export", finished, "--hdf5", finished / "ledger.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: export: {finished / 'ledger.jsonl'} is inside the run's own folder")
    assert shown(finished)["steps"]
    result = mrafno("export", tmp_path / "none", "--hdf5", tmp_path / "file.h5")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert not (tmp_path / "file.h5").exists()


def test_a_run_starts_from_earlier_simulations(solver, tmp_path):
    rng = np.random.default_rng(3)
    arrays = {}
    for level, points in enumerate((9, 17)):
        f = np.sin(np.linspace(0, 4, points) + rng.normal(size=(3, 1)))
        arrays |= {f"input_{level}": f, f"output_{level}": np.cumsum(f, axis=-1) / points}
    np.savez(tmp_path / "earlier.npz", **arrays, cost_1=[2.0, 2.0, 3.0])
    run = tmp_path / "run"
    result = mrafno("run", f"{solver}:task", "--out", run, *TINY, "--steps", 2, "--examples", tmp_path / "earlier.npz")
    assert result.exit_code == 0, result.output
    found = shown(run)
    assert found["initial_cost"] == 3 * 1.0 + 7.0
    table = mrafno("show", run).stdout
    assert found["accumulated_cost"] == 2
    assert "34 in all: 0 initial, 2 chosen, 32 test; 10 before the run, imported" in table
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if line[:1] == "│"]
    shown_rows = {row[0]: row[1:] for row in cells}
    assert (shown_rows["cost of one"], shown_rows["imported"]) == (["1", "8"], ["3", "3"])
    assert [step["query"] for step in found["steps"]] == ["q000010", "q000011"]  # after 6 given and 4 test examples
    config = tmp_path / "settings.toml"
    config.write_text(
        f'task = "{solver}:task"\nout = "{tmp_path / "other"}"\nexamples = "{tmp_path / "earlier.npz"}"\n'
    )
    assert mrafno("create", "--config", config, *TINY).exit_code == 0
    asked = json.loads(mrafno("ask", tmp_path / "other", "-n", 10).stdout)
    assert [query["kind"] for query in asked] == ["test"] * 4
    np.savez(tmp_path / "wrong.npz", inputs_0=arrays["input_0"])
    wrong = mrafno("create", f"{solver}:task", "--out", tmp_path / "third", *TINY, "--examples", tmp_path / "wrong.npz")
    assert wrong.exit_code == 1
    assert wrong.stderr == (
        f"error: examples {tmp_path / 'wrong.npz'}: unknown name 'inputs_0'. Did you mean 'input_0'?\n"
    )
    assert not (tmp_path / "third").exists()


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from mrafno.cli import app\n"
        "for words in (['--help'], ['predict', '--help'], ['export', '--help']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0\n"
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'h5py', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
