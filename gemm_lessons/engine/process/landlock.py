"""Landlock rules. A compiling thread may read files only in the folders of its request and in system library folders.

``compiler.includes`` checks which files a source may read, and explains a refusal. Landlock enforces the same, also for
includes that the text hides.
Source: Linux, "Landlock: unprivileged access control" (since 5.13). Without Landlock, ``includes`` is the only check.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from functools import cache

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
VERSION = 1  # a flag: return the version of Landlock
BENEATH_PATH = 1
READ_FILE = 1 << 2
NO_NEW_PRIVILEGES = 38
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")  # NVRTC loads further libraries when it compiles


def confine(folders: Iterable[str]) -> bool:
    """Restrict the calling thread, and no other, to reading files of these folders. Return False if Linux cannot."""
    places = {*folders, *LIBRARIES}
    for folder in places.copy():  # of an installed toolkit, what its links lead to, too
        places |= linked(folder) if os.path.isfile(os.path.join(folder, "cuda_fp16.h")) else set()
    return restrict(READ_FILE, dict.fromkeys(places, READ_FILE))


def version() -> int:
    """Return the version of Landlock; 0 without it."""
    return max(0, int(_libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)))


def restrict(handled: int, places: Mapping[str, int], net: int = 0, scoped: int = 0) -> bool:
    """Restrict the calling thread: of the actions ``handled``, allow only those listed for each place.

    ``net`` and ``scoped``, for versions that know them, have no exceptions. Return False if Linux cannot.
    """
    libc = _libc()
    words = [handled, net, scoped][: 3 if scoped else 2 if net else 1]
    attributes = struct.pack(f"{len(words)}Q", *words)
    rules = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for path, allowed in places.items():
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            failed = libc.syscall(ADD_RULE, rules, BENEATH_PATH, struct.pack("=Qi", allowed, place), 0)
            os.close(place)
            if failed:  # a file system without support: rather no rules than a folder that its owner cannot read
                return False
        return bool(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def linked(folder: str) -> frozenset[str]:
    """Return where the files of an installed folder really are: some installers fill it with links into a store."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return frozenset()
    return frozenset(os.path.dirname(os.path.realpath(link)) for link in links)
