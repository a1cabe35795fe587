"""Keep the C library from giving a training step's memory back to the system, only to ask for it again.

Tensors of a step are larger than glibc's threshold for a mapping of their own, so each is mapped, zeroed page by page
on first touch and unmapped when freed: tens of thousands of page faults a step on a CPU, and a fifth of its time.
"""

import ctypes
import sys

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Reuse freed memory from now on in this process; numbers do not change. False where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
