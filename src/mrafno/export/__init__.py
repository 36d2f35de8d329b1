"""Taking things home from a run: predictions, networks as files, examples.

A run's folder is only read, and may be written by its run meanwhile.
"""

from mrafno.export.hdf5 import export_hdf5
from mrafno.export.onnx import export_onnx
from mrafno.export.predict import open_surrogate, predict_file
from mrafno.export.torch_program import export_torch

__all__ = ["export_hdf5", "export_onnx", "export_torch", "open_surrogate", "predict_file"]
