"""Memory is kept inside a block and given back after it."""

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

#: Blocks of 1 MiB are above the default threshold of 128 KiB, so each is a mapping of its own; malloc_info counts them.
MAPPED = """
import ctypes, json, re, tempfile
from mrafno.surrogate.training.memory import steady_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]

def mapped():
    with tempfile.NamedTemporaryFile("r") as file:
        stream = libc.fopen(file.name.encode(), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        return int(re.search('type="mmap" count="([0-9]+)"', file.read())[1])

def new_mappings(size):
    before = mapped()
    blocks = [libc.malloc(size) for _ in range(5)]
    found = mapped() - before
    for block in blocks:
        libc.free(block)
    return found

found = {}
with steady_memory():
    found["inside"] = new_mappings(1 << 20)
found["after"] = new_mappings(1 << 20)
found["small after"] = new_mappings(64 << 10)
print(json.dumps(found))
"""


def test_the_threshold_for_mappings_is_restored():
    """Inside a block large allocations come from the heap; after it they are mappings again, small ones are not."""
    done = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"inside": 0, "after": 5, "small after": 0}


def test_memory_is_kept_until_the_outermost_block_ends():
    """Measured by page faults of a large block that is allocated, filled and freed twenty times.

    In a process of its own, whose memory nothing else has used.
    """
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    kept = [found["inside"], found["after an inner block"]]
    given_back = [found["before"], found["after a failure"]]
    assert max(kept) < min(given_back) / 4, found
