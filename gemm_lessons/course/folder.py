"""A course folder: the location of lessons, the lesson that a name means, and the learner's own copies.

A course is any folder that holds ``lessons/NN_name/lesson.toml``: a checkout, a folder made by ``gemm-lessons init``,
or the read-only copy inside the installed package, which is the fallback. A learner's file is never overwritten: it is
first kept under a new name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gemm_lessons.course.course_toml import CourseFacts, load_architecture, load_course_toml, parts_of
from gemm_lessons.course.lesson import LESSON_NAME, CoursePart, Lesson, LessonError, LessonSummary
from gemm_lessons.course.summaries import summaries
from gemm_lessons.engine import KitError
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    from gemm_lessons.course.todos import TodoMark

IGNORED = """\
# what the kit keeps, and files that it has replaced
.gemm-lessons/
*.bak-*
# for clangd; names folders of one machine: gemm-lessons init . --editor
compile_commands.json
.cache/
"""
MAX_SOURCE_BYTES = 1_000_000  # a larger file is not a kernel
NO_COURSE = "there is no course folder here or above; make one: gemm-lessons init my-course && cd my-course"


class CommandError(Exception):
    """The command was wrong (exit code 2): the message says how and what to do instead."""


class ReadError(CommandError):
    """A file or folder that the command names cannot be read: the message says which and why."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{shown(path)}: cannot be read: {reason(error)}")


class NotText(CommandError):
    """A file that can be read but not compiled; in a kernel, this is its author's mistake."""

    def __init__(self, path: Path, why: str, line: int | None = None) -> None:
        super().__init__(f"{shown(path)}:{line}: {why}" if line else f"{shown(path)} {why}")
        self.why = why if line else f"the file {why}"
        self.line = line or 1


class WriteError(KitError):
    """A file or folder cannot be written (exit code 3): the message says which and why."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.reason = reason(error)
        super().__init__(f"{shown(path)}: cannot be written: {self.reason}; nothing of yours was changed")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an ``OSError`` of this block as a ``WriteError`` of ``path``."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, error) from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise an ``OSError`` of this block as a ``ReadError`` of ``path``."""
    try:
        yield
    except OSError as error:
        raise ReadError(path, error) from None


def reason(error: OSError) -> str:
    """Return the system's words for an error in lower case; for a copy of a tree, those of the first that failed."""
    words = error.strerror or str(error)
    if isinstance(error, shutil.Error):
        words = re.sub(r"^\[Errno \d+\] |: '.*", "", str(error.args[0][0][2]))
    return words.lower()


@dataclass(frozen=True)
class Started:
    """The result of ``start``: the learner's file, whether it is new, and the TODOs still marked in it."""

    lesson: Lesson
    path: Path
    created: bool
    todos: tuple[TodoMark, ...]


@dataclass(frozen=True)
class Reset:
    """The result of ``reset``. ``backup`` is the new place of the old file, ``None`` when there was nothing to keep."""

    path: Path
    backup: Path | None


