"""Temporary folders of grading, and the removal of those that a killed run has left.

The owner of a folder holds a lock on it, which Linux releases when the owner ends, however it ends. A folder of ours
without a lock is left over. Process ids do not say that: containers that share /tmp have their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gemm_lessons.engine.process import locks

PREFIX = "gemm-lessons-grading-"
UNLOCKED = ".gemm-lessons-new-"  # a folder's name until it is locked
NEW_S = 60.0  # a folder that is unlocked for longer has lost its owner


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Make an empty folder for the body of the ``with`` statement, and remove it afterwards."""
    unlocked = Path(tempfile.mkdtemp(prefix=UNLOCKED))
    lock = os.open(unlocked, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = unlocked.with_name(f"{PREFIX}{kind}-{unlocked.name.removeprefix(UNLOCKED)}")
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            locks.take(lock)
        unlocked.rename(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_leftovers() -> int:
    """Remove the folders of this user whose owners are gone; return their number."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith((PREFIX, UNLOCKED)):
                removed += _removed(entry.path)
    return removed


def _removed(path: str) -> bool:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        about = os.fstat(folder)
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != 0o700:
            return False
        if os.path.basename(path).startswith(UNLOCKED) and time.time() - about.st_ctime < NEW_S:
            return False
        if not locks.take(folder):  # its owner is alive
            return False
        shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)
    except OSError:  # there are no locks
        return False
    finally:
        os.close(folder)
