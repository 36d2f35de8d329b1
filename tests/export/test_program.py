"""A surrogate as one function of tensors says what the surrogate says."""

import numpy as np
import pytest
import torch

from mrafno.errors import ExportError
from mrafno.export import program
from mrafno.export.program import GridSurrogate
from mrafno.surrogate import Ensemble, input_channels
from mrafno.surrogate.operator import spectral
from tests import small_surrogates


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", ["ensemble", "point", "dropout", "sgld", "svi"])
def test_every_kind_of_inference_predicts_as_the_surrogate(name, dim):
    surrogate = small_surrogates.surrogate(name, dim, "float64")
    network = GridSurrogate(surrogate)
    f = network.inputs(5)
    mean, std = (value.numpy() for value in network(torch.as_tensor(f)))
    expected = surrogate.predict(f)
    assert mean.shape == (5, surrogate.domain.out_channels, *surrogate.domain.grids[1].shape)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(std, expected.std, rtol=1e-12)


def test_single_precision_loses_no_digits_to_an_offset():
    """Inputs are about 100 and vary by 3: normalised in single precision, they would keep five digits."""
    surrogate = small_surrogates.surrogate()
    network = GridSurrogate(surrogate)
    f = network.inputs(3)
    assert f.dtype == np.float32
    mean, std = network(torch.as_tensor(f))
    assert (mean.dtype, std.dtype) == (torch.float32, torch.float32)
    np.testing.assert_allclose(mean.numpy(), surrogate.predict(f).mean, rtol=3e-7)
    np.testing.assert_allclose(std.numpy(), surrogate.predict(f).std, rtol=3e-7)


def test_a_level_has_its_own_grid_and_solver():
    surrogate = small_surrogates.surrogate(dtype="float64")
    coarse = GridSurrogate(surrogate, 0)
    f = coarse.inputs(2)
    assert f.shape == (2, 1, 6)
    np.testing.assert_allclose(coarse(torch.as_tensor(f))[0].numpy(), surrogate.predict(f, 0).mean, rtol=1e-12)
    assert not np.allclose(surrogate.predict(f, 0).mean, surrogate.predict(f, 1).mean)
    with pytest.raises(ExportError, match="unknown level 2; the levels are 0 to 1"):
        GridSurrogate(surrogate, 2)


def test_a_level_without_examples_is_imitated_as_the_surrogate_does():
    surrogate = small_surrogates.surrogate(dtype="float64", levels=(0,))
    network = GridSurrogate(surrogate)
    f = network.inputs(2)
    assert f.shape == (2, 1, 11)
    np.testing.assert_allclose(network(torch.as_tensor(f))[0].numpy(), surrogate.predict(f).mean, rtol=1e-12)


def test_matrix_products_replace_fast_transforms(monkeypatch):
    """A surrogate that would use them says the same as an exported one, which does not."""
    surrogate = small_surrogates.surrogate(dtype="float64")
    monkeypatch.setattr(spectral, "FFT_FACTOR", 0.0)
    spectral.use_fft.cache_clear()
    try:
        network = GridSurrogate(surrogate)
        assert spectral.use_fft(network.mesh, (3,))
        f = network.inputs(2)
        expected = surrogate.predict(f).mean
        monkeypatch.setattr(spectral, "_convolve_fft", None)  # would be called
        np.testing.assert_allclose(network(torch.as_tensor(f))[0].numpy(), expected, rtol=1e-10)
    finally:
        monkeypatch.undo()
        spectral.use_fft.cache_clear()


def test_the_surrogate_is_not_changed():
    surrogate = small_surrogates.surrogate(dtype="float64")
    before = surrogate.predict(np.full((1, 1, 11), 100.0)).samples
    network = GridSurrogate(surrogate)
    network.program()
    np.testing.assert_array_equal(surrogate.predict(np.full((1, 1, 11), 100.0)).samples, before)
    assert all(type(value) is torch.Tensor for value in surrogate.weights.values())


def test_a_network_that_differs_is_an_error():
    surrogate = small_surrogates.surrogate()
    network = GridSurrogate(surrogate)

    def off_by(share):
        def run(f):
            found = surrogate.predict(f)
            return found.mean, found.std + share * np.abs(found.std).max()

        return run

    assert network.compare(off_by(0.0), "it") == 0.0
    assert network.compare(off_by(5e-5), "it") == pytest.approx(5e-5)
    with pytest.raises(ExportError, match=r"it differs from the surrogate by 2\.0e-04 of the largest value; 1e-04"):
        network.compare(off_by(2e-4), "it")
    with pytest.raises(ExportError, match="inf of the largest value"):
        network.compare(off_by(np.nan), "it")


def test_metadata():
    surrogate = small_surrogates.surrogate(dim=2)
    about = GridSurrogate(surrogate, 0).about({"task": "darcy", "seed": 3})
    assert about["version"] == program.__version__
    assert (about["task"], about["seed"], about["inference"], about["samples"]) == ("darcy", "3", "ensemble", "3")
    assert (about["level"], about["grid"], about["layout"]) == ("0", "[4, 5]", '["cells", "periodic"]')
    assert (about["in_channels"], about["out_channels"]) == ("2", "2")


def test_a_custom_module_is_refused():
    domain = small_surrogates.DOMAINS[1]
    own = Ensemble(domain, network_factory=lambda: torch.nn.Conv1d(input_channels(domain), 1, 1))
    with pytest.raises(ExportError, match=r"not one of mrafno, torch.nn.modules.conv.Conv1d"):
        GridSurrogate(own)
