r"""Whether a fit made a surrogate worse, by examples that the networks of both were not trained on.

A row is in the fold of the same network at every fit, see :func:`mrafno.surrogate.training.batches.folds`. So the
errors :math:`e_i` after and :math:`e'_i` before a fit, of the network that was trained on example i in neither, are
paired, and what varies from example to example cancels.
"""

import math

import numpy as np
from scipy.special import stdtrit

from mrafno.data.dataset import Dataset
from mrafno.surrogate.inference.base import Surrogate
from mrafno.surrogate.out_of_fold import OutOfFoldExamples
from mrafno.surrogate.training.batches import folds

#: Least number of paired errors, and the confidence with which a surrogate must be worse.
_FEW, _CONFIDENCE = 3, 0.95


def clearly_worse(after: Surrogate, before: Surrogate, data: Dataset) -> bool:
    r"""Whether a surrogate has larger errors than before, beyond what chance explains.

    .. math:: \bar d > t_{0.95,\, n - 1}\, s_d / \sqrt n, \quad d_i = e_i - e'_i

    Args:
        data: the examples of the later fit, on whose finest level errors are compared.
    """
    finest = data.domain.levels - 1
    rows = folds(data.sizes, after.training.out_of_fold_share, after.members, after.seed)
    examples = OutOfFoldExamples(data, rows)
    if sum(len(member[finest]) for member in rows) < _FEW:
        return False
    now, then = (examples.predict(one, [finest]).errors(finest) for one in (after, before))
    if not np.isfinite(now).all():
        return bool(np.isfinite(then).all())
    difference = now - then
    n = len(difference)
    noise = stdtrit(n - 1, _CONFIDENCE) * float(difference.std(ddof=1)) / math.sqrt(n)
    return bool(difference.mean() > noise)
