"""What a compiling thread can open: the folders that its question names, CUDA's libraries, nothing else.

``includes`` tells what a source may read, with a message; this is Linux's own word on it, for what a text can hide.
Source: Linux, "Landlock: unprivileged access control" (since 5.13). Where that is missing, ``includes`` stands alone.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
BENEATH_PATH = 1
READ_FILE = 1 << 2
NO_NEW_PRIVILEGES = 38
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")  # NVRTC loads a second library of its own when it compiles


def confine(folders: Iterable[str]) -> bool:
    """From here on the calling thread, and no other, reads files of these folders only; False where Linux cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    handled = struct.pack("Q", READ_FILE)
    rules = libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return False
    try:
        for folder in {place for one in (*folders, *LIBRARIES) for place in _really(one)}:
            try:
                place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            failed = libc.syscall(ADD_RULE, rules, BENEATH_PATH, struct.pack("=Qi", READ_FILE, place), 0)
            os.close(place)
            if failed:  # a file system without: better no wall than a folder that its owner cannot read
                return False
        return bool(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


@cache
def linked(folder: str) -> frozenset[str]:
    """Where the files of an installed folder really are: some installers fill it with links into a store."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return frozenset()
    return frozenset(os.path.dirname(os.path.realpath(link)) for link in links)


def _really(folder: str) -> frozenset[str]:
    installed = os.path.isfile(os.path.join(folder, "cuda_fp16.h"))
    return frozenset({folder}) | (linked(folder) if installed else frozenset())
