"""Seconds of simulations that are kept sorted, beside the median of the same seconds."""

from statistics import median

import numpy as np
import pytest

from mrafno.run.durations import Durations


def expected(noted, level):
    times = [seconds for _, _, seconds in sorted((at, id, s) for id, (of, at, s) in noted.items() if of == level)]
    kept = times[len(times) > 1 :]
    return len(kept), median(kept) if kept else None


@pytest.mark.parametrize("seed", range(4))
def test_the_typical_time_is_the_median_without_the_first_simulation(seed):
    rng = np.random.default_rng(seed)
    durations, noted = Durations(), {}
    for number in range(200):
        if noted and rng.random() < 0.4:
            id = str(rng.choice(list(noted)))
            durations.remove(id)
            del noted[id]
        else:
            # Whole numbers, so that many are the same.
            id, entry = f"q{number}", (int(rng.integers(2)), float(rng.integers(20)), float(rng.integers(6)))
            durations.add(id, *entry)
            noted[id] = entry
        durations.remove("not noted")
        for level in range(3):
            assert (durations.number(level), durations.typical(level)) == expected(noted, level)
