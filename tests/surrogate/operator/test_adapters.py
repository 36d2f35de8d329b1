"""Networks of the caller's own: outputs equal those of the modules, called one by one."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from mrafno.data.dataset import Dataset
from mrafno.errors import CheckpointError, SurrogateError
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Dropout, Ensemble, Langevin, Point, Surrogate, Variational, get_surrogate, input_channels
from mrafno.surrogate.inference.base import seed_of
from mrafno.surrogate.operator.adapters import MemberModules, NetworkFactory
from mrafno.surrogate.operator.fno import NetworkSettings
from mrafno.surrogate.training.batches import domain_mesh
from mrafno.surrogate.training.loop import adam

LINE = Domain(1, 2, (Grid((9,), ("nodes",)), Grid((17,), ("nodes",))), ((False, False),))
SQUARE = Domain(1, 1, (Grid((8, 8), ("cells", "cells")),), ((True, True), (True, True)))


class Plain(nn.Module):
    """Real and complex weights, one that is fixed, and buffers that change in training."""

    def __init__(self, domain):
        super().__init__()
        conv = nn.Conv1d if domain.dim == 1 else nn.Conv2d
        norm = nn.BatchNorm1d if domain.dim == 1 else nn.BatchNorm2d
        self.body = nn.Sequential(conv(input_channels(domain), 6, 1), norm(6), nn.GELU())
        self.out = conv(6, domain.out_channels, 1)
        self.spectral = nn.Parameter(0.1 * torch.randn(6, 3, dtype=torch.complex64))
        self.fixed = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x):
        v = self.body(x)
        modes = torch.fft.rfft(v)
        kept = modes[..., :3] * self.spectral.view(6, *[1] * (x.ndim - 3), 3)
        return self.out(self.fixed * v + torch.fft.irfft(kept, n=x.shape[-1]))

    def state_dict(self, *arguments, **options):
        """As neuraloperator's, with something that is no tensor."""
        return {**super().state_dict(*arguments, **options), "_metadata": "not a tensor"}


def neuraloperator(domain):
    models = pytest.importorskip("neuralop.models")
    return models.FNO(
        n_modes=(6,) * domain.dim, hidden_channels=4, in_channels=input_channels(domain),
        out_channels=domain.out_channels, n_layers=2, positional_embedding=None,
    )  # fmt: skip


MODULES = pytest.mark.parametrize("build", [Plain, neuraloperator])
DOMAINS = pytest.mark.parametrize("domain", [LINE, SQUARE], ids=["1d", "2d"])


def examples(domain, n=6, seed=0):
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(n, domain.in_channels, *g.shape)) for g in domain.grids]
    return Dataset.of(domain, [(f, np.repeat(2 * f, domain.out_channels, axis=1)) for f in inputs])


def ensemble(build, domain, kind=Ensemble, **settings):
    settings = {"training": {"iterations": 6, "batch": 4, "rate": 1e-2}, "seed": 5, **settings}
    return kind(domain, network_factory=lambda: build(domain), **settings)


def settings_of(domain, **changes):
    return NetworkSettings(
        in_channels=domain.in_channels, out_channels=domain.out_channels, levels=domain.levels, dim=domain.dim,
        modes=(4,) * domain.dim, **changes,
    )  # fmt: skip


@MODULES
@DOMAINS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_members_are_the_modules_run_one_by_one(build, domain, dtype):
    model = NetworkFactory(lambda: build(domain))
    network = MemberModules(settings_of(domain), model, 2, dtype).initialise([1, 2])
    mesh = domain_mesh(domain, 0)
    f = torch.randn(2, 3, domain.in_channels, *mesh.shape, dtype=dtype)
    with torch.no_grad():
        mean, log_var = network(f, mesh, 0)
        features = network.features(f, mesh, 0)
        shared, _ = network(f[:1], mesh, 0)
    assert log_var.shape == (2, 3)
    assert torch.equal(features, mean)
    assert torch.equal(shared[0], mean[0])
    grid = np.stack(np.meshgrid(*domain.grids[0].axes, indexing="ij"))
    place = torch.as_tensor(grid, dtype=dtype).expand(3, *grid.shape)
    level = torch.zeros(3, domain.levels, *mesh.shape, dtype=dtype)
    level[:, 0] = 1
    for member, seed in enumerate([1, 2]):
        torch.manual_seed(seed)
        module = build(domain).eval()
        wide = {
            name: value.to(torch.complex128 if value.is_complex() else dtype) if dtype == torch.float64 else value
            for name, value in [*module.named_parameters(), *module.named_buffers()]
            if value.is_floating_point() or value.is_complex()
        }
        with torch.no_grad():
            expected = functional_call(module, wide, (torch.cat([f[member], place, level], dim=1),))
        assert torch.equal(mean[member], expected)