@dataclass(frozen=True)
class Course:
    """A folder with lessons. ``packaged`` marks the read-only copy of the installed package."""

    root: Path
    packaged: bool = False

    @property
    def lessons_dir(self) -> Path:
        """Return the folder that holds the lessons' folders."""
        return self.root / "lessons"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the lessons' folder names, in order."""
        with reading(self.lessons_dir):
            entries = list(self.lessons_dir.iterdir())
        return tuple(sorted(entry.name for entry in entries if LESSON_NAME.fullmatch(entry.name) and entry.is_dir()))

    def named(self, name: str) -> str | None:
        """Return the folder of the lesson of this name, without its number; None where there is none."""
        return next((it for it in self.names if it[3:] == name), None)

    @cached_property
    def facts(self) -> CourseFacts:
        """Return the parts and former names of course.toml. Raise ``LessonError``."""
        return load_course_toml(self.lessons_dir)

    @cached_property
    def architecture(self) -> str:
        """Return the architecture of counters and gates, such as ``sm_90``. Raise ``LessonError``."""
        return load_architecture(self.lessons_dir)

    def architecture_of(self, lesson: Lesson) -> str:
        """Return the architecture to count a lesson's kernels for: its own, or the course's. Raise ``LessonError``."""
        return lesson.architecture or self.architecture

    @property
    def parts(self) -> tuple[CoursePart, ...]:
        """Return the parts of the course, each with its lessons, in order. Raise ``LessonError``."""
        return parts_of(self.facts, self.names)

    def part_of(self, name: str) -> CoursePart | None:
        """Return the part of a lesson; None for a lesson of no part. Raise ``LessonError``."""
        return next((part for part in self.parts if part.number and name in part.names), None)

    def part_that_begins_with(self, name: str) -> CoursePart | None:
        """Return the part whose first lesson this is, if any. Raise ``LessonError``."""
        part = self.part_of(name)
        return part if part and part.names[0] == name else None

    def resolve(self, query: str) -> str:
        """Return the lesson that ``03``, ``3``, ``block_tile``, ``03_block_tile`` or a path into its folder means.

        Raise ``CommandError``, with a suggestion where a name is similar.
        """
        parts = [part for part in re.split(r"[/\\]", query.strip()) if part]
        word = next((part for part in parts if part in self.names), parts[-1] if parts else "")
        digits = word.isascii() and word.isdigit()
        found = [name for name in self.names if word in (name, name[3:]) or (digits and int(name[:2]) == int(word))]
        if len(found) == 1:
            return found[0]
        if found:
            raise CommandError(f'"{query}" can be {" or ".join(found)}; name the one that you mean')
        if digits:
            numbers = f"{self.names[0][:2]} to {self.names[-1][:2]}" if self.names else "none"
            raise CommandError(f'there is no lesson "{query}"; the course has {numbers}: gemm-lessons list')
        from gemm_lessons.engine.records import closest

        near = closest(word, [name[3:] for name in self.names]) or closest(word, self.names)
        meant = next((name for name in self.names if near in (name, name[3:])), None)
        path, remedy = Path(query), f"did you mean {meant}?" if meant else "see the list: gemm-lessons list"
        if path.is_file():
            remedy = "a file with a kernel ends in .cu, .cuh or .ptx"
        elif not meant and re.search(r"[/\\]", query):
            remedy = "that folder has none" if path.is_dir() else "nor is there such a file"
        raise CommandError(f'there is no lesson "{query}"; {remedy}')

    def all_lessons(self) -> dict[str, Lesson | LessonError]:
        """Read every lesson; an error is in the place of one that cannot be read."""
        found: dict[str, Lesson | LessonError] = {}
        for name in self.names:
            try:
                found[name] = _load(self.lessons_dir / name)
            except LessonError as error:
                found[name] = error
        return found

    def summaries(self) -> dict[str, LessonSummary | LessonError]:
        """Summarise every lesson; an error is in the place of one that cannot be read."""
        return summaries(self.lessons_dir, self.names)

    def lesson(self, query: str) -> Lesson:
        """Resolve and read a lesson. Raise ``CommandError`` or ``LessonError``."""
        return _load(self.lessons_dir / self.resolve(query))

    def neighbour(self, lesson: Lesson, step: int) -> str | None:
        """Return the name of the lesson before (-1) or after (+1) this one, ``None`` at the ends."""
        at = self.names.index(lesson.name) + step
        return self.names[at] if 0 <= at < len(self.names) else None

    def start_of(self, lesson: Lesson) -> str | None:
        """Return the name of the lesson whose solution this one improves: the previous one, unless the lesson names
        another. None where only one of the two multiplies matrices. Raise ``LessonError``."""
        name = self.named(lesson.starts_from) or self.neighbour(lesson, -1)
        if name is None or self.lesson(name).data.multiplies != lesson.data.multiplies:
            return None
        return name

    def attacked_by(self, lesson: Lesson, limiter: str) -> Lesson | None:
        """Return the first later lesson that attacks what limits a kernel of ``lesson``, for numbers of the same types.
        A lesson whose folder is broken is passed over."""
        types = [factor.element for factor in lesson.data.factors]
        for name in self.names[self.names.index(lesson.name) + 1 :] if lesson.name in self.names else ():
            with contextlib.suppress(LessonError, OSError, UnicodeError):
                directory = self.lessons_dir / name
                if limiter not in (directory / "lesson.toml").read_text(encoding="utf-8"):
                    continue  # much faster than reading all its keys
                other = _load(directory)
                if limiter in other.attacks and [factor.element for factor in other.data.factors] == types:
                    return other
        return None

    def solution(self, lesson: Lesson) -> Path | None:
        """Return the reference for a lesson, ``None`` where there is none."""
        path = self.kept_back(lesson, "solution.cu")
        return path if path.is_file() else None

    def kept_back(self, lesson: Lesson, name: str) -> Path:
        """Return a file that learners' folders lack: the lesson's own, else the package's. It may be missing."""
        own = lesson.directory / name
        if own.is_file():  # where a submission is judged, the package's folder of lessons cannot be listed
            return own
        package = packaged_course()
        return package.lessons_dir / (package.named(lesson.name[3:]) or lesson.name) / name


