"""Programs of torch.export, read back, beside the surrogate's own predictions."""

import json

import numpy as np
import pytest
import torch

from mrafno.errors import ExportError
from mrafno.export import export_torch
from mrafno.export.program import GridSurrogate
from mrafno.export.torch_program import ABOUT
from tests import small_surrogates


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(
    ("name", "dim", "n"), [("ensemble", 1, 1), pytest.param("dropout", 2, 5, marks=pytest.mark.slow)]
)
def test_a_program_that_is_read_back_predicts_as_the_surrogate(tmp_path, monkeypatch, name, dim, n, one_by_one):
    if one_by_one:
        monkeypatch.setattr("mrafno.export.program._LARGE", 0)
    surrogate, path = small_surrogates.surrogate(name, dim), tmp_path / "model.pt2"
    assert export_torch(surrogate, path, about={"task": "made"}) < 1e-6
    said = {ABOUT: ""}
    loaded = torch.export.load(path, extra_files=said).module()
    assert json.loads(said[ABOUT])["task"] == "made"
    f = np.random.default_rng(1).normal(100, 3, (n, surrogate.domain.in_channels, *surrogate.domain.grids[1].shape))
    mean, std = loaded(torch.as_tensor(f, dtype=torch.float32))
    expected = surrogate.predict(f.astype(np.float32))
    np.testing.assert_allclose(mean.numpy(), expected.mean, atol=1e-6 * np.abs(expected.mean).max())
    np.testing.assert_allclose(std.numpy(), expected.std, rtol=1e-6)


@pytest.mark.parametrize(
    ("task", "level", "numbers"),
    [
        ("burgers", 1, (1, 7, 64, 1000)),
        pytest.param("darcy", 0, (1, 7, 64), marks=pytest.mark.slow),
        pytest.param("darcy", 1, (1, 7, 64), marks=pytest.mark.slow),
        pytest.param("diffusion3d", 0, (1, 7, 64, 1000), marks=pytest.mark.slow),
        pytest.param("diffusion3d", 1, (1, 7, 64), marks=pytest.mark.slow),
    ],
)
def test_the_default_network_takes_any_number_of_inputs(tmp_path, task, level, numbers):
    """Its layers choose their products by size, which tiny networks do not show."""
    surrogate, path = small_surrogates.full_size_surrogate(task), tmp_path / "model.pt2"
    export_torch(surrogate, path, level=level)
    loaded = torch.export.load(path).module()
    for n in numbers:
        f = small_surrogates.random_inputs(surrogate, level, n)
        with torch.no_grad():
            mean, std = (value.numpy() for value in loaded(torch.as_tensor(f)))
        expected = surrogate.predict(f, level)
        np.testing.assert_allclose(mean, expected.mean, atol=1e-6 * np.abs(expected.mean).max())
        np.testing.assert_allclose(std, expected.std, rtol=1e-5)


def test_a_program_that_differs_is_not_written(tmp_path, monkeypatch):
    class Doubled(torch.nn.Module):
        def forward(self, f):
            return 2 * f, f

    made = torch.export.export(Doubled(), (torch.ones(2, 1, 11),), dynamic_shapes={"f": {0: torch.export.Dim.AUTO}})
    monkeypatch.setattr(GridSurrogate, "program", lambda self: made)
    with pytest.raises(ExportError, match=r"the program of torch\.export differs from the surrogate"):
        export_torch(small_surrogates.surrogate(), tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())
