"""Neutral folder names for NVRTC, the same wherever the folders are.

NVRTC 13.5 keeps file names in its heap and orders some loads by heap addresses. With neutral names, the same file gives
the same machine code wherever it, its headers, the kit and NVRTC itself are.

    with neutral_names(folders) as names:                names.of(folder): a name through an open file descriptor
        made = compile(...)
    restore_names(replace(made, called=names.called))    gives each folder its own name again in NVRTC's output
    expected(folders)                                    the same names, without opening the folders

A neutral name is ``/proc/self/fd/101`` with leading slashes, which have no effect, up to ``LENGTH`` bytes. The original
name is padded by slashes to as many bytes. They remain in the line table of machine code; its readers drop them
(``elf.plain_file_name``). The cache on disk keeps what NVRTC wrote, for the same file in any folder.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gemm_lessons.engine.compiler.nvrtc import Translation
from gemm_lessons.engine.process import files

LENGTH = 256  # bytes; a longer name is left unchanged
FIRST = 100  # file descriptor of the first folder: more than a process of the kit has open


def padded(folder: str) -> str:
    """Return the folder's name padded to ``LENGTH`` bytes; a relative one is unchanged."""
    return "/" * (LENGTH - len(_encoded(folder))) + folder if folder.startswith("/") else folder


class NeutralNames:
    """Folders, and their neutral names."""

    def __init__(self, folders: Iterable[str], names: Mapping[str, str]) -> None:
        self._names = {folder: padded(names.get(folder, folder)) for folder in folders}

    @property
    def called(self) -> tuple[tuple[str, str], ...]:
        """Return each folder with its neutral name, in order."""
        return tuple(self._names.items())

    def of(self, folder: str) -> str:
        """Return the neutral name of one of the folders; the padded name of any other."""
        return self._names[folder]

    def of_file(self, file: str) -> str:
        """Return the neutral name of a file in one of the folders."""
        folder, name = os.path.split(file)
        return os.path.join(self.of(folder), name)

    def of_any(self, file: str) -> str:
        """Return the neutral name of a file below the deepest matching folder; its own name if there is none."""
        folder = max((it for it in self._names if file.startswith(f"{it}/")), key=len, default=None)
        return file if folder is None else self.of(folder) + file[len(folder) :]

    def own(self, file: str) -> str:
        """Return the name of a file by its neutral name."""
        folder = next((it for it, name in self._names.items() if file.startswith(f"{name}/")), None)
        return file if folder is None else os.path.join(folder, file.removeprefix(f"{self.of(folder)}/"))

    @property
    def nested(self) -> tuple[str, ...]:
        """Return the pairs of folders of which one is inside of the other, by neutral names."""
        pairs = [(inner, outer) for inner in self._names for outer in self._names if inner.startswith(f"{outer}/")]
        return tuple(f"{self.of(inner)} {self.of(outer)}{inner[len(outer) :]}" for inner, outer in pairs)


def restore_names(made: Translation) -> Translation:
    """Put the original names back into NVRTC's output: padded in PTX and machine code."""
    log, ptx, cubin = made.log, made.ptx, made.cubin
    for folder, name in made.called:
        own = padded(folder)
        if name in log or name.lstrip("/") in log:
            log = log.replace(name, folder).replace(f"/{name.lstrip('/')}", folder)
        for between, instead in ((", ", folder), (",", own)):  # a string: its array keeps its length
            ptx = ptx.replace(_as_bytes(name, between), _as_bytes(instead, between))
        ptx = ptx.replace(name, own)
        cubin = cubin.replace(_encoded(name), _encoded(own))
    return replace(made, log=log, ptx=ptx, cubin=cubin, called=())


def expected(folders: Iterable[str]) -> NeutralNames:
    """Return the names that ``neutral_names`` gives in a process with fewer than ``FIRST`` open files."""
    numbered = _numbered(folders)
    names = {it: files.name_of(number) for it, number in numbered.items() if _fits(it) and os.path.exists(it)}
    return NeutralNames(numbered, names)


def _numbered(folders: Iterable[str]) -> dict[str, int]:
    return dict(zip(dict.fromkeys(folders), itertools.count(FIRST), strict=False))


def _fits(folder: str) -> bool:
    return folder.startswith("/") and folder != "/" and len(_encoded(folder)) <= LENGTH


@contextlib.contextmanager
def neutral_names(folders: Iterable[str]) -> Iterator[NeutralNames]:
    """Give folders names that depend on nothing but their order.

    A folder keeps its own name if it does not exist, is the root, has a name longer than ``LENGTH`` bytes, or if Linux
    has no such name for it.
    """
    numbered = _numbered(folders)
    names, opened = {}, []
    try:
        for folder, number in numbered.items():
            with contextlib.suppress(OSError):
                opened.append(files.open_from(folder, number))
                name = files.name_of(number)
                if _fits(folder) and opened[-1] == number and os.path.samefile(name, folder):
                    names[folder] = name
        yield NeutralNames(numbered, names)
    finally:
        for file in opened:
            os.close(file)


def _as_bytes(text: str, between: str) -> str:
    return between.join(map(str, _encoded(text)))


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")  # as NVRTC receives it
