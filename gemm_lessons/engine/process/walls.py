"""Walls around a process that runs untrusted code: no access to other files, the network or other processes.

Not every Linux system has every wall. ``confine`` enables all that are available and returns their names. A process
may only write its last words to stderr, so it cannot fill a disk. Source: the kernel's documentation of Landlock;
``seccomp`` has the filter of system calls.
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
from collections.abc import Iterable, Sequence
from pathlib import Path

from gemm_lessons.engine.process import bounds, landlock, seccomp
from gemm_lessons.engine.records.frozen import dataclass

FILE_BYTES = 64 << 20  # the largest file that may be written: a cubin for nvdisasm, before the sandbox is closed
LAST_WORDS = 1 << 20  # bytes of stderr, the only file that may be written afterwards
PROCESSES = 64  # including threads; Linux exempts root
SPACE = 16 << 30  # bytes of address space beyond current use and the memory limit: libraries map more than they use
OPEN_FILES = 256

ROOT = os.geteuid() == 0  # read before the process enters a user namespace
LOADERS = ("/lib64/ld-linux*", "/lib/ld-linux*", "/lib/ld-musl*")  # the dynamic loader

# landlock.h
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP = 0b11
SOCKETS_AND_SIGNALS = 0b11

# sched.h
NEW_USER, NEW_PROCESSES, NEW_NETWORK, NEW_IPC = 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0800_0000

WALLS = {
    "files": "reads only the kit, CUDA's files and its own (Landlock)",
    "writes": "writes no file, and changes no owner, mode, time or attribute of one (seccomp)",
    "network": "no network (seccomp)",
    "tcp": "no TCP (Landlock)",
    "calls": "no other process, mount, or setting of the system (seccomp)",
    "start": "starts no process (seccomp)",
    "signals": "no signals to other processes (Landlock)",
    "names": "process ids, users, network and IPC of its own (namespaces)",
    "use": "bounds on memory, processor time, file size and open files (rlimits)",
    "count": "a bound on processes (rlimits)",
}


@dataclass(frozen=True)
class Reach:
    """Access that the walls allow: readable files, folders that are readable with everything below, programs that may
    be started, and the process's own folder, which is readable as well."""

    folder: Path
    files: Sequence[Path]
    folders: Sequence[Path]
    programs: Sequence[Path] = ()


def with_libraries(folders: Iterable[Path]) -> list[Path]:
    """Return installed folders, the folders that their links point to, and the system's library folders."""
    installed = list(folders)
    linked = [Path(place) for one in installed for place in landlock.linked(str(one))]
    return [*installed, *linked, *map(Path, landlock.LIBRARIES)]


def leave_namespaces() -> bool:
    """Enter new user, network and IPC namespaces, and a PID namespace for children. Return False if Linux refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.unshare(NEW_USER | NEW_PROCESSES | NEW_NETWORK | NEW_IPC) == 0)


def limit(memory_bytes: int, seconds: float) -> tuple[str, ...]:
    """Set hard resource limits for this process and its children; return the names of these walls in ``WALLS``."""
    most = int(seconds) + 1
    space, data = bounds.used()
    for what, value in (
        (resource.RLIMIT_CPU, most),
        (resource.RLIMIT_DATA, data + memory_bytes),
        (resource.RLIMIT_AS, space + memory_bytes + SPACE),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_CORE, 0),
    ):
        value = bounds.allowed(what, value)
        resource.setrlimit(what, (value, value))
    return ("use",) if ROOT else ("use", "count")


def confine(reach: Reach, starts: bool = False) -> tuple[str, ...]:
    """Enable all available protections; return their names in ``WALLS``. Without ``starts``, forbid new programs."""
    walls = []
    version = landlock.version()
    if version and _files(reach, version, starts):
        walls += ["files", *["tcp"] * (version >= 4), *["signals"] * (version >= 6)]
    ctypes.CDLL(None).prctl(landlock.NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LAST_WORDS, LAST_WORDS))
    if seccomp.install(starts):
        walls += ["writes", "network", "calls", *["start"] * (not starts)]
    return tuple(walls)


def _files(reach: Reach, version: int, starts: bool) -> bool:
    every = FILE_RIGHTS[min(version, max(FILE_RIGHTS))]
    truncate = FILE_RIGHTS[3] & ~FILE_RIGHTS[2] & every
    places: dict[str, int] = {}

    def allow(paths: Iterable[str | Path], rights: int) -> None:
        for path in paths:
            mask = rights if os.path.isdir(path) else rights & (READ_FILE | WRITE_FILE | EXECUTE | truncate)
            places[str(path)] = places.get(str(path), 0) | mask

    allow(reach.folders, READ_FILE | READ_FOLDER)
    allow(reach.files, READ_FILE)
    allow([os.devnull], READ_FILE | WRITE_FILE)
    allow([reach.folder], READ_FILE | READ_FOLDER)
    if starts:
        allow([*reach.programs, *(it for one in LOADERS for it in glob.glob(one))], READ_FILE | EXECUTE)
    return landlock.restrict(every, places, TCP if version >= 4 else 0, SOCKETS_AND_SIGNALS if version >= 6 else 0)
