"""Read a folder of submissions: each student's kernel of every lesson, or the reason why there is none.

    find_students(folder, lessons, roster)  -->  [Student(id, name, where)] --read_student--> {lesson: LessonSubmission}

A student's submission is a folder in any layout, an archive, or loose files whose names identify the student
(``naming.py``). Kernels are taken, together with the student's own headers that are in the same folder and included.
Other files, such as lesson.toml, progress or another matrix.cuh, are ignored: the teacher's lesson judges.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from gemm_lessons.course import CommandError, Course, Lesson, ReadError, shown
from gemm_lessons.engine.compiler import included_names
from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.archives import (
    SubmittedFile,
    SubmittedFiles,
    is_archive,
    is_source,
    printable,
    read_archive,
    read_file,
    read_folder,
    stem_of_archive,
)
from gemm_lessons.grading.lesson_names import Certainty
from gemm_lessons.grading.naming import Claim, Owner, claim, owner_of, said_of_stem
from gemm_lessons.grading.results import NOT_GRADED, GradedStudent, GradeStatus
from gemm_lessons.grading.roster import Roster

MOST_HEADERS = 50  # headers of one kernel
MOST_STRAYS = 3  # stray kernels that a remark names
MOST_NAMED = 20  # students that a remark names
MISSING = "nothing was handed in for this lesson"


@dataclass(frozen=True)
class Piece:
    """A part of a student's submission: a path, and for a loose file its original name."""

    path: Path
    file: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Student:
    """A student to be graded, and the paths of the submission."""

    record: GradedStudent
    parts: tuple[Piece, ...] = ()

    @property
    def id(self) -> str:
        """Return the id that names the student's results."""
        return self.record.id


