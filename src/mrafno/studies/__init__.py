"""Studies that reproduce the tables and figures of the paper (Li et al., 2024): fixed data, curves, schedules, costs.

May import everything but ``cli``. ``active`` and ``runner`` make runs; the other modules report on them.
"""
