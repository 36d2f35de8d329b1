"""The surrogate: a probabilistic multi-resolution Fourier neural operator and five ways to infer it."""

from mrafno.surrogate.inference.base import Fit, Surrogate
from mrafno.surrogate.inference.ways import (
    SURROGATES,
    Dropout,
    Ensemble,
    Langevin,
    Point,
    Variational,
    get_surrogate,
)
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
