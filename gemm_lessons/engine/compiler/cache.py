"""Cache of compilations on disk: bytes under a key, with a checksum and bounded size. It is optional.

``$XDG_CACHE_HOME/gemm-lessons`` or ``~/.cache/gemm-lessons``. ``GEMM_LESSONS_NO_CACHE=1`` disables it. A damaged entry
counts as absent; a folder that cannot be written stores nothing. Any number of processes may share the folder: entries
are written atomically, under a name that covers everything they depend on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from functools import cache, lru_cache
from pathlib import Path

BYTES = 256 << 20  # of all entries; a compilation takes 10 KB, a derived record up to 0.5 MB
LOOKS = 64  # one new entry in this many measures the folder: with 20,000 entries that takes 0.1 s
_DIGEST = 32  # bytes of the sha256 at the start of every entry
_FORMAT = b"zlib"  # part of the hash: an entry in another version's format counts as damaged
_BLOCK = 4096  # of a file system: a file takes a multiple of it


def key_of(*parts: bytes | str) -> str:
    """Return one key for these parts. Different lists of parts have different keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def identity(file: Path) -> str:
    """Return the hash of a file's content, independent of its path and time.

    NVRTC's 141 MB take 0.2 s, so the hash is memoised under path, size, time of change and inode. These replace the
    hash of an unreadable file. Raise ``OSError`` if there is no such file.
    """
    stat = file.stat()
    return _identity(os.path.abspath(file), stat.st_size, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=64)
def _identity(file: str, *state: int) -> str:
    key = key_of("gemm-lessons/identity/1", file, *map(str, state))
    if (kept := get(key)) is not None:
        return kept.decode()
    try:
        with open(file, "rb") as opened:
            found = hashlib.file_digest(opened, "blake2b").hexdigest()
    except OSError:
        return key
    put(key, found.encode())
    return found


@cache
def files_of(root: Path) -> tuple[str, ...]:
    """Return the name, size and time of change of every file below a folder."""
    found: list[str] = []
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                    continue
                state = entry.stat()
                found.append(f"{entry.path[len(str(root)) :]} {state.st_size} {state.st_mtime_ns}")
    return tuple(sorted(found))


def folder() -> Path | None:
    """Return the folder of the entries; None if the cache is disabled or there is no home folder."""
    if os.environ.get("GEMM_LESSONS_NO_CACHE", "0") not in ("", "0"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: ignore a relative path
        base = os.path.expanduser("~/.cache")
    return Path(base, "gemm-lessons") if os.path.isabs(base) else None


def get(key: str) -> bytes | None:
    """Return the entry stored under ``key``, or None. A damaged entry is None."""
    place = folder()
    if place is None:
        return None
    path = place / key
    try:
        data = path.read_bytes()
        if hashlib.sha256(_FORMAT + data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # recently used: removed last
    return zlib.decompress(data[_DIGEST:])


def put(key: str, data: bytes) -> None:
    """Store an entry atomically, or not at all."""
    place = folder()
    if place is None:
        return
    packed = zlib.compress(data, 1)
    temporary = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(_FORMAT + packed).digest() + packed)
        os.replace(temporary, place / key)
        # Keys are hashes, so any of them selects evenly.
        if int(key[:4], 16) % LOOKS == 0 or len(packed) > BYTES // LOOKS:
            _trim(place)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _trim(place: Path) -> None:
    """If the folder is larger than ``BYTES``, remove the least recently used entries down to nine tenths of it."""
    aged: list[tuple[float, int, str]] = []
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have removed it
                stat = entry.stat(follow_symlinks=False)
                aged.append((stat.st_mtime, -(-stat.st_size // _BLOCK) * _BLOCK, entry.path))
    total = sum(size for _, size, _ in aged)
    if total <= BYTES:
        return
    for _, size, path in sorted(aged):
        if total <= BYTES - BYTES // 10:
            break
        total -= size
        with contextlib.suppress(OSError):
            os.unlink(path)
