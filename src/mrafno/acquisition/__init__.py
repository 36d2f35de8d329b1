"""Acquisition: which input to simulate next, and on which mesh. It sees predictions, never a network."""

from mrafno.acquisition.baselines import CoresetUtility, RandomUtility
from mrafno.acquisition.cost import annealed_cost, decay
from mrafno.acquisition.information import (
    entropy,
    gram,
    log_det_identity_plus,
    mean_information,
    mutual_information,
)
from mrafno.acquisition.select import Choice, Utility, select
from mrafno.acquisition.utilities import (
    PoolGrams,
    PoolUtility,
    draw_targets,
    pool_grams,
    predictive_variance,
    u,
    u_hat,
)
from mrafno.run.kinds import Schedule

__all__ = [
    "Choice",
    "CoresetUtility",
    "PoolGrams",
    "PoolUtility",
    "RandomUtility",
    "Schedule",
    "Utility",
    "annealed_cost",
    "decay",
    "draw_targets",
    "entropy",
    "gram",
    "log_det_identity_plus",
    "mean_information",
    "mutual_information",
    "pool_grams",
    "predictive_variance",
    "select",
    "u",
    "u_hat",
]
