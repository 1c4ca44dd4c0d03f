"""A process whose libraries and heaps lie where those of the last one lay, on a system that draws such addresses.

Linux maps each thing below the last one, and begins at an address that it draws. All that is free above ``CEILING`` is
reserved here, so the next thing lies right below that. What the process had before, its own heap among it, stays where
it was drawn. (``personality(ADDR_NO_RANDOMIZE)`` would fix that, too, but containers forbid it.)
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

from gemm_lessons.engine.process import bounds

CEILING = 0x6000_0800_0000  # above programs and their heaps on x86-64; far below what else Linux maps
STACK_BYTES = 8 << 20  # of a thread, too; without a limit Linux maps each thing above the last one
MAPS = "/proc/self/maps"
NO_ACCESS = 0
PRIVATE, ANONYMOUS, NO_RESERVE, NOT_OVER_OTHERS = 0x2, 0x20, 0x4000, 0x100000


def fix() -> None:
    """From now on what this process maps, and all that it forks, lies below ``CEILING``. Where the system lets nobody
    reserve that much, or has no /proc, nothing changes. The process may start anew for it."""
    if resource.getrlimit(resource.RLIMIT_STACK)[0] != bounds.allowed(resource.RLIMIT_STACK, STACK_BYTES):
        bounds.lower(resource.RLIMIT_STACK, STACK_BYTES)
        os.execv(sys.executable, sys.orig_argv)
    map_ = ctypes.CDLL(None).mmap
    map_.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    map_.restype = ctypes.c_void_p
    for begin, end in _free() if os.path.exists(MAPS) else ():
        map_(begin, end - begin, NO_ACCESS, PRIVATE | ANONYMOUS | NO_RESERVE | NOT_OVER_OTHERS, -1, 0)


def _free() -> list[tuple[int, int]]:
    """What is free from ``CEILING`` to the last thing below the stack, which must be able to grow."""
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
