"""How far a fit has come, as a share of its time: steps differ in their points and in their precision."""

import itertools

from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.low_precision import bfloat16_steps
from mrafno.surrogate.training.settings import TrainingSettings

#: Time of a step in bfloat16 by that of one in float32, and the part of a step's time that does not depend on its
#: points; see benchmarks/bench_step.
_BFLOAT16_TIME, _FIXED_TIME = 0.5, 0.25


class FinishedShare:
    """The share of a fit's time that its first steps take."""

    def __init__(self, network: MemberFNO, batches: Batches, settings: TrainingSettings) -> None:
        early_time = _FIXED_TIME + (1 - _FIXED_TIME) * batches.points(early=True) / batches.points()
        #: Where each kind of faster steps ends, and the time of such a step by that of others.
        self.faster = (
            (round(settings.early_share * settings.iterations), early_time),
            (bfloat16_steps(network, settings), _BFLOAT16_TIME),
        )
        self.total = self._time(settings.iterations)

    def __call__(self, steps: int) -> float:
        """The share, from 0 to 1, of so many steps."""
        return self._time(steps) / self.total

    def _time(self, steps: int) -> float:
        ends = sorted({0, steps, *(min(steps, end) for end, _ in self.faster)})
        spent = 0.0
        for start, end in itertools.pairwise(ends):
            time = float(end - start)
            for last, factor in self.faster:
                time *= factor if end <= last else 1.0
            spent += time
        return spent
