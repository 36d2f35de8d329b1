"""The surrogate: a probabilistic multi-resolution Fourier neural operator and five methods to infer its weights.

May import ``grids``, ``storage`` and ``data``; knows nothing of tasks, costs or runs. Its names are imported on first
use, so that modules without networks (``prediction``, ``options``, ``shapes``) can be imported without PyTorch.
"""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports

if TYPE_CHECKING:
    from mrafno.surrogate.inference.base import Fit, Surrogate
    from mrafno.surrogate.inference.dropout import Dropout
    from mrafno.surrogate.inference.ensemble import Ensemble
    from mrafno.surrogate.inference.point import Point
    from mrafno.surrogate.inference.registry import SURROGATES, get_surrogate
    from mrafno.surrogate.inference.sgld import Langevin
    from mrafno.surrogate.inference.svi import Variational
    from mrafno.surrogate.operator.adapters import input_channels

__all__ = [
    "SURROGATES",
    "Dropout",
    "Ensemble",
    "Fit",
    "Langevin",
    "Point",
    "Surrogate",
    "Variational",
    "get_surrogate",
    "input_channels",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SURROGATES": "mrafno.surrogate.inference.registry",
        "Dropout": "mrafno.surrogate.inference.dropout",
        "Ensemble": "mrafno.surrogate.inference.ensemble",
        "Fit": "mrafno.surrogate.inference.base",
        "Langevin": "mrafno.surrogate.inference.sgld",
        "Point": "mrafno.surrogate.inference.point",
        "Surrogate": "mrafno.surrogate.inference.base",
        "Variational": "mrafno.surrogate.inference.svi",
        "get_surrogate": "mrafno.surrogate.inference.registry",
        "input_channels": "mrafno.surrogate.operator.adapters",
    },
)
