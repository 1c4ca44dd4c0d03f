"""Locks on open files, which Linux releases when their owner ends, however it ends."""

from __future__ import annotations

import fcntl


def take(file: int) -> bool:
    """Lock an open file or folder for this process. Return False if another holds it.

    Raises ``OSError`` for a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
