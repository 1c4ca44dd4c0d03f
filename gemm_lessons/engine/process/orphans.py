"""Processes that a child leaves running: its parent adopts them, and ends them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl


def adopt_orphans() -> None:
    """Make this process the parent of all that its children leave running."""
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill and reap every child of this process, and what they leave in turn."""
    with contextlib.suppress(OSError):
        while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            for pid in map(int, children):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in map(int, children):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
