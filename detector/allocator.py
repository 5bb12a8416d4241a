"""The C library's allocator, told to give back what large arrays leave behind.

By itself glibc raises the size from which memory is mapped, and so given back when freed, with every large
array it sees; and each thread gets a heap of its own. A snapshot then leaves holes as large as itself.
"""

from __future__ import annotations

import ctypes

MMAP_THRESHOLD, ARENA_MAX = -3, -8  # names of <malloc.h>
LARGE = 256 * 1024  # bytes


def settle() -> bool:
    """False where the C library has no such settings: nothing is lost but some memory."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    return change is not None and bool(change(ARENA_MAX, 1)) and bool(change(MMAP_THRESHOLD, LARGE))