def _load(directory: Path) -> Lesson:
    from gemm_lessons.course.lesson_toml import load_lesson  # imported late: list and completion read no lesson

    return load_lesson(directory)


def packaged_course() -> Course:
    """Return the package's lessons: inside the wheel, or beside the package in a checkout."""
    here = Path(__file__).resolve().parents[1]
    for root in (here, here.parent):
        if _is_course(root):
            return Course(root, packaged=True)
    raise KitError(
        f"the installed package holds no lessons (looked in {here}); install it again: pip install gemm-lessons"
    )


def find_course(start: Path | None = None) -> Course | None:
    """Return the nearest course folder at or above ``start`` (default: the current folder), or ``None``."""
    try:
        start = Path.cwd() if start is None else start.resolve()
    except OSError:
        raise CommandError("the current folder no longer exists; go to another one") from None
    return next((Course(folder) for folder in (start, *start.parents) if _is_course(folder)), None)


def own_course() -> Course:
    """Return the learner's course folder. Raises ``CommandError`` when there is none."""
    course = find_course()
    if course is None:
        raise CommandError(NO_COURSE)
    return course


def any_course() -> Course:
    """Return the learner's course folder, else the packaged one, which suffices to read and to run references."""
    return find_course() or packaged_course()


def start_lesson(lesson: Lesson) -> Started:
    """Make ``kernel.cu`` from the stub; keep an existing one unchanged."""
    path = lesson.kernel_path
    stub = read_bytes(lesson.stub_path)
    try:
        write_new(path, stub)
        created = True
    except FileExistsError:
        created = False
    from gemm_lessons.course.todos import todo_marks  # imported late: only for a lesson that is started

    return Started(lesson, path, created, todo_marks(read_source(path)))


def reset_lesson(lesson: Lesson) -> Reset:
    """Restore the stub as ``kernel.cu``; move the old file to the next free ``kernel.cu.bak-N``."""
    path = lesson.kernel_path
    stub = read_bytes(lesson.stub_path)
    if path.exists() and not path.is_dir() and read_bytes(path) == stub:
        return Reset(path, None)
    return replace_with_backup(path, stub)


def replace_with_backup(path: Path, data: bytes) -> Reset:
    """Write ``data`` to a learner's file; move the old contents to the next free ``NAME.bak-N``."""
    if path.is_dir():
        raise CommandError(f"{shown(path)} is a folder; move it away, then try again")
    backup = _back_up(path, read_bytes(path)) if path.exists() else None
    write_atomically(path, data)
    return Reset(path, backup)


def init_course(directory: Path) -> Course:
    """Copy the packaged course, without solutions, to ``directory``: all of it or nothing. Raise ``CommandError``."""
    with writing(directory):  # such as a name that is too long
        other = directory.exists() and not directory.is_dir()
    if other:
        raise CommandError(f"{shown(directory)} is a file; name a folder")
    if (directory / "lessons").exists():
        raise CommandError(f"{shown(directory)} already has a lessons folder; nothing was changed")
    source = packaged_course()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".lessons-") as scratch:
            copy = Path(scratch) / "lessons"
            copy_for_learners(source, copy)
            copy.rename(directory / "lessons")
        ignore = directory / ".gitignore"
        if not ignore.exists():
            write_atomically(ignore, IGNORED.encode())
    except OSError as error:
        raise WriteError(Path(error.filename or directory), error) from None
    return Course(directory)


def copy_for_learners(source: Course, lessons: Path) -> None:
    """Copy a course's lessons without their solutions, writable. Raise ``OSError``."""
    shutil.copytree(source.lessons_dir, lessons, ignore=lambda _, names: set(names) - for_learners(names))
    for folder, _, files in os.walk(lessons):  # a read-only package must not make a read-only course
        Path(folder).chmod(0o755)
        for name in files:
            (Path(folder) / name).chmod(0o644)


def read_source(path: Path) -> str:
    """Return a kernel file as text. Raises ``CommandError`` when it is missing or unreadable, ``NotText`` when it is
    empty, too large or no text."""
    return text_of(path, read_bytes(path, MAX_SOURCE_BYTES + 1))


