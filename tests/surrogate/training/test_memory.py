"""Memory that is kept while it is used again."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tunes glibc")

SCRIPT = """
import contextlib, ctypes, json, resource
from mrafno.surrogate.training.memory import steady_memory

libc, size = ctypes.CDLL(None), 64 << 20
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        block = libc.malloc(size)
        libc.memset(block, 1, size)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = {"before": faults()}
with steady_memory():
    found["inside"] = faults()
    with steady_memory():
        pass
    found["after an inner block"] = faults()
with contextlib.suppress(KeyError), steady_memory():
    raise KeyError
found["after a failure"] = faults()
print(json.dumps(found))
"""


def test_memory_is_kept_until_the_outermost_block_ends():
    """By the pages that the system has to give for a large block that is taken, filled and freed twenty times.

    In a process of its own, whose memory nobody else has used.
    """
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    kept = [found["inside"], found["after an inner block"]]
    given_back = [found["before"], found["after a failure"]]
    assert max(kept) < min(given_back) / 4, found
