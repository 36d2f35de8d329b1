"""The share of a fit's time, added up step by step."""

import numpy as np
import pytest

from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings
from mrafno.surrogate.training import low_precision
from mrafno.surrogate.training.progress import FinishedShare
from mrafno.surrogate.training.settings import TrainingSettings
from tests.told_examples import batches_of, data_of, domain_of


@pytest.mark.parametrize("early", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("bfloat16", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("fast", [False, True])
def test_share_of_the_time(monkeypatch, early, bfloat16, fast):
    monkeypatch.setattr(low_precision, "bfloat16_is_fast", lambda device: fast)
    settings = TrainingSettings(
        iterations=20, points=16, early_points=8, early_share=early, bfloat16_share=bfloat16, batch=4
    )
    batches = batches_of(data_of(domain_of((16, 16)), (6,)), points=16, early_points=8, batch=4)
    assert (batches.points(), batches.points(early=True)) == (4 * 16**2, 4 * 8**2)
    network = MemberFNO(NetworkSettings(in_channels=1, out_channels=1, levels=1, dim=2, modes=(2, 2)), 3)
    times = [
        (0.25 + 0.75 / 4 if step < 20 * early else 1.0) * (0.5 if fast and step < 20 * bfloat16 else 1.0)
        for step in range(20)
    ]
    share = FinishedShare(network, batches, settings)
    found = [share(steps) for steps in range(21)]
    np.testing.assert_allclose(found, np.concatenate([[0.0], np.cumsum(times)]) / sum(times), rtol=1e-12)