def text_of(path: Path, raw: bytes) -> str:
    """Decode the contents of a kernel file. Raise ``NotText``."""
    if len(raw) > MAX_SOURCE_BYTES:
        raise NotText(path, "is larger than a megabyte; a kernel is a text file of a few kilobytes")
    if not raw.strip():
        number = re.match(r"\d{2}(?=_)", path.parent.name) if path.name == "kernel.cu" else None
        raise NotText(path, "is empty" + (f"; to restore the stub: gemm-lessons reset {number[0]}" if number else ""))
    if path.suffix == ".ptx":
        raw = raw.rstrip(b"\0")  # some compilers also write the final byte of their C string
    what = "save it as UTF-8" if path.suffix == ".md" else "if it is CUDA C++ source, save it as UTF-8"
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text, bad = ("", error.start) if path.suffix == ".md" else _of_another_encoding(raw)
        if bad is not None:
            raise NotText(path, f"not UTF-8 text (byte {bad}); {what}", raw[:bad].count(b"\n") + 1) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise NotText(path, f"holds a zero byte; {what}", line)
    return text


def _of_another_encoding(raw: bytes) -> tuple[str, int | None]:
    """Return a source as a compiler reads it: comments hold any bytes, and strings keep theirs, as octal escapes. Also
    return the first byte elsewhere that is not ASCII, or None."""
    from gemm_lessons.engine.compiler import tokens_of

    source, pieces, at = raw.decode("latin-1"), list[str](), 0
    for token in tokens_of(source):
        if token.text.isascii():
            continue
        text = token.text.encode("latin-1").decode("cp1252", "replace")
        if token.kind == "string" and token.text.startswith('"'):
            text = re.sub(r"[^\0-\x7f]", lambda it: f"\\{ord(it[0]):o}", token.text)
        elif token.kind != "comment":
            return "", token.start + next(i for i, letter in enumerate(token.text) if not letter.isascii())
        pieces += source[at : token.start], text
        at = token.end
    return "".join(pieces) + source[at:], None


def write_new(path: Path, data: bytes) -> None:
    """Make a file, whole or not at all, even if the disk is full. Raise ``FileExistsError`` and ``WriteError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # no hard links here: check for a file made in the same moment
            with path.open("xb"):
                temporary.replace(path)
    except FileExistsError:
        raise
    except OSError as error:
        raise WriteError(path, error) from None
    finally:
        if temporary.exists():  # a read-only file system refuses to remove what is not there, too
            temporary.unlink()


def write_atomically(path: Path, data: bytes, *, durably: bool = False) -> None:
    """Replace a file in one step, so that a crash or Ctrl-C leaves the old or the new one; with ``durably``, a power
    cut too. Raise ``WriteError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            temporary.write_bytes(data)
            if durably:
                _to_the_disk(temporary)
            temporary.replace(path)
            if durably:
                _to_the_disk(path.parent)  # the new name as well
    finally:
        if temporary.exists():
            temporary.unlink()


def _to_the_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def shown(path: Path) -> str:
    """Return a path as the user would type it: relative to the current folder if it is below, else absolute."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # before Python 3.13, a link cycle raises the last one
        return str(path)


def _is_course(root: Path) -> bool:
    try:
        return any(LESSON_NAME.fullmatch(toml.parent.name) for toml in (root / "lessons").glob("*/lesson.toml"))
    except OSError:
        return False


def for_learners(names: Sequence[str]) -> set[str]:
    """Return the names in a lesson's folder that a learner's course has too: no solutions, no learner's own files."""
    return {name for name in names if not name.startswith(("solution", "pitfalls", "kernel.cu", "bug.cu", ".", "__"))}


def _back_up(path: Path, data: bytes) -> Path:
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak-{number}")
        try:
            write_new(backup, data)
        except FileExistsError:
            number += 1
        else:
            return backup


def read_bytes(path: Path, limit: int = -1) -> bytes:
    """Return at most ``limit`` bytes of a file as it is. Raises ``CommandError`` when it is missing or unreadable."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # reading a pipe or a device may never end
            raise CommandError(f"{shown(path)} is not a regular file; save the kernel in a file first")
        with path.open("rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        if path.name in ("stub.cu", "README.md"):
            raise LessonError(
                f"{path}: not found; gemm-lessons reset --all puts back what came with the course"
            ) from None
        raise CommandError(f"{shown(path)}: no such file") from None
    except IsADirectoryError:
        raise CommandError(f"{shown(path)} is a folder; name the kernel file in it") from None
    except OSError as error:
        raise ReadError(path, error) from None
