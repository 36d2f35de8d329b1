"""Multi-resolution active learning of Fourier neural operators."""

from mrafno._version import __version__

__all__ = ["__version__"]
