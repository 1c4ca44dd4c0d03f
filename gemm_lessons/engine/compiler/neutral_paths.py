"""Other names for folders while NVRTC reads them, the same ones wherever the folders lie: 13.5 keeps names of files in
its heap and orders some loads by the addresses of what lies there. So the same file becomes the same machine code
wherever it, its headers, the kit and NVRTC itself are.

    with standing_in(folders) as names:                 names.of(folder), a way to it through a file that is open
        made = compile(...)
    take_back(replace(made, called=names.called))       in what NVRTC wrote, each folder has its own name again
    expected(folders)                                   the same names, without a way to the folders

Such a name is ``/proc/self/fd/101`` with slashes in front, which mean nothing, up to ``LENGTH`` bytes. What takes its
place again has as many bytes, also with slashes. In the line table of machine code they stay; whoever reads it there
drops them (``sass.plain_file_name``). The cache on disk keeps what NVRTC wrote, for the same file in any folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gemm_lessons.engine.compiler.nvrtc import Translation

LENGTH = 256  # bytes; a longer name stays as it is
FIRST = 100  # the number of the first folder's open file: more than a process of ours has open


def padded(folder: str) -> str:
    """The same folder under a name of ``LENGTH`` bytes; a relative one stays as it is."""
    return "/" * (LENGTH - len(_encoded(folder))) + folder if folder.startswith("/") else folder


class StandIns:
    """Folders, and what they are called meanwhile."""

    def __init__(self, folders: Iterable[str], names: Mapping[str, str]) -> None:
        self._names = {folder: padded(names.get(folder, folder)) for folder in folders}

    @property
    def called(self) -> tuple[tuple[str, str], ...]:
        """(folder, its other name), in order."""
        return tuple(self._names.items())

    def of(self, folder: str) -> str:
        """The other name of one of the folders; padded, its own, where it has no other."""
        return self._names[folder]

    def of_file(self, file: str) -> str:
        """The other name of a file in one of the folders."""
        folder, name = os.path.split(file)
        return os.path.join(self.of(folder), name)

    def of_any(self, file: str) -> str:
        """The other name of a file anywhere below one of the folders, the deepest; its own if it is below none."""
        folder = max((it for it in self._names if file.startswith(f"{it}/")), key=len, default=None)
        return file if folder is None else self.of(folder) + file[len(folder) :]

    @property
    def nested(self) -> tuple[str, ...]:
        """Which of the folders are inside of which others."""
        pairs = [(inner, outer) for inner in self._names for outer in self._names if inner.startswith(f"{outer}/")]
        return tuple(f"{self.of(inner)} {self.of(outer)}{inner[len(outer) :]}" for inner, outer in pairs)


def take_back(made: Translation) -> Translation:
    """What NVRTC made, its files called what they are; in machine code padded."""
    log, ptx, cubin = made.log, made.ptx, made.cubin
    for folder, name in made.called:
        own = padded(folder)
        if name in log or name.lstrip("/") in log:
            log = log.replace(name, folder).replace(f"/{name.lstrip('/')}", folder)
        for between, instead in ((", ", folder), (",", own)):  # a string: its array stays as long
            ptx = ptx.replace(_as_bytes(name, between), _as_bytes(instead, between))
        ptx = ptx.replace(name, own)
        cubin = cubin.replace(_encoded(name), _encoded(own))
    return replace(made, log=log, ptx=ptx, cubin=cubin, called=())


def expected(folders: Iterable[str]) -> StandIns:
    """The names that ``standing_in`` gives in a process that has less than ``FIRST`` files open."""
    numbered = _numbered(folders)
    names = {it: _stand_in(number) for it, number in numbered.items() if _fits(it) and os.path.exists(it)}
    return StandIns(numbered, names)


def _numbered(folders: Iterable[str]) -> dict[str, int]:
    return dict(zip(dict.fromkeys(folders), itertools.count(FIRST), strict=False))


def _stand_in(number: int) -> str:
    return f"/proc/self/fd/{number}"


def _fits(folder: str) -> bool:
    return folder.startswith("/") and folder != "/" and len(_encoded(folder)) <= LENGTH


@contextlib.contextmanager
def standing_in(folders: Iterable[str]) -> Iterator[StandIns]:
    """Names for folders, which depend on nothing but their order. One that is not there, whose own name is longer than
    ``LENGTH`` bytes, the root, and one for which Linux has no such name, keep their own."""
    numbered = _numbered(folders)
    names, opened = {}, []
    try:
        for folder, number in numbered.items():
            with contextlib.suppress(OSError):
                opened.append(os.open(folder, os.O_PATH))
                opened.append(fcntl.fcntl(opened[-1], fcntl.F_DUPFD_CLOEXEC, number))  # or the next that is free
                name = _stand_in(number)
                if _fits(folder) and opened[-1] == number and os.path.samefile(name, folder):
                    names[folder] = name
        yield StandIns(numbered, names)
    finally:
        for file in opened:
            os.close(file)


def _as_bytes(text: str, between: str) -> str:
    return between.join(map(str, _encoded(text)))


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")  # as NVRTC gets it
