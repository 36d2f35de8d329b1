"""Names that settings of a surrogate may take. Imports nothing heavy, so that readers of a run need no PyTorch."""

from typing import Literal

#: Sets of default settings, see :mod:`mrafno.surrogate.presets`.
Preset = Literal["fast", "paper"]
#: Methods of inference, see :mod:`mrafno.surrogate.inference`.
Inference = Literal["ensemble", "point", "dropout", "sgld", "svi"]
