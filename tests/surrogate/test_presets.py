"""The two presets, and the messages for unknown names."""

import pytest

from mrafno.errors import SurrogateError
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Ensemble
from mrafno.surrogate.presets import network_preset, training_preset
from mrafno.tasks import get_task


def square(*shapes, zero=True):
    ends = (zero, zero)
    return Domain(3, 2, tuple(Grid(shape, ("cells", "cells")) for shape in shapes), (ends, ends))


def test_paper_is_what_the_publication_used():
    for name, modes in (("burgers", (16,)), ("darcy", (12, 12))):
        domain = get_task(name).domain
        network, training = network_preset("paper", domain), training_preset("paper", domain)
        assert (network.width, network.modes, network.layers, network.stencil_radius) == (64, modes, 4, 0)
        assert (training.batch, training.rate, training.schedule) == (20, 1e-3, "cosine")
        assert (training.loss, training.points, training.weight_decay) == ("likelihood", 0, 0.0)


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("name", ["burgers", "darcy", "diffusion"])
def test_declared_zero_boundaries_are_used_in_every_dimension_and_preset(preset, name):
    domain = get_task(name).domain
    network = network_preset(preset, domain)
    assert (network.zero_boundary, network.boundary_factor) == (domain.zero_boundary, "saturating")
    assert network.spacing == tuple(axis[1] - axis[0] for axis in domain.grids[0].axes)
    assert network_preset(preset, square((8, 8), zero=False)).zero_boundary == ()


def test_fast_trains_on_strided_grids_in_two_dimensions():
    assert training_preset("fast", get_task("darcy").domain).points == 32
    assert training_preset("fast", get_task("burgers").domain).points == 0


def test_a_network_for_three_axes():
    cube = Domain(1, 1, (Grid((6, 8, 9), ("cells",) * 3),), ((True, False),) * 3)
    network = network_preset("fast", cube)
    assert (network.dim, network.modes, network.zero_boundary) == (3, (3, 3, 3), cube.zero_boundary)


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_a_network_fits_its_domain(preset):
    domain = square((32, 32), (64, 64), (128, 128))
    network = network_preset(preset, domain)
    assert (network.in_channels, network.out_channels, network.levels, network.dim) == (3, 2, 3, 2)


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("shapes", [((6, 6), (32, 32)), ((32, 32), (12, 100)), ((2, 40), (64, 64))])
def test_no_more_modes_than_any_grid_holds(preset, shapes):
    """The finest grid by number of points may still be the coarsest along one axis."""
    modes = network_preset(preset, square(*shapes)).modes
    for shape in shapes:
        assert all(1 <= k <= n // 2 for k, n in zip(modes, shape, strict=True))


def test_single_settings_change():
    domain = square((32, 32))
    network = network_preset("fast", domain, width=8, modes=[3, 4])
    assert (network.width, network.modes) == (8, (3, 4))
    assert training_preset("paper", domain, iterations=5).iterations == 5


@pytest.mark.parametrize(
    ("make", "wrong", "near"),
    [
        (network_preset, "widht", "'width'"),
        (network_preset, "mode", "'modes'"),
        (training_preset, "iteration", "'iterations'"),
        (training_preset, "outoffoldshare", "'out_of_fold_share'"),
        (training_preset, "zzz", "iterations, batch"),
    ],
)
def test_an_unknown_setting_raises_an_error_with_the_nearest_name(make, wrong, near):
    with pytest.raises(SurrogateError, match=f"unknown setting '{wrong}'.*{near}"):
        make("fast", square((8, 8)), **{wrong: 1})


def test_an_unknown_preset_raises_an_error_with_the_known_ones():
    for make in (network_preset, training_preset):
        with pytest.raises(SurrogateError, match=r"unknown preset 'slow'.*fast, paper"):
            make("slow", square((8, 8)))


def test_early_steps_see_two_points_for_each_mode():
    assert Ensemble(square((32, 32)), members=1).training.early_points == 16
    assert Ensemble(square((32, 32)), members=1, network={"modes": (8, 12)}).training.early_points == 24
    assert Ensemble(square((32, 32)), members=1, training={"early_points": 0}).training.early_points == 0
