"""What is known of a surrogate's or a run's error: metrics on held-out examples, error-against-cost curves.

May import ``data`` and ``surrogate``. Training never imports it.
"""
