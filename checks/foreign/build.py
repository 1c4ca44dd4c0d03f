"""Compiles a foreign kernel from its unchanged file, with the folders around it as include directories."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gemm_lessons.engine.compiler import whole_file
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.compiler.includes import Places

FOLDERS = ("", "include", "inc", "common", "Common", "utils")


def include_dirs(file: Path, root: Path) -> list[Path]:
    """The file's own folder and those above it up to the checkout's ``root``, each with its usual ones for headers."""
    above = [folder for folder in file.parents if folder == root or root in folder.parents]
    return [place for folder in above for name in FOLDERS if (place := folder / name).is_dir()]


def compiled(
    file: Path, root: Path, entry: str, defines: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Compiled | NotCompiled:
    """Compile ``entry`` of a file in the checkout ``root``. ``defines``: constants of the file -> other values."""
    text = with_values(file.read_text(errors="replace"), defines or {})
    return compile_source(text, path=str(file), entry=entry, include_dirs=include_dirs(file, root), options=options)


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The text with other values for its ``#define NAME ...`` and ``const int NAME = ...;``."""
    for name, value in values.items():
        text = re.sub(rf"^([ \t]*#[ \t]*define[ \t]+{name})(?:[ \t][^\n]*)?$", rf"\1 {value}", text, flags=re.M)
        text = re.sub(rf"(\b(?:const|constexpr)\s[\w\s]*\b{name}\s*=)[^;,]*", rf"\1 {value}", text)
    return text


def gathered(file: Path, root: Path) -> str:
    """The text of the file with the headers of its repository inserted."""
    text = file.read_text(errors="replace")
    return whole_file.gather(text, Places(str(file), str(file), include_dirs(file, root), ())).text
