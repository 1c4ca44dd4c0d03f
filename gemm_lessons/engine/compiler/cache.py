"""Compilations kept on disk between runs: bytes under a key, checked, bounded, and never needed.

``$XDG_CACHE_HOME/gemm-lessons`` or ``~/.cache/gemm-lessons``. ``GEMM_LESSONS_NO_CACHE=1`` switches it off. An entry
that cannot be read back whole is as good as none; a folder that cannot be written keeps nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

ENTRIES = 2000  # one is about 25 KB. When there are more the oldest tenth goes: to look at all takes 16 ms
_DIGEST = 32  # bytes of sha256 in front of every entry


def key_of(*parts: bytes | str) -> str:
    """One name for these parts; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


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
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # recently used: the last to be removed
    return data[_DIGEST:]


def put(key: str, data: bytes) -> None:
    """Store an entry, whole or not at all."""
    place = folder()
    if place is None:
        return
    temporary = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(temporary, place / key)
        _trim(place)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _trim(place: Path) -> None:
    if len(os.listdir(place)) <= ENTRIES:
        return
    aged: list[tuple[float, Path]] = []
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have removed it
                aged.append((entry.stat().st_mtime, Path(entry.path)))
    for _, path in sorted(aged)[: max(0, len(aged) - (ENTRIES - ENTRIES // 10))]:
        with contextlib.suppress(OSError):
            path.unlink()
