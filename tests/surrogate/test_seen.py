"""Inputs of the same kind as those of training are not complained of, and others are."""

import warnings

import numpy as np
import pytest

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import MrafnoWarning
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Ensemble, Surrogate
from mrafno.surrogate.seen import SeenInputs
from mrafno.tasks import get_task


def trained(f, parameters=()):
    """Ranges of inputs ``(n, channels, *grid)``, and a function that says what is outside of them."""
    grid = Grid(f.shape[2:], ("nodes",) * (f.ndim - 2))
    domain = Domain(f.shape[1], 1, (grid,), ((False, False),) * grid.dim, parameters=parameters)
    data = Dataset.of(domain, [(f, f[:, :1])])
    normaliser = Normaliser.fit(data)
    seen = SeenInputs.of(data, normaliser)
    assert SeenInputs.from_json(seen.as_json()) == seen
    return lambda g: seen.outside(g, normaliser, domain)


@pytest.mark.parametrize("name", ["burgers", "darcy", "diffusion"])
@pytest.mark.parametrize("n", [20, 100])
def test_other_inputs_of_the_same_problem_are_rarely_outside(name, n):
    """At most two in a hundred, and none of those that were seen."""
    f = get_task(name).sample(n + 200, seed=5)
    outside = trained(f[:n])
    assert outside(f[:n]) == []
    alone = [outside(one[None]) for one in f[n:]]
    assert sum(map(bool, alone)) <= 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: 5 * f, "of channel 0"),
        (lambda f: f + 5 * np.abs(f).max(), "the mean of channel 0"),
        (lambda f: 0 * f + f.max() * np.sin(60 * np.pi * np.linspace(0, 1, f.shape[-1])), "the slope of channel 0"),
    ],
)
def test_larger_shifted_and_rougher_functions_are_outside(change, said):
    f = get_task("burgers").sample(30, seed=5)
    [found] = trained(f)(change(f[:4]))
    assert "of 4 inputs are unlike those that the surrogate was trained on" in found
    assert said in found


def test_a_parameter_is_outside_of_its_range_by_a_tenth_of_it():
    f = np.broadcast_to(np.linspace(1, 2, 11)[:, None, None], (11, 1, 9)).copy()
    outside = trained(f, ("viscosity",))
    assert outside(f[:1] + 1.05) == []
    [found] = outside(f[:1] + 1.15)
    assert "viscosity is 2.0" in found
    assert "1 of 1 inputs" in found


def test_the_same_function_on_another_grid_is_not_outside():
    f = np.sin(np.linspace(0, 3, 129)) * np.linspace(1, 2, 20)[:, None, None]
    assert trained(f)(f[:, :, ::4]) == []


def test_predicting_warns_unless_told_not_to_and_a_checkpoint_keeps_the_ranges(tmp_path):
    rng = np.random.default_rng(0)
    domain = Domain(1, 1, (Grid((9,), ("nodes",)),), ((False, False),))
    f = rng.normal(size=(12, 1, 9))
    surrogate = Ensemble(domain, members=2)
    surrogate.fit(Dataset.of(domain, [(f, f)]), iterations=2)
    surrogate.save(tmp_path)
    for one in (surrogate, Surrogate.load(tmp_path)):
        with pytest.warns(MrafnoWarning, match="1 of 12 inputs are unlike"):
            one.predict(np.concatenate([f[:11], 100 * f[11:]]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.predict(f)
            one.predict(100 * f, check=False)
            one.predict(100 * f, units="normalised")
