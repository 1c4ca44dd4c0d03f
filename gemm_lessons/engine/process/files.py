"""Open files and temporary folders, which Linux closes and unlocks when their owner ends, however it ends.

- names of open files: ``/proc/self/fd/101`` is the file with descriptor 101; files opened without following links
- locks on open files
- temporary folders of grading, and the removal of those that a killed run has left: the owner of a folder holds a lock
  on it, so an unlocked folder with our prefix is left over. Process ids cannot tell: containers that share /tmp have
  their own ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SYSTEM = ("/proc", "/dev", "/sys")  # files there may differ between processes
PREFIX = "gemm-lessons-grading-"
UNLOCKED = ".gemm-lessons-new-"  # a folder's name until it is locked
NEW_S = 60.0  # a folder that is unlocked for longer has lost its owner


def name_of(number: int) -> str:
    """Return the name of an open file, for this process and those that it starts with it."""
    return f"/proc/self/fd/{number}"


def open_from(path: str, number: int) -> int:
    """Open a path without access to its content, as descriptor ``number`` or the next free one. Raise ``OSError``."""
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, number)
    finally:
        os.close(opened)


def open_unlinked(path: str, flags: int) -> int:
    """Open a file, as ``open``'s ``opener``; follow no link, and do not block on a pipe without a writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def take_lock(file: int) -> bool:
    """Lock an open file or folder for this process. Return False if another holds it.

    Raise ``OSError`` for a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Make an empty folder for the body of the ``with`` statement, and remove it afterwards."""
    unlocked = Path(tempfile.mkdtemp(prefix=UNLOCKED))
    lock = os.open(unlocked, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = unlocked.with_name(f"{PREFIX}{kind}-{unlocked.name.removeprefix(UNLOCKED)}")
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            take_lock(lock)
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
        if not take_lock(folder):  # its owner is alive
            return False
        shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)
    except OSError:  # there are no locks
        return False
    finally:
        os.close(folder)
