"""Sandbox of a submission: no access to other files, the network or other processes.

Not every Linux system has every protection ("wall"). ``confine`` enables all that are available and returns their
names. A submission writes nothing but its last words on stderr, so it cannot fill a disk. Source: the kernel's
documentation of Landlock; ``seccomp`` has the filter of system calls.
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
import site
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from gemm_lessons.course.folder import for_learners
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler import landlock as wall
from gemm_lessons.engine.compiler import nvrtc
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.grading import seccomp

PACKAGE = Path(__file__).resolve().parents[1]
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
    """Access that the sandbox allows: readable files, folders that are readable with everything below, programs that
    may be started, and the job's own folder, which is readable as well."""

    folder: Path
    files: Sequence[Path]
    folders: Sequence[Path]
    programs: Sequence[Path] = ()


def reach_of(lesson: Lesson, folder: Path) -> Reach:
    """Return the access of a submission to ``lesson`` in its ``folder``. Solutions, other users' files and files of the
    system are out of reach."""
    lessons = lesson.directory.parent
    paths = sysconfig.get_paths()
    installed = {Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {Path(place) for place in (*site.getsitepackages(), site.getusersitepackages())}
    cuda = [place for major in nvrtc.CUDA_MAJORS for place in nvrtc.include_folders(major)]
    cuda += [place for major in nvrtc.CUDA_MAJORS for place in nvrtc.library_folders(major)]
    linked = [Path(place) for one in cuda for place in wall.linked(str(one))]
    program = nvrtc.disassembler()
    folders = [PACKAGE, *installed, *cuda, *linked, *map(Path, wall.LIBRARIES)]
    closed = (lessons, PACKAGE / "lessons")
    around = [place for one in dict.fromkeys(folders) for place in _around(one.resolve(), closed)]
    records = [Path(it) for it in glob.glob(f"{glob.escape(str(lessons))}/*/lesson.toml")]
    own = [lesson.directory / name for name in for_learners(os.listdir(lesson.directory))]
    files = [*records, *own, lessons / "course.toml", lesson.stub_path, Path("/etc/ld.so.cache")]
    shared = [place for place in lesson.include_dirs if place != lesson.directory]
    return Reach(folder, files, [*around, *shared], [program] if program else [])


def _around(folder: Path, closed: Sequence[Path]) -> list[Path]:
    """Paths that Landlock may allow: everything below ``folder`` except ``closed``. A Landlock rule for a folder covers
    everything below it, so the siblings of a closed path are listed one by one."""
    inside = [it for it in closed if folder == it.resolve() or folder in it.resolve().parents]
    if not inside:
        return [folder]
    if any(folder == it.resolve() for it in inside) or not folder.is_dir():
        return []
    return [place for entry in sorted(folder.iterdir()) for place in _around(entry, inside)]


def leave_namespaces() -> bool:
    """Enter new user, PID, network and IPC namespaces; the next child is the first process of the PID namespace. Return
    False if Linux refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.unshare(NEW_USER | NEW_PROCESSES | NEW_NETWORK | NEW_IPC) == 0)


def limit(memory_bytes: int, seconds: float) -> tuple[str, ...]:
    """Set the hard resource limits of this process and its children; return the names in ``WALLS``."""
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
    version = wall.version()
    if version and _files(reach, version, starts):
        walls += ["files", *["tcp"] * (version >= 4), *["signals"] * (version >= 6)]
    ctypes.CDLL(None).prctl(wall.NO_NEW_PRIVILEGES, 1, 0, 0, 0)
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
    return wall.restrict(every, places, TCP if version >= 4 else 0, SOCKETS_AND_SIGNALS if version >= 6 else 0)
