"""Acquisition: which input to simulate next, and on which mesh.

It sees predictions through a :class:`Context`, never a network. An acquisition scores candidates at every level, a mesh
rule decides on the level, and :func:`select` chooses greedily. May import ``surrogate`` for the type of a prediction.
"""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports

if TYPE_CHECKING:
    from mrafno.acquisition.base import Acquisition, Choice, Context, MeshRule, scorer
    from mrafno.acquisition.baselines import Coreset, LargestClusterMaxDist, RandomChoice
    from mrafno.acquisition.cost import annealed_cost, decay
    from mrafno.acquisition.information import (
        entropy,
        gram,
        log_det_identity_plus,
        mean_information,
        mutual_information,
    )
    from mrafno.acquisition.informative import Information, PredictiveVariance
    from mrafno.acquisition.level_errors import LevelErrors, Share
    from mrafno.acquisition.mesh_rule import MultilevelGain
    from mrafno.acquisition.selection import select
    from mrafno.acquisition.typical import ByLevel, Typical
    from mrafno.acquisition.utilities import (
        PoolGrams,
        draw_targets,
        pool_grams,
        predictive_variance,
        u,
        u_hat,
    )

__all__ = [
    "Acquisition",
    "ByLevel",
    "Choice",
    "Context",
    "Coreset",
    "Information",
    "LargestClusterMaxDist",
    "LevelErrors",
    "MeshRule",
    "MultilevelGain",
    "PoolGrams",
    "PredictiveVariance",
    "RandomChoice",
    "Share",
    "Typical",
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
    "scorer",
    "select",
    "u",
    "u_hat",
]

_MODULES = {
    "base": ("Acquisition", "Choice", "Context", "MeshRule", "scorer"),
    "baselines": ("Coreset", "LargestClusterMaxDist", "RandomChoice"),
    "cost": ("annealed_cost", "decay"),
    "information": ("entropy", "gram", "log_det_identity_plus", "mean_information", "mutual_information"),
    "level_errors": ("LevelErrors", "Share"),
    "mesh_rule": ("MultilevelGain",),
    "selection": ("select",),
    "typical": ("ByLevel", "Typical"),
    "informative": ("Information", "PredictiveVariance"),
    "utilities": ("PoolGrams", "draw_targets", "pool_grams", "predictive_variance", "u", "u_hat"),
}
__getattr__, __dir__ = lazy_exports(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
