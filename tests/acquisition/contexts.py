"""Contexts for tests, from whatever a test has."""

import numpy as np

from mrafno.acquisition import Choice, Context, Information, PredictiveVariance

ACQUISITIONS = {"u": Information("own"), "u-hat": Information("all"), "predvar": PredictiveVariance()}


def context_of(candidates=(), *, costs=(1.0, 1.0, 1.0), pool=None, features=None, used=(), targets=None, **more):
    rows = np.asarray(list(candidates), dtype=np.int64)
    return Context(
        **{
            "candidates": rows,
            "remaining": rows,
            "costs": tuple(costs),
            "cost_weights": tuple(costs),
            "step": 1,
            "seed": 0,
            "initial": (0,) * len(costs),
            "used": tuple(Choice(*pair) for pair in used),
            "targets": None if targets is None else np.asarray(targets),
            "feature_map": features,
            "pool_grams": lambda: pool,
            **more,
        }
    )
