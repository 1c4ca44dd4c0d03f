"""``gemm-lessons export``: render the folder of a stand-alone program from the templates beside this module."""

from __future__ import annotations

import re
from pathlib import Path

from gemm_lessons.course import CommandError, Lesson, read_bytes, replace_with_backup, shown, writing
from gemm_lessons.engine.compiler import without_comments
from gemm_lessons.engine.records import dataclass
from gemm_lessons.export.program import KernelText, context, named_in_pragmas, read_kernel
from gemm_lessons.gemm import Shape

TEMPLATES = Path(__file__).parent / "templates"
HOST = "// Host: what the CPU runs"  # marks the end of the learner's part of main.cu


@dataclass(frozen=True)
class Exported:
    """The files that ``export`` wrote, and the backups of older files."""

    lesson: Lesson
    folder: Path
    files: tuple[Path, ...]
    backups: tuple[Path, ...]
    compile: str


def export_lesson(
    lesson: Lesson, kernel: Path, folder: Path, architecture: str, shape: Shape | None = None
) -> Exported:
    """Write a program of the lesson with this kernel into ``folder``; an existing file that differs is backed up first.
    ``shape`` is the program's default size instead of 4096.

    Raises ``CommandError`` if the lesson or the kernel cannot be exported; then nothing is written.
    """
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{shown(folder)} is a file; name a folder")
    text = read_kernel(lesson, kernel)
    names = context(lesson, text, shown(kernel), architecture, shape)
    contents = {
        "main.cu": _rendered("main.cu", names),
        **{name: named_in_pragmas(header, names) for name, header in text.headers},
        "Makefile": _rendered("Makefile", names),
        "README.md": _rendered("README.md", names),
    }
    _check_names(text, contents["main.cu"].partition(HOST)[2])
    backups = []
    for name, content in contents.items():
        path = folder / name
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and read_bytes(path) == content.encode():
            continue
        backup = replace_with_backup(path, content.encode()).backup
        backups += [backup] if backup else []
    return Exported(lesson, folder, tuple(folder / name for name in contents), tuple(backups), str(names["compile"]))


def _rendered(name: str, names: dict[str, object]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{name}.jinja").render(names)


def _check_names(kernel: KernelText, host: str) -> None:
    """Check the kernel's macros and functions against the host code, which follows them in the same file. Raises
    ``CommandError`` for a name that the host code uses for something else."""
    macros = set(re.findall(r"^\s*#\s*define\s+(\w+)", kernel.everything, re.M))
    own = set(re.findall(r"^(?:static|struct|int)\b[^;{=]*?(\w+)(?:\(| \{)", host, re.M))
    functions = {
        name for name in own if re.search(rf"\b{name}\s*\([^;]*?\)\s*\{{|\bstruct\s+{name}\b", kernel.everything)
    }
    taken = sorted(macros & set(re.findall(r"\w+", without_comments(host))) | functions)
    if "main" in taken:
        raise CommandError(f"{shown(kernel.path)} has a main function: it is already a complete program")
    if taken:
        raise CommandError(f"{shown(kernel.path)} gives the name {taken[0]} a meaning that main.cu needs: rename yours")
