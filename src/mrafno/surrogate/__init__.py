"""The surrogate: a probabilistic multi-resolution Fourier neural operator and five ways to infer it."""

from mrafno.surrogate.adapters import input_channels
from mrafno.surrogate.base import Fit, Surrogate
from mrafno.surrogate.inference import (
    SURROGATES,
    Dropout,
    Ensemble,
    Langevin,
    Point,
    Variational,
    get_surrogate,
)

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
