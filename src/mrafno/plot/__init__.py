"""Plotly figures, as pure functions of numbers and arrays: they read no files.

``style`` has colours and line styles, ``text`` numbers as text; the other modules draw: ``errors``, ``choices``,
``bars``, ``fields``, ``error_fields``, ``panels``. May import ``grids``, ``tasks`` and ``analysis``.
"""
