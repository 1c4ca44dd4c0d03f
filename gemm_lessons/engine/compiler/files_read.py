"""Files that a compilation read, for the cache key of a source whose text does not show which files it includes.

``#include NAME(x)`` depends on macros, and a library may have more headers than are followed as text. NVRTC lists the
files that it opens (``LIST_FILES``). The list is kept under a key of everything else. The next compilation hashes these
files, and the place where each name in them would be found now: another file may now be found first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler.neutral_paths import NeutralNames
from gemm_lessons.engine.compiler.source import INCLUDE, content_of
from gemm_lessons.engine.records.regex import regex

# Writes the name of each file that the front end opens to stderr. The manual does not describe it; NVRTC 13.0 to 13.5
# have it.
LIST_FILES = "-Xcudafe=--trace_includes"
_ASKED_FOR = regex(r'__has_(?:include(?:_next)?|embed)[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')


class FileListing:
    """Captures the list that the compiler writes to stderr, in a pipe. Without ``wanted``, it does nothing."""

    def __init__(self, wanted: bool) -> None:
        self._before = self._pipe = -1
        if wanted:
            self._before = os.dup(2)
            self._pipe, end = os.pipe()
            os.dup2(end, 2)
            os.close(end)

    def end(self) -> None:
        """Restore stderr, in the thread that compiled."""
        if self._before >= 0:
            os.dup2(self._before, 2)
            os.close(self._before)

    def files(self) -> tuple[str, ...]:
        """Wait for the end, in another thread, and return the absolute names of the files."""
        if self._pipe < 0:
            return ()
        with open(self._pipe, "rb") as pipe:
            lines = (line.strip() for line in pipe.read().decode(errors="replace").split("\n"))
            return tuple(dict.fromkeys(line for line in lines if line.startswith("/")))


def state_of(files: Iterable[str], source: str, name: str, folders: Sequence[Path], names: NeutralNames) -> list[str]:
    """Return names and hashes of ``files``, given by neutral names, and the files to which the names in them resolve.

    ``folders`` are searched for includes after the including file's own.
    """
    searched = [str(folder) for folder in folders]
    parts = _places(_written(source), os.path.dirname(name), searched, names)
    for file in sorted({*files}):
        own = names.own(file)
        key, written = _contents(own, *_state(own))
        within = [own.removeprefix(f"{folder}/") for folder in searched if own.startswith(f"{folder}/")]
        parts += [file, key, *_places(written, os.path.dirname(own), searched, names)]
        parts += _places(within, os.path.dirname(name), searched, names)
    return parts


def is_older(files: Iterable[str], names: NeutralNames, time_ns: int) -> bool:
    """Return whether all files were last changed before a time."""
    return all(0 < changed < time_ns for _, *times in (_state(names.own(file)) for file in files) for changed in times)


def _state(file: str) -> tuple[int, int, int]:
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(file)
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return 0, 0, 0


@lru_cache(maxsize=4096)
def _contents(file: str, *state: int) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a file in that state, and the names of files in it."""
    data = content_of(Path(file)) or b""
    return compile_cache.key_of(data), _written(data.decode(errors="replace"))


def _written(text: str) -> tuple[str, ...]:
    """Return the file names that a text includes or tests by ``__has_include``, as far as they are written out."""
    found = (match[1] or match[2] for pattern in (INCLUDE, _ASKED_FOR) for match in pattern.finditer(text))
    return tuple(dict.fromkeys(found))


def _places(written: Iterable[str], here: str, folders: Sequence[str], names: NeutralNames) -> list[str]:
    """Return where each name would be found."""
    found = (next(filter(_is_file, (os.path.join(it, name) for it in (here, *folders))), "") for name in written)
    return [names.of_any(place) if place else "" for place in found]


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:
        return False
