"""Memory that is kept while it is used again."""

import resource
import sys

import pytest
import torch

from mrafno.surrogate.memory import steady_memory

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tunes glibc")


def faults(times=20):
    """Pages that the system had to give for a large tensor that is made and dropped again and again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.zeros(8_000_000).add_(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_memory_is_kept_inside_and_in_what_is_left_of_an_outer_block():
    pages = 8_000_000 * 4 // 4096
    with steady_memory():
        faults(2)
        kept = faults()
        with steady_memory():
            pass
        still_kept = faults()
    assert max(kept, still_kept) < pages


def test_memory_goes_back_after_a_failure():
    with pytest.raises(KeyError), steady_memory():
        raise KeyError
    torch.zeros(8_000_000)
    assert faults() > 8_000_000 * 4 // 4096