def test_outputs_vanish_at_declared_zero_boundaries():
    settings = settings_of(SQUARE, zero_boundary=((True, True), (False, False)), spacing=(0.2, 0.2))
    network = MemberModules(settings, NetworkFactory(lambda: Plain(SQUARE)), 1, torch.float32).initialise([0])
    mesh = domain_mesh(Domain(1, 1, (Grid((5, 4), ("nodes", "cells")),), ()), 0)
    mean, _ = network(torch.randn(1, 2, 1, 5, 4), mesh, 0)
    assert not mean[..., [0, -1], :].any()
    assert mean[..., 1:-1, :].abs().min() > 0


@MODULES
@DOMAINS
def test_fit_predict_save_load_and_fit_warm(build, domain, tmp_path):
    surrogate = ensemble(build, domain, members=2)
    before = torch.get_rng_state()
    fit = surrogate.fit(examples(domain))
    assert torch.equal(before, torch.get_rng_state())
    assert np.isfinite(fit.loss)
    f = examples(domain, seed=1).inputs[-1]
    prediction = surrogate.predict(f)
    assert prediction.samples.shape == (2, 6, domain.out_channels, *domain.grids[-1].shape)
    assert prediction.spread.max() > 0
    assert surrogate.predict(f[..., ::2]).samples.shape[-1] == f[..., ::2].shape[-1]

    surrogate.save(tmp_path)
    again = Surrogate.load(tmp_path, network_factory=lambda: build(domain))
    assert np.array_equal(again.predict(f).samples, prediction.samples)
    assert np.array_equal(again.predict(f).log_var, prediction.log_var)
    for one in (surrogate, again):
        one.fit(examples(domain, n=8), kind="refit", iterations=3)
    assert all(torch.equal(value, again.weights[name]) for name, value in surrogate.weights.items())


def test_the_same_seed_gives_the_same_bits_and_training_learns():
    one, two = (
        ensemble(Plain, LINE, members=2, training={"iterations": 120, "batch": 6, "rate": 3e-2}) for _ in range(2)
    )
    data = examples(LINE, n=20)
    first = one.fit(data)
    torch.rand(3)  # whatever others do to the global generator
    two.fit(data)
    assert all(torch.equal(value, two.weights[name]) for name, value in one.weights.items())
    assert first.out_of_fold_error < 0.3


def test_complex_weights_take_the_same_steps_as_torch_gives_them():
    """Real pairs under our optimiser against a complex weight under torch's."""
    model = NetworkFactory(lambda: Plain(LINE))
    network = MemberModules(settings_of(LINE), model, 1, torch.float32).initialise([3])
    module = model.made(3)
    mesh = domain_mesh(LINE, 0)
    f = torch.randn(1, 4, 1, 9, generator=torch.Generator().manual_seed(0))
    settings = ensemble(Plain, LINE).training
    ours = adam(network, settings, (4, 3))
    theirs = torch.optim.AdamW(module.parameters(), lr=settings.rate, weight_decay=settings.weight_decay)
    place = torch.tensor(mesh.axes[0]).float().expand(4, 1, 9)
    x = torch.cat([f[0], place, torch.ones(4, 1, 9), torch.zeros(4, 1, 9)], dim=1)
    for _ in range(3):
        for loss, optimiser in ((network(f, mesh, 0)[0], ours), (module(x), theirs)):
            for parameter in (*network.parameters(), *module.parameters()):
                parameter.grad = None
            loss.square().sum().backward()
            optimiser.step()
    weight = network.stack.spectral
    assert weight.shape == (1, 6, 3, 2)
    torch.testing.assert_close(torch.view_as_complex(weight[0]), module.spectral)
    # Not the running mean: the bias before it has no gradient but rounding, of which Adam makes full steps.
    torch.testing.assert_close(getattr(network.stack, "body/1/running_var")[0], module.body[1].running_var)


