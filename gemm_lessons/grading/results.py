"""The results of grading: one ``Grade`` for each student and lesson, and one ``Grading`` for the whole run.

    OUT/grading.json                    lessons, students in order, rubric, seed, versions      gemm-lessons/grading/1
    OUT/results/STUDENT/NN_name.json    one grade                                               gemm-lessons/grade/1

Each file is written under a temporary name, flushed to the disk and renamed, so after Ctrl-C or a power cut it is
either complete or absent. There is no journal: a grade is valid as long as its ``key`` matches the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from gemm_lessons.course import CommandError, ReadError, shown, write_atomically, writing
from gemm_lessons.engine.records import dataclass
from gemm_lessons.running import JSON

GRADE_SCHEMA = "gemm-lessons/grade/1"
GRADING_SCHEMA = "gemm-lessons/grading/1"
LONGEST_NAME = 100  # bytes of a folder's name; file systems allow 255, and a suffix may follow
PLAIN = "-_.@+=,()"

GradeStatus = Literal["graded", "missing", "unreadable", "refused", "unsupported", "kit_error"]
# Fields of a grade as stored, in this order; older files lack the last ones.
STORED_GRADE = (
    "student", "name", "lesson", "file", "sha256", "status", "points", "out_of", "parts", "verdict", "message",
    "outcome", "case", "versions", "lesson_hash", "seconds", "key", "passes", "look_at",
)  # fmt: skip
LATER = ("key", "passes", "look_at")
NOT_JUDGED: tuple[GradeStatus, ...] = ("unsupported", "kit_error")  # not the student's fault


@dataclass(frozen=True)
class GradePart:
    """A part of a lesson's points. Students may read ``why``: it reveals neither hidden inputs nor the solution."""

    name: str
    points: float
    out_of: float
    passed: bool
    why: str


@dataclass(frozen=True)
class Case:
    """The inputs that a submission was judged on. For the teacher only; ``grade --again`` repeats them."""

    seed: int
    count_shapes: tuple[tuple[int, int, int], ...] = ()
    check_shapes: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Grade:
    """The grade of one student for one lesson."""

    student: str
    lesson: str
    status: GradeStatus
    points: float
    out_of: float
    message: str  # one line for the student
    name: str | None = None
    file: str | None = None  # path inside the submission
    sha256: str | None = None  # hash of the judged source
    parts: tuple[GradePart, ...] = ()
    verdict: str | None = None
    outcome: Mapping[str, JSON] | None = None  # the JSON object of run --json
    case: Case = field(default_factory=lambda: Case(0))
    versions: Mapping[str, str] = field(default_factory=dict)
    lesson_hash: str = ""
    seconds: float = 0.0
    key: str = ""  # hash of everything that decides the outcome; the same key needs no new judging
    passes: str = ""  # another lesson that the kernel passes, where it does not pass its own
    penalty: float = 0.0  # points taken by a decision of the teacher, already subtracted from ``points``; not stored
    # For the teacher: gates that could not be judged, the reference, a kernel of another lesson.
    look_at: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Tell whether the kit was able to judge the submission."""
        return self.status not in NOT_JUDGED

    def as_json(self) -> dict[str, JSON]:
        """Return the JSON object of ``OUT/results/STUDENT/NN_name.json``."""
        stored = {name: getattr(self, name) for name in STORED_GRADE}
        made = {"parts": [asdict(it) for it in self.parts], "case": asdict(self.case)}
        return {"schema": GRADE_SCHEMA, **stored, **made}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Grade:
        """Parse an object of ``as_json``. Raises ``ValueError`` if it is malformed or has another schema."""
        with _stored(raw, GRADE_SCHEMA):
            if raw["status"] not in get_args(GradeStatus):
                raise ValueError(f"its status is {raw['status']!r}")
            given = {name: raw[name] for name in STORED_GRADE if name in raw or name not in LATER}
            given |= {name: float(raw[name]) for name in ("points", "out_of", "seconds")}
            given["parts"] = tuple(
                GradePart(it["name"], float(it["points"]), float(it["out_of"]), it["passed"], it["why"])
                for it in raw["parts"]
            )
            shapes = (tuple(map(_shape, raw["case"][name])) for name in ("count_shapes", "check_shapes"))
            given["case"] = Case(raw["case"]["seed"], *shapes)
            given["look_at"] = tuple(raw.get("look_at", ()))
            return cls(**given)


def _shape(sizes: Sequence[int]) -> tuple[int, int, int]:
    m, n, k = sizes
    return m, n, k


NOT_GRADED = "was not graded"  # of a file, in remarks


@dataclass(frozen=True)
class GradedStudent:
    """A student of a grading run. ``roster`` holds the extra columns of the class list."""

    id: str
    name: str | None = None
    email: str | None = None
    roster: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # about the whole submission: which files were refused, and why

    @property
    def folder(self) -> str:
        """Return the name of the folder of this student's results."""
        return folder_name(self.id)

    @property
    def ungraded_files(self) -> int:
        """Return the number of files that were not graded."""
        return sum(NOT_GRADED in it for it in self.remarks)


