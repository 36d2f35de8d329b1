"""Predictions from files, and surrogates and examples in formats that other programs read: ONNX, torch.export, HDF5.

A run's folder is only read, and its run may advance meanwhile. May import ``run`` (its readers) and ``surrogate``.
"""

from mrafno.export.hdf5 import export_hdf5
from mrafno.export.onnx import export_onnx
from mrafno.export.predict import open_surrogate, predict_file
from mrafno.export.torch_program import export_torch

__all__ = ["export_hdf5", "export_onnx", "export_torch", "open_surrogate", "predict_file"]
