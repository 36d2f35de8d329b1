"""A simulator from scikit-fem: heat in a square plate with a conductivity that is given on nodes.

Meshes of scikit-fem are triangles; on a structured one their nodes are those of a grid, with both ends: layout
``nodes``. ``make examples-solvers`` installs scikit-fem and runs this.
"""

import tempfile

import numpy as np
import skfem
from skfem.helpers import dot, grad

from mrafno import FunctionTask, Run

MESHES = ((9, 9), (33, 33))
QUICK = {"initial": 3, "test": 4, "members": 2, "iterations": 40}  # leave it out for a useful surrogate


def conductivities(n, seed):
    """Positive fields on the fine mesh's nodes."""
    x = np.linspace(0, 1, MESHES[-1][0])
    a, b, c = np.random.default_rng(seed).uniform(-1, 1, (3, n, 1, 1))
    return np.exp(a * np.cos(np.pi * x[:, None]) + b * np.cos(np.pi * x) + c * np.sin(np.pi * x[:, None]) * x)


@skfem.BilinearForm
def conduction(u, v, w):
    """Weak form of -div(k grad u)."""
    return w.k * dot(grad(u), grad(v))


@skfem.LinearForm
def heating(v, w):
    """A heat source of one."""
    return 1.0 * v


def simulate(f, level):
    """Temperature of a plate that is cold at its edges, (1, n, n) to (1, n, n)."""
    n = MESHES[level][0]
    x = np.linspace(0, 1, n)
    mesh = skfem.MeshTri.init_tensor(x, x)
    basis = skfem.Basis(mesh, skfem.ElementTriP1())
    # Where the nodes of the mesh stand in the grid.
    i, j = np.rint(mesh.p * (n - 1)).astype(int)
    matrix, load = conduction.assemble(basis, k=basis.interpolate(f[0, i, j])), heating.assemble(basis)
    u = skfem.solve(*skfem.condense(matrix, load, D=basis.get_dofs()))
    out = np.empty((1, n, n))
    out[0, i, j] = u
    return out


task = FunctionTask(
    simulate, conductivities, MESHES, costs=(1.0, 20.0), zero_boundary=[(True, True)] * 2, name="plate", version="1"
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, pool=40, **QUICK) as run:
        print(run.advance(steps=3))
