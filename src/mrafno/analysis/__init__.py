"""The error of a surrogate or a run: metrics on held-out examples, error-against-cost curves.

May import ``data`` and ``surrogate``. Training never imports it.
"""
