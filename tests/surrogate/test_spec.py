"""How a run makes and loads its surrogate."""

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset
from mrafno.errors import SurrogateError
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Dropout, Ensemble, Point, input_channels
from mrafno.surrogate.spec import SurrogateSpec

DOMAIN = Domain(1, 1, (Grid((9,), ("nodes",)), Grid((17,), ("nodes",))), ((False, False),))
HOW = {"preset": "fast", "seed": 3, "members": 2}


def network(domain):
    return torch.nn.Conv1d(input_channels(domain), domain.out_channels, 3, padding="same")


class Own(Ensemble):
    name = "own"


def examples():
    rng = np.random.default_rng(0)
    return Dataset.of(DOMAIN, [(rng.normal(size=(4, 1, n)), rng.normal(size=(4, 1, n))) for n in (9, 17)])


def test_a_way_of_inference_is_made_by_its_name():
    assert (SurrogateSpec().make(DOMAIN, **HOW).members, SurrogateSpec().name) == (2, "ensemble")
    assert type(SurrogateSpec(inference="point").make(DOMAIN, **HOW)) is Point
    dropout = SurrogateSpec(inference="dropout", settings={"samples": 7}).make(DOMAIN, **HOW)
    assert (type(dropout), dropout.sample_count, dropout.seed) == (Dropout, 7, 3)


def test_the_specs_settings_go_before_the_runs():
    spec = SurrogateSpec(training={"rate": 1e-3}, network_settings={"width": 8})
    made = spec.make(DOMAIN, **HOW, training={"rate": 5e-3, "update_batch": 7}, network={"width": 4, "layers": 2})
    assert (made.training.rate, made.policy.update_batch) == (1e-3, 7)
    assert (made.network_settings.width, made.network_settings.layers) == (8, 2)


@pytest.mark.parametrize("spec", [SurrogateSpec(network=network), SurrogateSpec(inference=Own), SurrogateSpec()])
def test_a_checkpoint_comes_back(tmp_path, spec):
    made = spec.make(DOMAIN, **HOW)
    made.fit(examples(), iterations=2)
    made.save(tmp_path)
    again = spec.load(tmp_path, DOMAIN)
    f = np.ones((1, 1, 17))
    assert type(again) is type(made)
    np.testing.assert_array_equal(again.predict(f).samples, made.predict(f).samples)


def test_it_is_described_by_names():
    spec = SurrogateSpec(inference=Own, network=network, training={"rate": 1e-3})
    assert spec.as_json() == {
        "inference": "Own", "network": "network", "network_settings": {}, "training": {"rate": 1e-3}, "settings": {},
    }  # fmt: skip


def test_a_network_is_a_function_of_the_domain():
    with pytest.raises(SurrogateError, match="network must be a function of the domain"):
        SurrogateSpec(network=3)
