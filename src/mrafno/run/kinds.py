"""Names that settings may take; they stand apart so that looking at a run imports nothing heavy."""

from typing import Literal

#: Whether a run's surrogate goes on from its last weights or begins anew.
Retrain = Literal["warm", "scratch"]