@dataclass(frozen=True)
class Submissions:
    """The students of the class in the order of ids."""

    students: tuple[Student, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class LessonSubmission:
    """A student's submission for one lesson. ``status`` is "graded" if there is a kernel to judge."""

    lesson: str
    status: GradeStatus
    message: str = ""
    file: str | None = None
    data: bytes = b""
    headers: Mapping[str, bytes] = field(default_factory=dict)  # the student's own headers, in the kernel's folder

    @property
    def sha256(self) -> str | None:
        """Return the hash of the kernel's bytes; None if there is none to judge."""
        return hashlib.sha256(self.data).hexdigest() if self.status == "graded" else None


def find_students(folder: Path, lessons: Sequence[str], roster: Roster | None = None) -> Submissions:
    """Return all students with an entry in the folder or in the roster. Raises ``CommandError``."""
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
                remarks.append(f"{printable(entry.name)} belongs to no student and {NOT_GRADED}")
            continue
        owner, part = found
        owned.setdefault(replace(owner, file=""), []).append(part)
    if not owned and roster is None:
        hint = "; if it is the work of one student, say whose: --student NAME" if kernels else ""
        raise CommandError(f"{shown(folder)} contains no student's folder or archive{hint}")
    if lone := _is_one_course(folder, owned) or _is_one_student(folder, owned, lessons):
        raise CommandError(lone)
    students = _students(owned, roster)
    return Submissions(students, (*_not_enrolled(students, roster), *remarks))


def one_student(folder: Path, name: str, roster: Roster | None = None) -> Submissions:
    """Return the submission of one student, from a folder or an archive. Raises ``CommandError``."""
    if not folder.exists():
        raise CommandError(f"{shown(folder)}: no such file or folder")
    enrolled = roster and Roster(tuple(it for it in (roster.find(name),) if it))
    students = _students({Owner(name): [Piece(folder)]}, enrolled)
    return Submissions(students, tuple(_not_enrolled(students, enrolled)))


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
    """Return one student for each owner: by the roster, else by name, with the platform's number if names clash."""
    named: dict[str, set[str]] = {}
    for owner in owned:
        named.setdefault(owner.name, set()).add(owner.number)
    parts: dict[str, list[Piece]] = {}
    listed = roster.students if roster else ()
    records = {it.id: GradedStudent(it.id, it.name, it.email, it.more) for it in listed}
    for owner, theirs in owned.items():
        enrolled = roster.find(owner.name, owner.number) if roster else None
        if enrolled is not None:
            id_ = enrolled.id
        else:
            id_ = f"{owner.name}_{owner.number}" if owner.number and len(named[owner.name]) > 1 else owner.name
            records.setdefault(id_, GradedStudent(id_))
        parts.setdefault(id_, []).extend(theirs)
    for id_ in records.keys() - parts.keys():
        parts[id_] = []
    return tuple(Student(records[id_], tuple(parts[id_])) for id_ in sorted(parts))


def _not_enrolled(students: Sequence[Student], roster: Roster | None) -> Iterator[str]:
    """Yield one line that names the students who are not in the class list."""
    known = {it.id for it in roster.students} if roster else set()
    others = [it.id for it in students if roster and it.id not in known]
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        yield f"not in the roster: {', '.join(others[:MOST_NAMED])}{more}"


def read_student(
    student: Student, lessons: Mapping[str, Lesson], names: Sequence[str]
) -> tuple[dict[str, LessonSubmission], tuple[str, ...]]:
    """Return a student's submission by lesson, and remarks. ``names``: all lessons that a file may belong to."""
    handed = SubmittedFiles()
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
            strays += [name] if name.lower().endswith(".cu") and not _is_from_course(name) else []
        elif not _is_of_the_course(file, lessons.get(found.lesson)):
            claims.setdefault(found.lesson, []).append(found)
    if len(lessons) == 1 and not lessons.keys() & claims.keys():
        (only,) = lessons
        taken = _take_the_only_one(handed, only, claims)
        strays = [name for name in strays if name != taken]
    _remark_on_strays(handed, strays, names)
    _remark_on_others(handed, lessons.keys() - claims.keys(), names)
    result = {name: _handed(handed, lesson, sorted(claims.get(name, ()))) for name, lesson in lessons.items()}
    return result, (*student.record.remarks, *handed.told())


def _read(part: Piece) -> SubmittedFiles:
    if part.refusal:
        text = f"{printable(part.path.name)}: refused: {part.refusal}"
        return SubmittedFiles(remarks=[text], broken=text, refused=True)
    if part.file and not is_archive(part.file):
        found = SubmittedFiles()
        found.keep(read_file(part.path, printable(part.file)))
        return found
    return read_folder(part.path) if part.path.is_dir() else read_archive(part.path)


def _kit_folders(handed: SubmittedFiles) -> tuple[str, ...]:
    """Return the folders of a course or of a clone of this kit whose files are not the student's work."""
    homes = {name.partition("lessons/")[0] for name in handed.files if re.match(r"(?:[^/]+/)*lessons/\d\d_", name)}
    return tuple(f"{home}{folder}/" for home in homes for folder in ("checks", "gemm_lessons", "lessons/common"))


def _take_the_only_one(handed: SubmittedFiles, lesson: str, claims: dict[str, list[Claim]]) -> str:
    """Claim a single kernel for a single lesson, whatever its name. Return its name, or an empty string."""
    own = [name for name in handed.files if name.lower().endswith(".cu") and not _is_from_course(name)]
    if len(own) == 1 and not claims:
        claims[lesson] = [Claim(2, 0, own[0].count("/"), 0, own[0], lesson)]
        handed.remark(f"{own[0]} does not say which lesson it is for; it was taken as lesson {lesson}")
        return own[0]
    return ""


def _is_of_the_course(file: SubmittedFile, lesson: Lesson | None) -> bool:
    """Return whether the lesson's folder holds the same file, so that it is not the student's work."""
    own = posixpath.basename(file.name)
    if lesson is None or own == lesson.kernel_path.name:
        return False
    try:
        return _normal(file.data) == _normal((lesson.directory / own).read_bytes())
    except (OSError, ValueError):
        return False


def _remark_on_strays(handed: SubmittedFiles, strays: Sequence[str], names: Sequence[str]) -> None:
    """Add a remark that names the kernels whose lesson is unknown, for the teacher to sort out."""
    for name in strays[:MOST_STRAYS]:
        said = said_of_stem(posixpath.splitext(posixpath.basename(name))[0], names).lessons
        several = f"its name gives lessons {' and '.join(said)}; which one is it?"
        none = "its name must give a lesson, like 03.cu or 03_block_tile.cu"
        handed.remark(f"{name} {NOT_GRADED}: {several if said else none}")
    if len(strays) > MOST_STRAYS:
        handed.remark(f"and {len(strays) - MOST_STRAYS} more .cu files whose names do not give a lesson")


def _remark_on_others(handed: SubmittedFiles, missing: Collection[str], names: Sequence[str]) -> None:
    """Add a remark about files that are named for a missing lesson, and not as sources: 03.docx, naive.cu.bak."""
    for name in handed.others:
        stem, ending = posixpath.splitext(posixpath.basename(name))
        said = said_of_stem(stem.removesuffix(".cu"), names)
        if said.lesson in missing and said.certainty > Certainty.DIGIT:
            ends = f"ends in {ending}" if ending else "has no ending"
            handed.remark(f"{name} {NOT_GRADED}: its name {ends}; that of a kernel ends in .cu")


def _is_from_course(name: str) -> bool:
    """Return whether a file of this name comes with the course."""
    return posixpath.basename(name).lower() in ("stub.cu", "solution.cu", "bug.cu", "first.cu")


def _handed(handed: SubmittedFiles, lesson: Lesson, claims: Sequence[Claim]) -> LessonSubmission:
    """Choose the best of the files that may be this lesson's kernel, preferably readable and not the untouched stub."""
    files = [handed.files[claim.name] for claim in claims]
    if not files:
        why = f"{MISSING} ({handed.broken})" if handed.broken else MISSING
        none: GradeStatus = "missing" if not handed.broken else "refused" if handed.refused else "unreadable"
        return LessonSubmission(lesson.name, none, why)
    readable = [file for file in files if not file.refusal]
    if not readable:
        first = files[0]
        status: GradeStatus = "unreadable" if first.unreadable else "refused"
        return LessonSubmission(lesson.name, status, f"{first.name}: {first.refusal}", first.name)
    filled = [file for file in readable if file.data.strip() and not is_stub(file.data, lesson)]
    chosen = filled[0] if filled else readable[0]
    others = [file for file in filled if _normal(file.data) != _normal(chosen.data)]
    if others:
        names = ", ".join(file.name for file in others[:3])
        handed.remark(f"lesson {lesson.name}: of several files {chosen.name} was graded, not {names}")
    return LessonSubmission(lesson.name, "graded", "", chosen.name, chosen.data, _headers(handed, lesson, chosen))


def is_stub(data: bytes, lesson: Lesson) -> bool:
    """Return whether a file is the lesson's unchanged stub."""
    try:
        return _normal(data) == _normal(lesson.stub_path.read_bytes())
    except OSError:
        return False


def _normal(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").strip()


def _headers(handed: SubmittedFiles, lesson: Lesson, kernel: SubmittedFile) -> dict[str, bytes]:
    """Return the student's files in the kernel's folder that the kernel includes, directly or indirectly. Files whose
    name the course uses, or that could be taken for the kernel, are left out."""
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
                handed.remark(f"{file.name} was ignored: lessons have their own {name}")
                continue
            taken[name] = file.data
            waiting.append(file.data)
    return dict(sorted(taken.items()))