@dataclass(frozen=True)
class Grading:
    """A grading run without its grades."""

    lessons: tuple[str, ...]
    students: tuple[GradedStudent, ...]
    rubric: Mapping[str, JSON]
    seed: int
    versions: Mapping[str, str]
    lesson_hashes: Mapping[str, str]
    shard: tuple[int, int] | None = None  # (3, 10) is the third of ten shards
    remarks: tuple[str, ...] = ()  # about the folder of submissions

    def as_json(self) -> dict[str, JSON]:
        """Return the JSON object of ``OUT/grading.json``."""
        students = [{**asdict(it), "results": f"results/{it.folder}"} for it in self.students]
        stored = {it.name: getattr(self, it.name) for it in fields(self)}
        return {"schema": GRADING_SCHEMA, **stored, "students": students}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Grading:
        """Parse an object of ``as_json``. Raises ``ValueError`` if it is malformed or has another schema."""
        with _stored(raw, GRADING_SCHEMA):
            given = {it.name: raw[it.name] for it in fields(cls)}
            given |= {name: tuple(raw[name]) for name in ("lessons", "remarks")}
            given["students"] = tuple(
                GradedStudent(it["id"], it["name"], it["email"], it["roster"], tuple(it["remarks"]))
                for it in raw["students"]
            )
            given["shard"] = None if raw["shard"] is None else (raw["shard"][0], raw["shard"][1])
            return cls(**given)


@contextmanager
def _stored(raw: Mapping[str, Any], schema: str) -> Iterator[None]:
    """Raise ``ValueError`` if a stored object has another schema, or lacks what this block reads from it."""
    if raw.get("schema") != schema:
        raise ValueError(f"its schema is {raw.get('schema')!r}, not {schema!r}")
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{error} is not as it should be") from None


def folder_name(student: str) -> str:
    """Return a unique folder name for a student: letters of every script are kept, a space becomes %20."""
    name = "".join(letter if letter.isalnum() or letter in PLAIN else _quoted(letter) for letter in student)
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    whole = name.encode()
    if len(whole) > LONGEST_NAME:
        from hashlib import sha256

        start = whole[: LONGEST_NAME - 17].decode(errors="ignore")
        name = f"{start}~{sha256(whole).hexdigest()[:16]}"
    return name


def _quoted(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode(errors="surrogatepass"))


def grade_path(out: Path, student: str, lesson: str) -> Path:
    """Return the path of a grade."""
    return out / "results" / folder_name(student) / f"{lesson}.json"


def save_grade(out: Path, grade: Grade) -> None:
    """Write a grade durably. Raises ``WriteError``."""
    write_durably(grade_path(out, grade.student, grade.lesson), grade.as_json())


def save_grading(out: Path, grading: Grading) -> None:
    """Write the record of a run durably. Raises ``WriteError``."""
    write_durably(out / "grading.json", grading.as_json())


def load_grade(out: Path, student: str, lesson: str) -> Grade | None:
    """Load a grade of an earlier run; None if it is missing or unreadable, so that it is judged again."""
    path = grade_path(out, student, lesson)
    try:
        grade = Grade.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return grade if (grade.student, grade.lesson) == (student, lesson) else None


def load_grading(out: Path) -> Grading:
    """Load ``OUT/grading.json``. Raises ``CommandError`` if it is missing or unreadable."""
    path = out / "grading.json"
    try:
        return Grading.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise CommandError(f"{shown(path)}: no such file; {shown(out)} is not a folder of gemm-lessons grade") from None
    except OSError as error:
        raise ReadError(path, error) from None
    except (ValueError, AttributeError, RecursionError) as error:
        raise CommandError(f"{shown(path)}: not a record of gemm-lessons grade: {error}") from None


def load_grades(out: Path, grading: Grading) -> tuple[Grade, ...]:
    """Load all existing grades in the run's order of students, then of lessons."""
    found = (load_grade(out, student.id, lesson) for student in grading.students for lesson in grading.lessons)
    return tuple(grade for grade in found if grade is not None)


def write_durably(path: Path, content: Mapping[str, JSON]) -> None:
    """Replace a JSON file so that it is complete even after a power failure. Raises ``WriteError``."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode(errors="backslashreplace"), durably=True)
