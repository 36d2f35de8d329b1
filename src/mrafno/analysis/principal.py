r"""Two principal components of many features: the plane in which inputs differ most.

For features :math:`X`, one row per input and with the mean row subtracted, the components are the eigenvectors of
:math:`X X^T`, which is small however many features there are.
"""

import numpy as np
from scipy.sparse.linalg import eigsh

from mrafno.errors import MrafnoError
from mrafno.grids import Array


def principal_plane(features: Array) -> tuple[Array, tuple[float, float]]:
    """Coordinates ``(n, 2)`` of features ``(n, m)``, and the share of their variance along each axis.

    The coordinates have unit variance along both axes together; the sign of an axis is that of its largest coordinate.
    """
    n = len(features)
    if features.ndim != 2 or not n or not np.isfinite(features).all():
        raise MrafnoError(f"principal components: features of shape {features.shape} must be finite rows.")
    centred = features - features.mean(axis=0)
    gram = (centred @ centred.T).astype(np.float64)
    total = float(np.trace(gram))
    if total <= 0 or n < 2:
        return np.zeros((n, 2)), (0.0, 0.0)
    if n <= 10:
        values, vectors = np.linalg.eigh(gram)
        values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    else:
        # The start vector makes the result the same each time.
        values, vectors = eigsh(gram, k=2, v0=np.linspace(1.0, 2.0, n))
        values, vectors = values[::-1], vectors[:, ::-1]
    values = np.maximum(values, 0.0)
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    coordinates = vectors * np.sqrt(values * n / max(values.sum(), 1e-300))
    first, second = (float(value) / total for value in values)
    return coordinates, (first, second)
