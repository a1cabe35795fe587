"""Keep the C library from returning a training step's memory to the system, from which the next step would request it.

The tensors of a step are so large that glibc gives each a memory mapping of its own. Each is then mapped, zeroed page
by page on first touch and unmapped when freed. On a CPU these are tens of thousands of page faults per step and a fifth
of its time.
"""

import ctypes
import sys

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Make this process reuse freed memory from now on. Results do not change. Returns False if there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
