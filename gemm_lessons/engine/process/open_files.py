"""Open files: their names, where ``/proc/self/fd/101`` is what this process has opened as 101; and careful opening."""

from __future__ import annotations

import fcntl
import os

SYSTEM = ("/proc", "/dev", "/sys")  # files there may differ between processes


def name_of(number: int) -> str:
    """Return the name of an open file, for this process and those that it starts with it."""
    return f"/proc/self/fd/{number}"


def open_from(path: str, number: int) -> int:
    """Open a path for its name alone, under ``number`` or the next free one. Raises ``OSError``."""
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, number)
    finally:
        os.close(opened)


def open_unlinked(path: str, flags: int) -> int:
    """Open a file, as ``open``'s ``opener``; follow no link, and do not block on a pipe without a writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
