"""Plain reference for Darcy flow: one example at a time, one matrix row per cell, sparse elimination.

The scheme is that of ``mrafno.tasks.darcy``: cell-centred finite volumes, harmonic means at the faces between cells,
u = 0 at the walls half a cell away.
"""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg


def solve_darcy(coefficient, source=1.0):
    """Pressures ``(n, nx, ny)`` for coefficients ``(n, nx, ny)`` and a source that broadcasts to them."""
    source = np.broadcast_to(source, coefficient.shape)
    return np.stack([_solve_one(c, s) for c, s in zip(coefficient, source, strict=True)])


def _solve_one(c, s):
    nx, ny = c.shape
    number = np.arange(nx * ny).reshape(nx, ny)
    rows, columns, entries = [], [], []
    diagonal = np.zeros((nx, ny))
    for axis, n in enumerate(c.shape):
        c_first, c_second = np.moveaxis(c, axis, 0)[:-1], np.moveaxis(c, axis, 0)[1:]
        first, second = np.moveaxis(number, axis, 0)[:-1].ravel(), np.moveaxis(number, axis, 0)[1:].ravel()
        face = (2 * c_first * c_second / (c_first + c_second)).ravel() * n**2
        rows += [first, second, first, second]
        columns += [second, first, first, second]
        entries += [-face, -face, face, face]
        walls = np.moveaxis(diagonal, axis, 0)
        walls[0] += 2 * n**2 * np.moveaxis(c, axis, 0)[0]
        walls[-1] += 2 * n**2 * np.moveaxis(c, axis, 0)[-1]
    rows, columns = [np.concatenate([*r, number.ravel()]) for r in (rows, columns)]
    entries = np.concatenate([*entries, diagonal.ravel()])
    matrix = scipy.sparse.coo_array((entries, (rows, columns)), shape=(nx * ny, nx * ny)).tocsc()
    return scipy.sparse.linalg.spsolve(matrix, s.ravel()).reshape(nx, ny)
