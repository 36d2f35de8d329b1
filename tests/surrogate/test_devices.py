"""Devices by name, and every tensor of a training step and of a prediction on the device that was asked for."""

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError
from mrafno.run import Run
from mrafno.surrogate import Ensemble
from mrafno.surrogate.devices import check_device, find_device
from mrafno.surrogate.operator.adapters import MemberModules, NetworkFactory, input_channels
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.presets import network_preset, training_preset
from mrafno.surrogate.training.batches import Batches, domain_mesh
from mrafno.surrogate.training.objective import network_objective
from tests import runs, small_surrogates
from tests.cli.conftest import mrafno

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")


def test_devices_that_are_there():
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type in ("cpu", "cuda")


@needs_no_gpu
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda", "there is no GPU for 'cuda'; (this PyTorch .* is built without CUDA|PyTorch sees none)"),
        ("gpu", "unknown device 'gpu'. Choose auto, cpu, cuda"),
        ("meta", "cannot be trained on 'meta'"),
        ("mps", "needs macOS"),
    ],
)
def test_devices_that_are_not_there(name, message):
    with pytest.raises(SurrogateError, match=f"device: .*{message}"):
        check_device(name)
    with pytest.raises(SurrogateError, match=message):
        Ensemble(small_surrogates.DOMAINS[1], device=name)


def test_a_gpu_without_cuda_a_driver_or_that_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    with pytest.raises(SurrogateError, match="is there a driver, and does CUDA_VISIBLE_DEVICES"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda:1") == torch.device("cuda", 1)
    assert find_device("auto") == torch.device("cuda")
    with pytest.raises(SurrogateError, match="no 'cuda:2'; the GPUs are cuda:0 to cuda:1"):
        find_device("cuda:2")


@needs_no_gpu
def test_a_run_on_a_device_that_is_not_there_does_not_begin(tmp_path):
    with pytest.raises(SurrogateError, match="there is no GPU"):
        Run.create(tmp_path / "run", runs.tiny(), device="cuda")
    assert not (tmp_path / "run").exists()
    done = mrafno("run", "burgers", "--out", tmp_path / "run", "--device", "cuda")
    assert (done.exit_code, "there is no GPU for 'cuda'" in done.stderr) == (1, True)
    assert not (tmp_path / "run").exists()


# The device "meta" has shapes and no numbers; an operation that mixes it with another device raises an error.


def meta_batches(domain, training):
    rng = np.random.default_rng(0)
    pairs = [
        [rng.normal(size=(5, n, *g.shape)) for n in (domain.in_channels, domain.out_channels)] for g in domain.grids
    ]
    data = Dataset.of(domain, pairs)
    return Batches(data, Normaliser.fit(data), training, [[0, 0], [0, 1]], device="meta")


@pytest.mark.parametrize("loss", ["composite", "likelihood"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_training_step_is_on_the_device(dim, loss):
    domain = small_surrogates.DOMAINS[dim]
    network = MemberFNO(network_preset("fast", domain, stencil_radius=1, modes=(2,) * dim), 2).to("meta")
    batches = meta_batches(domain, training_preset("fast", domain, points=3))
    masks = [torch.ones(2, 1, 32, device="meta")] * 4
    network_objective(network, batches, loss, lambda n: masks)().sum().backward()
    assert {parameter.grad.device.type for parameter in network.parameters()} == {"meta"}


@pytest.mark.parametrize("stencil_radius", [0, 1])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_predictions_and_features_are_on_the_device(dim, stencil_radius):
    """By matrix products, and by fast transforms, which need a uniform grid."""
    domain = small_surrogates.DOMAINS[dim]
    network = MemberFNO(network_preset("fast", domain, stencil_radius=stencil_radius, modes=(2,) * dim), 2).to("meta")
    uniform = Mesh(((0.0, 0.2, 0.4, 0.6, 0.8),) * dim, (1.0,) * dim)
    for mesh, transform in ((domain_mesh(domain, 1), False), (uniform, not stencil_radius)):
        for layer in network.layers:
            layer.fft = transform
        f = torch.empty(1, 2, domain.in_channels, *mesh.shape, device="meta")
        assert {value.device.type for value in (*network(f, mesh, 1), network.features(f, mesh, 1))} == {"meta"}


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_network_of_ones_own_is_on_the_device(dim):
    domain = small_surrogates.DOMAINS[dim]
    kind = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[dim - 1]
    factory = NetworkFactory(lambda: kind(input_channels(domain), domain.out_channels, 1))
    network = MemberModules(network_preset("fast", domain), factory, 2, torch.float32).to("meta")
    batches = meta_batches(domain, training_preset("fast", domain))
    network_objective(network, batches, "composite")().sum().backward()
    assert {parameter.grad.device.type for parameter in network.parameters()} == {"meta"}
