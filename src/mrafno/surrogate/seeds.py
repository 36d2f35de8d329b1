"""Seeds of the random streams of a surrogate."""

import numpy as np


def seed_of(*parts: int) -> int:
    """One seed for torch's generators from several numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint32)[0])
