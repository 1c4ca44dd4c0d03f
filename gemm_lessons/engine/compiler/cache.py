"""Compilations kept on disk between runs: bytes under a key, checked, bounded, and never needed.

``$XDG_CACHE_HOME/gemm-lessons`` or ``~/.cache/gemm-lessons``. ``GEMM_LESSONS_NO_CACHE=1`` switches it off. An entry
that cannot be read back whole counts as absent; a folder that cannot be written keeps nothing. Any number of processes
may share the folder: an entry appears whole, under a name that says all it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from functools import lru_cache
from pathlib import Path

BYTES = 256 << 20  # of all entries; one takes about 10 KB, the tests of the whole kit 20 MB
LOOKS = 64  # of so many new entries one measures the folder: with 20,000 entries that takes 0.1 s
_DIGEST = 32  # bytes of sha256 in front of every entry
_FORMAT = b"zlib"  # hashed with it: what other versions wrote in another way is as good as damaged
_BLOCK = 4096  # of a file system: what a file takes is a multiple


def key_of(*parts: bytes | str) -> str:
    """One name for these parts; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def identity(file: Path) -> str:
    """The hash of a file's content, wherever the file is and whenever it was written. NVRTC's 141 MB take 0.2 s: the
    hash is remembered under path, size and time of change, and those stand for a file that cannot be read. Raises
    ``OSError`` where there is none."""
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


def folder() -> Path | None:
    """Where entries live; None when switched off or when there is no home folder."""
    if os.environ.get("GEMM_LESSONS_NO_CACHE", "0") not in ("", "0"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is to be ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "gemm-lessons") if os.path.isabs(base) else None


def get(key: str) -> bytes | None:
    """The entry stored under ``key``, or None. A corrupted entry is None."""
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
        os.utime(path)  # recently used: the last to be removed
    return zlib.decompress(data[_DIGEST:])


def put(key: str, data: bytes) -> None:
    """Store an entry, whole or not at all."""
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
        if int(key[:4], 16) % LOOKS == 0 or len(packed) > BYTES // LOOKS:  # keys are hashes: any of them will do
            _trim(place)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _trim(place: Path) -> None:
    """Where there is too much, remove the least recently used tenth, and whatever else there is too much of."""
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
