"""Reproducible addresses of libraries and heaps, on a system that randomises them.

Linux maps each object below the last one, from a random start. All free addresses above ``CEILING`` are reserved here,
so the next object is right below it. Objects that the process had before, including its heap, stay where they are.
(``personality(ADDR_NO_RANDOMIZE)`` would fix those, too, but containers forbid it.)
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

from gemm_lessons.engine.process import bounds

CEILING = 0x6000_0800_0000  # above programs and their heaps on x86-64; far below what else Linux maps
STACK_BYTES = 8 << 20  # also of each thread; with an unlimited stack, Linux maps each object above the last one
MAPS = "/proc/self/maps"
NO_ACCESS = 0
PRIVATE, ANONYMOUS, NO_RESERVE, NOT_OVER_OTHERS = 0x2, 0x20, 0x4000, 0x100000


def fix() -> None:
    """From now on, map everything of this process and its forks below ``CEILING``.

    If the system does not allow such a reservation, or has no /proc, nothing changes. The process may restart for it.
    """
    if resource.getrlimit(resource.RLIMIT_STACK)[0] != bounds.allowed(resource.RLIMIT_STACK, STACK_BYTES):
        bounds.lower(resource.RLIMIT_STACK, STACK_BYTES)
        os.execv(sys.executable, sys.orig_argv)
    map_ = ctypes.CDLL(None).mmap
    map_.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    map_.restype = ctypes.c_void_p
    for begin, end in _free() if os.path.exists(MAPS) else ():
        map_(begin, end - begin, NO_ACCESS, PRIVATE | ANONYMOUS | NO_RESERVE | NOT_OVER_OTHERS, -1, 0)


def _free() -> list[tuple[int, int]]:
    """Return the free ranges from ``CEILING`` to the last mapping below the stack, which must be able to grow."""
    found = []
    free_from = CEILING
    with open(MAPS, encoding="ascii", errors="replace") as file:
        for line in file:
            span, *rest = line.split()
            if "[stack]" in rest:
                break
            begin, end = (int(address, 16) for address in span.split("-"))
            if begin > free_from:
                found.append((free_from, begin))
            free_from = max(free_from, end)
    return found
