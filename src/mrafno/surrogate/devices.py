"""Where tensors live: devices by name, checked before any work is done."""

from typing import TYPE_CHECKING

from mrafno.errors import SurrogateError

if TYPE_CHECKING:
    import torch


def find_device(name: str) -> "torch.device":
    """The device of a name: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

    Raises :class:`SurrogateError` if it is not there, and says why.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise SurrogateError(f"device: unknown device {name!r}. Choose auto, cpu, cuda, cuda:1 or mps.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        if torch.version.cuda is None:
            why = f"this PyTorch ({torch.__version__}) is built without CUDA. Install one with CUDA"
        else:
            why = "PyTorch sees none: is there a driver, and does CUDA_VISIBLE_DEVICES name it? See to that"
        raise SurrogateError(f"device: there is no GPU for {name!r}; {why}, or choose cpu or auto.")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise SurrogateError(f"device: there is no {name!r}; the GPUs are cuda:0 to cuda:{count - 1}.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise SurrogateError(f"device: {name!r} needs macOS on an Apple processor. Choose cpu or auto.")
    if device.type not in ("cpu", "cuda", "mps", "xpu"):
        raise SurrogateError(f"device: a surrogate cannot be trained on {name!r}. Choose auto, cpu, cuda or mps.")
    return device


def check_device(name: str) -> None:
    """Raise :class:`SurrogateError` if a device is not there; for those that always are, torch is not imported."""
    if name not in ("auto", "cpu"):
        find_device(name)
