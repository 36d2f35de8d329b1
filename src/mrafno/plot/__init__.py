"""Plotly figures, as pure functions of numbers and arrays: they read no files.

``style`` has colours and line styles, ``text`` numbers as text, ``axes`` titles, units and frames of fields, ``bundle``
the JavaScript of pages; the other modules draw: ``errors``, ``choices``, ``bars``, ``fields``, ``error_fields``, and
``panel``, with which the last two are written. May import ``grids``, ``tasks`` and ``analysis``.
"""
