"""A folder of submissions -> students, each with the kernel of every lesson, or with the reason why there is none.

    find_students(folder, lessons, roster)  -->  [Student(id, name, where)]  --read_student-->  {lesson: Handed}

A student's part is a folder in any layout, an archive, or loose files whose names say whose they are (``naming.py``).
Kernels are taken, and headers of the student's own that lie beside one and are included by it. What else a submission
brings along, as lesson.toml, progress or another matrix.cuh, takes no part: the lesson that judges is the teacher's.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from gemm_lessons.course.folder import CommandError, Course, ReadError, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.source import included_names
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.grading.archives import (
    HandedFile,
    HandIn,
    is_archive,
    is_source,
    printable,
    read_archive,
    read_file,
    read_folder,
    stem_of_archive,
)
from gemm_lessons.grading.naming import Claim, Owner, claim, owner_of
from gemm_lessons.grading.results import GradedStudent, GradeStatus
from gemm_lessons.grading.roster import Enrolled, Roster

MOST_HEADERS = 50  # of one kernel
MOST_STRAYS = 3  # that are named
MISSING = "nothing was handed in for this lesson"


@dataclass(frozen=True)
class Piece:
    """A piece of somebody's submission: a path, and for a loose file the name that it was handed in under."""

    path: Path
    file: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Student:
    """Somebody who is to be graded, and where their work lies."""

    record: GradedStudent
    parts: tuple[Piece, ...] = ()

    @property
    def id(self) -> str:
        """What results are filed under."""
        return self.record.id


