"""The version of the package, and nothing else, so that reading it imports nothing."""

__version__ = "0.3.0"
