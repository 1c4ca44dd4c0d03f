"""Folders under names of one length, for NVRTC: 13.5 keeps the names of files in its heap, and orders some loads by the
addresses of what lies there. So the same file becomes the same machine code wherever it, its headers and the kit lie.

Slashes in front of a name mean nothing. In the line table of machine code they stay; whoever reads it there drops them
(``sass.plain_file_name``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

LENGTH = 256  # bytes; a longer name stays as it is


def padded(folder: str) -> str:
    """The same folder under a name of ``LENGTH`` bytes; a relative one stays as it is."""
    return "/" * (LENGTH - len(_encoded(folder))) + folder if folder.startswith("/") else folder


def in_padded(file: str) -> str:
    """The same file, its folder padded."""
    folder, name = os.path.split(file)
    return os.path.join(padded(folder), name)


def plain(log: str, folders: Iterable[str]) -> str:
    """What NVRTC says of these folders, by their own names."""
    for folder in folders:
        log = log.replace(padded(folder), folder)
    return log


def plain_strings(ptx: str, folders: Iterable[str]) -> str:
    """PTX in whose strings, such as ``__FILE__``, these folders have their own names; its arrays stay as long."""
    for folder in folders:
        ptx = ptx.replace(_as_bytes(padded(folder)), _as_bytes(folder))
    return ptx


def _as_bytes(text: str) -> str:
    return ", ".join(map(str, _encoded(text)))


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")  # as NVRTC gets it
