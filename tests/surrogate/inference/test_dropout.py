"""Dropout masks."""

import numpy as np
import torch

from tests.surrogate.inference.small import PLANE, made, waves


def test_dropout_masks_have_their_rate_and_keep_the_mean():
    surrogate = made("dropout", rate=0.3, network={"width": 64})
    masks = torch.stack(surrogate._masks(torch.Generator().manual_seed(0), 50, 8))
    torch.testing.assert_close(masks.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert abs((masks == 0).double().mean().item() - 0.3) < 0.01
    assert abs(masks.mean().item() - 1) < 0.02


def test_a_dropout_sample_is_one_network_for_all_inputs(fitted_plane):
    """An input has the same samples alone and in a batch: the pool's Gram matrices need that."""
    f = waves(PLANE, (0, 5), seed=5)[1][0]
    np.testing.assert_allclose(
        fitted_plane.predict(f).samples[:, 2:3], fitted_plane.predict(f[2:3]).samples, atol=1e-12
    )
    assert fitted_plane.predict(f).spread.max() > 0
