"""Memory of a process that runs for years: the C library's allocator and Python's collector, told what we do.

By itself glibc raises the size from which memory is mapped, and so given back when freed, with every large
array it sees; and each thread gets a heap of its own. A snapshot then leaves holes as large as itself.

By itself the collector of cycles walks through everything that was imported again and again while client
libraries make objects for every message: half of the time of a busy MQTT source.

Both keep what they could give back: a heap with a small object at its end is never shortened, and garbage
with large arrays in it waits until enough small objects have come. Once a minute it is given back.
"""

from __future__ import annotations

import ctypes
import gc

MMAP_THRESHOLD, ARENA_MAX = -3, -8  # names of <malloc.h>
LARGE = 256 * 1024  # bytes
YOUNG = 5_000  # objects between two looks at the young ones
TIDY_S = 60.0  # between two rounds of `tidy`


def settle_allocator() -> bool:
    """False where the C library has no such settings: nothing is lost but some memory."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    return change is not None and bool(change(ARENA_MAX, 1)) and bool(change(MMAP_THRESHOLD, LARGE))


def settle_collector() -> None:
    """What is there now stays: it is not looked through any more. To be called after a start and a reload.

    What was there before and is not needed any more is found first, with the pipeline that a reload replaced:
    parts of it refer to each other, and its arrays are large, while the collector counts objects only.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    _trim()


def tidy() -> None:
    """Give back what is free but still held: cycles of objects, and holes in the C library's heap."""
    gc.collect()
    _trim()


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
