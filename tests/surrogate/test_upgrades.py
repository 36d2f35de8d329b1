"""Checkpoints of earlier formats."""

import json

import numpy as np
import pytest

from mrafno.data.dataset import Dataset
from mrafno.grids import Domain, Grid
from mrafno.surrogate import Ensemble, Surrogate, checkpoint
from mrafno.surrogate.upgrades import UPGRADES, VERSION

DOMAINS = {
    1: Domain(1, 1, (Grid((9,), ("nodes",)), Grid((17,), ("nodes",))), ((True, True),)),
    2: Domain(1, 1, (Grid((6, 5), ("cells", "cells")),), ((True, True), (True, False))),
}
#: The names of format 2 for those of format 3, and of format 1 for those of format 2.
NAMES = {
    3: {},
    2: {
        "": {"out_of_fold_count": "out_of_fold", "network_class": "model"},
        "network": {"zero_boundary": "zero"},
        "training": {"out_of_fold_share": "out_of_fold"},
    },
    1: {
        "": {"out_of_fold": "held_in", "trained_levels": "learnt"},
        "network": {"stencil_radius": "reach", "correction_width": "refined"},
        "training": {"level_embedding_scale": "apart", "out_of_fold": "held_in"},
    },
}


def as_format(values, version):
    """The description as an earlier format wrote it."""
    values = json.loads(json.dumps(values))
    for grid in values["domain"]["grids"]:
        del grid["extent"], grid["points"]
    del values["domain"]["parameters"], values["domain"]["log_parameters"]
    if version == 3:
        return checkpoint._sealed({**values, "version": version})
    del values["class"], values["network"]["boundary_factor"], values["network"]["padding"]
    policy = values.pop("policy")
    values["training"] |= {f"warm_{name}": policy[f"refit_{name}"] for name in ("batch", "rate")}
    values["training"] |= {f"brief_{name}": policy[f"update_{name}"] for name in ("iterations", "batch", "rate")}
    values["training"] |= {"few" if version == 1 else "small_data_size": 400, "early_iterations": 2500}
    for step in range(VERSION - 1, version - 1, -1):
        for part, names in NAMES[step].items():
            place = values[part] if part else values
            for new, old in names.items():
                place[old] = place.pop(new)
    return checkpoint._sealed({**values, "version": version})


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2])
def test_earlier_formats_predict_as_before(tmp_path, dim, version):
    """They had the parabola as boundary factor, and the padding was 1.5 in one dimension and 1.25 in two."""
    domain, rng = DOMAINS[dim], np.random.default_rng(0)
    earlier = {"boundary_factor": "parabola", "padding": 1.5 if dim == 1 else 1.25, "width": 4, "hidden": 6}
    surrogate = Ensemble(domain, members=2, network=earlier)
    shapes = [(5, 1, *grid.shape) for grid in domain.grids]
    surrogate.fit(Dataset.of(domain, [(rng.normal(size=s), rng.normal(size=s)) for s in shapes]), iterations=3)
    surrogate.save(tmp_path)
    path = tmp_path / "surrogate.json"
    path.write_text(json.dumps(as_format(json.loads(path.read_text()), version)))
    again = Surrogate.load(tmp_path)
    assert type(again) is Ensemble
    training = surrogate.training
    if version < 3:  # what these did not know is as it was
        training = training.changed(early_points=0, early_share=0.0, bfloat16_share=0.0)
    assert (again.network_settings, again.training, again.policy) == (
        surrogate.network_settings, training, surrogate.policy,
    )  # fmt: skip
    assert (again.out_of_fold_count, again.trained_levels) == (surrogate.out_of_fold_count, surrogate.trained_levels)
    f = rng.normal(size=(3, 1, *domain.grids[-1].shape))
    np.testing.assert_array_equal(again.predict(f).samples, surrogate.predict(f).samples)


def test_every_earlier_format_has_an_upgrade():
    assert sorted(UPGRADES) == list(range(1, VERSION))
