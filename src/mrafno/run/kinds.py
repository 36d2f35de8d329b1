"""Names that settings may take; they stand apart so that looking at a run imports nothing heavy."""

from typing import Literal

#: Settings of a surrogate, see :mod:`mrafno.surrogate.presets`.
Preset = Literal["fast", "paper"]
#: Ways to infer a surrogate, see :mod:`mrafno.surrogate.inference.ways`.
Inference = Literal["ensemble", "point", "dropout", "sgld", "svi"]
#: Whether a run's surrogate goes on from its last weights or begins anew.
Retrain = Literal["warm", "scratch"]
