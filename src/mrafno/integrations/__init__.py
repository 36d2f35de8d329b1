"""Callbacks that log a run with TensorBoard, MLflow or Weights & Biases.

May import every room up to ``run`` and is imported by none but ``studies`` and ``cli``. Each callback imports its
package when it is constructed, so this room needs none of them.
"""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports

if TYPE_CHECKING:
    from mrafno.integrations.mlflow import MLflowCallback
    from mrafno.integrations.tensorboard import TensorBoardCallback
    from mrafno.integrations.wandb import WandbCallback

__all__ = ["MLflowCallback", "TensorBoardCallback", "WandbCallback"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "MLflowCallback": "mrafno.integrations.mlflow",
        "TensorBoardCallback": "mrafno.integrations.tensorboard",
        "WandbCallback": "mrafno.integrations.wandb",
    },
)