def test_a_diverged_member_is_initialised_and_the_others_are_unchanged():
    surrogate = ensemble(Plain, LINE, members=3)
    network = surrogate._started(None, surrogate.training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.no_grad():
        for value in network.parameters():
            value[1] = float("nan")
    network.initialise_member(1, seed_of(5, 0, 1))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_diverging_module_is_restarted_in_training():
    """A module with NaN weights is replaced, its state in the optimiser too, and the fit continues."""
    built = []

    def build():
        built.append(Plain(LINE))
        if len(built) == 3:  # the first is called for all members, the next are members 0 and 1
            nn.init.constant_(built[-1].out.bias, float("nan"))
        return built[-1]

    surrogate = Ensemble(LINE, network_factory=build, members=2, training={"iterations": 60, "batch": 4, "rate": 1e-2})
    fit = surrogate.fit(examples(LINE))
    assert fit.events[0] == "member 1 diverged at step 0 and was restarted"
    assert all(torch.isfinite(value).all() for value in surrogate.weights.values())
    assert surrogate.predict(examples(LINE).inputs[1]).spread.max() > 0


def test_a_point_network(tmp_path):
    surrogate = ensemble(Plain, LINE, kind=Point)
    data = examples(LINE)
    surrogate.fit(data)
    surrogate.save(tmp_path)
    again = Point.load(tmp_path, network_factory=lambda: Plain(LINE))
    assert np.array_equal(again.predict(data.inputs[1]).samples, surrogate.predict(data.inputs[1]).samples)


def test_a_checkpoint_needs_the_same_model(tmp_path):
    surrogate = ensemble(Plain, LINE, members=2)
    surrogate.fit(examples(LINE))
    surrogate.save(tmp_path / "own")
    with pytest.raises(CheckpointError, match=r"test_adapters\.Plain.*Pass network_factory="):
        Surrogate.load(tmp_path / "own")
    with pytest.raises(CheckpointError, match=r"its network is \S*Plain, but network_factory builds \S*Conv1d"):
        Surrogate.load(tmp_path / "own", network_factory=lambda: nn.Conv1d(4, 2, 1))
    Ensemble(LINE).save(tmp_path / "ours")
    with pytest.raises(CheckpointError, match="Leave network_factory out"):
        Surrogate.load(tmp_path / "ours", network_factory=lambda: Plain(LINE))


def test_wrong_factories_raise_errors():
    module = Plain(LINE)
    with pytest.raises(SurrogateError, match="function that builds one"):
        Ensemble(LINE, network_factory=module)
    with pytest.raises(SurrogateError, match="same module twice"):
        Ensemble(LINE, network_factory=lambda: module).fit(examples(LINE))
    with pytest.raises(SurrogateError, match="not a torch module"):
        Ensemble(LINE, network_factory=lambda: 3)
    for kind in (Dropout, Langevin, Variational):
        with pytest.raises(SurrogateError, match="Give network_factory to an ensemble"):
            kind(LINE, network_factory=lambda: Plain(LINE))
    with pytest.raises(SurrogateError, match=r"Conv1d, .*returned shape \(\d+, 5, \d+\).*must return a tensor"):
        Ensemble(LINE, network_factory=lambda: nn.Conv1d(4, 5, 1)).fit(examples(LINE))
    with pytest.raises(SurrogateError, match=r"Conv1d, .*raised RuntimeError: .*must take 4 channels"):
        Ensemble(LINE, network_factory=lambda: nn.Conv1d(3, 2, 1)).fit(examples(LINE))
    with pytest.raises(SurrogateError, match="returned a tuple"):
        Ensemble(LINE, network_factory=Pair).fit(examples(LINE))


class Pair(nn.Module):
    """A module that returns two tensors."""

    def __init__(self):
        super().__init__()
        self.map = nn.Conv1d(4, 2, 1)

    def forward(self, x):
        return self.map(x), x


def circular(domain):
    """A small plain network that knows nothing of this package."""
    conv = nn.Conv1d if domain.dim == 1 else nn.Conv2d
    return nn.Sequential(
        conv(input_channels(domain), 8, 3, padding=1, padding_mode="circular"),
        nn.GELU(),
        conv(8, domain.out_channels, 3, padding=1, padding_mode="circular"),
    )


@DOMAINS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_plain_module_from_outside(domain, dtype, tmp_path):
    """Three members, by name: from scratch, warm, on other grids, features, saved and loaded."""

    def factory():
        return circular(domain)

    settings = {"members": 3, "dtype": dtype, "training": {"batch": 6, "rate": 1e-2}, "network_factory": factory}
    surrogate = get_surrogate("ensemble", domain, **settings)
    data = examples(domain, n=8)
    first = surrogate.fit(data, iterations=5)
    warm = surrogate.fit(data, iterations=40, kind="refit")
    assert warm.loss < first.loss
    f = data.inputs[-1]
    assert surrogate.predict(f).samples.shape == (3, 8, domain.out_channels, *domain.grids[-1].shape)
    other = Grid((11, 7)[: domain.dim], domain.grids[0].layout)
    there = np.zeros((2, 1, *other.shape))
    assert surrogate.predict(there, grid=other).mean.shape == (2, domain.out_channels, *other.shape)
    assert surrogate.features(there, grid=other).shape == (2, domain.out_channels, *other.shape)
    surrogate.save(tmp_path)
    again = Ensemble.load(tmp_path, network_factory=factory)
    assert again.dtype == getattr(torch, dtype)
    assert np.array_equal(again.predict(f).samples, surrogate.predict(f).samples)
    surrogate.fit(data, iterations=2)
    assert all(value.dtype == getattr(torch, dtype) for value in surrogate.weights.values())