@dataclass(frozen=True)
class Submissions:
    """The class, in the order of ids."""

    students: tuple[Student, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Handed:
    """What a student handed in for a lesson. ``status`` is "graded" where there is something to judge."""

    lesson: str
    status: GradeStatus
    message: str = ""
    file: str | None = None
    data: bytes = b""
    headers: Mapping[str, bytes] = field(default_factory=dict)  # of the student's own, beside the kernel

    @property
    def sha256(self) -> str | None:
        """Of the kernel's bytes."""
        return hashlib.sha256(self.data).hexdigest() if self.status == "graded" else None


def find_students(folder: Path, lessons: Sequence[str], roster: Roster | None = None) -> Submissions:
    """Everybody with an entry in the folder, and everybody in the roster. Raises ``CommandError``."""
    try:
        entries = sorted(os.scandir(folder), key=lambda it: os.fsencode(it.name))
    except NotADirectoryError:
        hint = f"unpack it into a folder first, and name that: {shown(folder)}" if is_archive(folder.name) else ""
        raise CommandError(hint or f"{shown(folder)} is a file; name the folder with a folder per student") from None
    except OSError as error:
        raise ReadError(folder, error) from None
    owned: dict[Owner, list[Piece]] = {}
    remarks: list[str] = []
    kernels = 0
    for entry in entries:
        found = None if entry.name.startswith(".") or entry.name == "__MACOSX" else _owned(entry, lessons)
        if found is None:
            if is_source(entry.name) and claim(entry.name, lessons):
                kernels += 1
            if not entry.name.startswith(".") and not entry.name.lower().endswith((".csv", ".toml")):
                remarks.append(f"{printable(entry.name)} belongs to no student and was not graded")
            continue
        owner, part = found
        owned.setdefault(replace(owner, file=""), []).append(part)
    if not owned and roster is None:
        hint = "; if it is the work of one student, say whose: --student NAME" if kernels else ""
        raise CommandError(f"{shown(folder)} holds no folder or archive of a student{hint}")
    if lone := _is_one_course(folder, owned) or _is_one_student(folder, owned, lessons):
        raise CommandError(lone)
    return Submissions(_students(owned, roster), tuple(remarks))


def one_student(folder: Path, name: str, roster: Roster | None = None) -> Submissions:
    """A folder or archive that is one student's. Raises ``CommandError``."""
    if not folder.exists():
        raise CommandError(f"{shown(folder)}: no such file or folder")
    return Submissions(_students({Owner(name): [Piece(folder)]}, roster and Roster(
        tuple(it for it in (roster.find(name),) if it))))  # fmt: skip


def _is_one_course(folder: Path, owned: Mapping[Owner, object]) -> str:
    if (folder / "lessons").is_dir() and Course(folder).names and {owner.name for owner in owned} & {"lessons"}:
        return f"{shown(folder)} is a course folder, not a folder of submissions; is it one student's? --student NAME"
    return ""


def _is_one_student(folder: Path, owned: Mapping[Owner, object], lessons: Sequence[str]) -> str:
    known = {*lessons, *(lesson.partition("_")[2] for lesson in lessons)}
    if owned and all(owner.name in known for owner in owned):
        return f"{shown(folder)} holds folders of lessons, not of students; is it one student's? --student NAME"
    return ""


def _owned(entry: os.DirEntry[str], lessons: Sequence[str]) -> tuple[Owner, Piece] | None:
    path = Path(entry.path)
    if entry.is_symlink():
        owner = owner_of(_name(entry.name), lessons)
        return (owner, Piece(path, refusal="it is a link; give the folder or file itself")) if owner else None
    if entry.is_dir(follow_symlinks=False):
        owner = owner_of(_name(entry.name))
        return (owner, Piece(path)) if owner else None
    if is_archive(entry.name):
        owner = owner_of(_name(entry.name), lessons, loose=True)
        return (
            (owner, Piece(path)) if owner and owner.number else (Owner(_name(stem_of_archive(entry.name))), Piece(path))
        )
    if is_source(entry.name) and stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
        owner = owner_of(_name(entry.name), lessons, loose=True)
        return (owner, Piece(path, owner.file)) if owner else None
    return None


def _name(raw: str) -> str:
    return printable(raw).strip() or "unnamed"


def _students(owned: Mapping[Owner, Sequence[Piece]], roster: Roster | None) -> tuple[Student, ...]:
    """One student for each owner: by the roster, else by name, and with the platform's number where names clash."""
    named: dict[str, set[str]] = {}
    for owner in owned:
        named.setdefault(owner.name, set()).add(owner.number)
    parts: dict[str, list[Piece]] = {}
    records: dict[str, GradedStudent] = {it.id: _record(it) for it in (roster.students if roster else ())}
    for owner, theirs in owned.items():
        enrolled = roster.find(owner.name, owner.number) if roster else None
        if enrolled is not None:
            id_ = enrolled.id
        else:
            id_ = f"{owner.name}_{owner.number}" if owner.number and len(named[owner.name]) > 1 else owner.name
            unknown = ("not in the roster",) if roster else ()
            records.setdefault(id_, GradedStudent(id_, remarks=unknown))
        parts.setdefault(id_, []).extend(theirs)
    for id_ in records.keys() - parts.keys():
        parts[id_] = []
    return tuple(Student(records[id_], tuple(parts[id_])) for id_ in sorted(parts))


def _record(enrolled: Enrolled) -> GradedStudent:
    return GradedStudent(enrolled.id, enrolled.name, enrolled.email, enrolled.more)


def read_student(
    student: Student, lessons: Mapping[str, Lesson], names: Sequence[str]
) -> tuple[dict[str, Handed], tuple[str, ...]]:
    """What a student handed in for each of ``lessons``, and remarks on the submission as a whole; ``names`` are all
    lessons that a file may be for."""
    handed = HandIn()
    for part in student.parts:
        handed.add(_read(part))
    claims: dict[str, list[Claim]] = {}
    strays: list[str] = []
    kit = _kit_folders(handed)
    for name, file in handed.files.items():
        if name.startswith(kit):
            continue
        found = claim(name, names)
        if found is None:
            strays += [name] if name.lower().endswith(".cu") and not _came_along(name) else []
        elif not _is_of_the_course(file, lessons.get(found.lesson)):
            claims.setdefault(found.lesson, []).append(found)
    if len(lessons) == 1 and not lessons.keys() & claims.keys():
        (only,) = lessons
        taken = _take_the_only_one(handed, only, claims)
        strays = [name for name in strays if name != taken]
    _tell_of_strays(handed, strays)
    result = {name: _handed(handed, lesson, sorted(claims.get(name, ()))) for name, lesson in lessons.items()}
    return result, (*student.record.remarks, *handed.told())


def _read(part: Piece) -> HandIn:
    if part.refusal:
        text = f"{printable(part.path.name)}: refused: {part.refusal}"
        return HandIn(remarks=[text], broken=text, refused=True)
    if part.file and not is_archive(part.file):
        found = HandIn()
        found.keep(read_file(part.path, printable(part.file)))
        return found
    return read_folder(part.path) if part.path.is_dir() else read_archive(part.path)


def _kit_folders(handed: HandIn) -> tuple[str, ...]:
    """In a course folder or a clone of this kit: the folders with files that are nobody's work."""
    homes = {name.partition("lessons/")[0] for name in handed.files if re.match(r"(?:[^/]+/)*lessons/\d\d_", name)}
    return tuple(f"{home}{folder}/" for home in homes for folder in ("checks", "gemm_lessons", "lessons/common"))


def _take_the_only_one(handed: HandIn, lesson: str, claims: dict[str, list[Claim]]) -> str:
    """One lesson, one kernel: it is that lesson's, whatever it is called. Its name, or nothing."""
    own = [name for name in handed.files if name.lower().endswith(".cu") and not _came_along(name)]
    if len(own) == 1 and not claims:
        claims[lesson] = [Claim(2, 0, own[0].count("/"), 0, own[0], lesson)]
        handed.remark(f"{own[0]} does not say which lesson it is for; it was taken as lesson {lesson}")
        return own[0]
    return ""


def _is_of_the_course(file: HandedFile, lesson: Lesson | None) -> bool:
    """Whether a file lies like this in the lesson's folder and is nobody's work, as ``kernel.cu`` is."""
    own = posixpath.basename(file.name)
    if lesson is None or own == lesson.kernel_path.name:
        return False
    try:
        return _normal(file.data) == _normal((lesson.directory / own).read_bytes())
    except (OSError, ValueError):
        return False


def _tell_of_strays(handed: HandIn, strays: Sequence[str]) -> None:
    """Kernels whose names say nothing: a teacher may know which lesson they are for."""
    for name in strays[:MOST_STRAYS]:
        handed.remark(f"{name} was not graded: its name says no lesson, as 03.cu or 03_block_tile.cu does")
    if len(strays) > MOST_STRAYS:
        handed.remark(f"and {len(strays) - MOST_STRAYS} more .cu files whose names say no lesson")


def _came_along(name: str) -> bool:
    """Whether a file by its name came with the course."""
    return posixpath.basename(name).lower() in ("stub.cu", "solution.cu", "bug.cu", "first.cu")


def _handed(handed: HandIn, lesson: Lesson, claims: Sequence[Claim]) -> Handed:
    """The best of the files that claim to be this lesson's kernel: one that can be read and is not the untouched
    stub, if there is one."""
    files = [handed.files[claim.name] for claim in claims]
    if not files:
        why = f"{MISSING} ({handed.broken})" if handed.broken else MISSING
        none: GradeStatus = "missing" if not handed.broken else "refused" if handed.refused else "unreadable"
        return Handed(lesson.name, none, why)
    readable = [file for file in files if not file.refusal]
    if not readable:
        first = files[0]
        status: GradeStatus = "unreadable" if first.unreadable else "refused"
        return Handed(lesson.name, status, f"{first.name}: {first.refusal}", first.name)
    filled = [file for file in readable if file.data.strip() and not is_stub(file.data, lesson)]
    chosen = filled[0] if filled else readable[0]
    others = [file for file in filled if _normal(file.data) != _normal(chosen.data)]
    if others:
        names = ", ".join(file.name for file in others[:3])
        handed.remark(f"lesson {lesson.name}: of several files {chosen.name} was graded, not {names}")
    return Handed(lesson.name, "graded", "", chosen.name, chosen.data, _headers(handed, lesson, chosen))


def is_stub(data: bytes, lesson: Lesson) -> bool:
    """Whether a file is the lesson's stub as it came."""
    try:
        return _normal(data) == _normal(lesson.stub_path.read_bytes())
    except OSError:
        return False


def _normal(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").strip()


def _headers(handed: HandIn, lesson: Lesson, kernel: HandedFile) -> dict[str, bytes]:
    """The student's own files that the kernel includes, directly or not, from its own folder; none whose name the
    course has, and none that would be taken for the kernel."""
    home = kernel.name.rpartition("/")[0]
    beside = {posixpath.basename(name): file for name, file in handed.files.items() if posixpath.dirname(name) == home}
    taken: dict[str, bytes] = {}
    waiting = [kernel.data]
    while waiting and len(taken) < MOST_HEADERS:
        text = waiting.pop().decode("utf-8", errors="replace")
        for name, _ in included_names(text) or ():
            file = beside.get(name)
            if file is None or file.refusal or name in (*taken, "kernel.cu") or file is kernel:
                continue
            if any((folder / name).exists() for folder in lesson.include_dirs):
                handed.remark(f"{file.name} took no part: lessons have their own {name}")
                continue
            taken[name] = file.data
            waiting.append(file.data)
    return dict(sorted(taken.items()))
