"""Grade a class: keep the grades that are still valid and judge the other submissions, in any order.

    Assignment --Classroom.of--> Classroom --grade--> OUT/results/STUDENT/NN_name.json, one by one

There is no list of finished jobs. A grade is valid if its ``key`` equals that of the job that would be started now.
After Ctrl-C, a power cut, a corrected submission or a change of machine, grade again: only missing or changed grades
are judged.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from gemm_lessons.course import CommandError, Course, Lesson, shown, writing
from gemm_lessons.devices import Choice
from gemm_lessons.engine.process import files
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import astuple
from gemm_lessons.grading.executors import Executor
from gemm_lessons.grading.inputs import LessonSubmission, Student, Submissions, is_stub, read_student
from gemm_lessons.grading.judging import LARGEST, Job, Judged, as_utf8, judge, seed_for, versions
from gemm_lessons.grading.lesson_hash import lesson_hash
from gemm_lessons.grading.reference import reference_of
from gemm_lessons.grading.results import Case, Grade, Grading, load_grade, load_grading, save_grade, save_grading
from gemm_lessons.grading.rubric import LessonRubric, Rubric
from gemm_lessons.grading.score import out_of, score
from gemm_lessons.grading.sources import keep_source
from gemm_lessons.running import hidden_and_checked, hidden_and_counted

UNTOUCHED = "the stub as it came: nothing is filled in"

Tell = Callable[[int, int], None]  # called with the number of grades that are done, and the total


@dataclass(frozen=True)
class Assignment:
    """A grading request: submissions, course, lessons, rubric and output folder."""

    submissions: Submissions
    course: Course
    lessons: tuple[str, ...]
    rubric: Rubric
    out: Path
    seed: int | None = None  # of the class; None: see _seed
    shard: tuple[int, int] | None = None
    device: Choice = "sim"
    fresh: bool = False  # ignore the grades of earlier runs


@dataclass
class GradingProgress:
    """Progress of a grading run."""

    total: int
    kept: int = 0  # graded by an earlier run
    done: int = 0


@dataclass(frozen=True)
class Classroom:
    """An assignment with its seed, its lessons and their hashes."""

    assignment: Assignment
    seed: int
    hashes: Mapping[str, str]
    lessons: Mapping[str, Lesson]
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, assignment: Assignment) -> Classroom:
        """Load the lessons and choose the seed. Raises ``CommandError`` and ``LessonError``."""
        course = assignment.course
        lessons = {name: course.lesson(name) for name in assignment.lessons}
        hashes = {name: lesson_hash(lesson) for name, lesson in lessons.items()}
        return cls(assignment, _seed(assignment), hashes, lessons)

    @property
    def mine(self) -> frozenset[tuple[str, str]]:
        """Return the (student, lesson) pairs of this shard. Neighbours are in different shards."""
        part, parts = self.assignment.shard or (1, 1)
        return frozenset(
            (student.id, lesson)
            for i, student in enumerate(self.assignment.submissions.students)
            for j, lesson in enumerate(self.assignment.lessons)
            if (i + j) % parts == part - 1
        )

    def record(self, remarks: Mapping[str, Sequence[str]]) -> Grading:
        """Return the content of ``grading.json``."""
        it = self.assignment
        return Grading(
            lessons=it.lessons,
            students=tuple(
                replace(student.record, remarks=tuple(remarks.get(student.id, student.record.remarks)))
                for student in it.submissions.students
            ),
            rubric=it.rubric.as_json(),
            seed=self.seed,
            versions=versions(),
            lesson_hashes=self.hashes,
            shard=it.shard,
            remarks=it.submissions.remarks,
        )

    def handed(self) -> Iterator[tuple[Student, LessonSubmission, tuple[str, ...]]]:
        """Yield the submitted kernels of this shard, student by student, each read on demand."""
        it, mine = self.assignment, self.mine
        for student in it.submissions.students:
            found, remarks = read_student(student, self.lessons, it.course.names)
            for lesson in it.lessons:
                if (student.id, lesson) in mine:
                    yield student, found[lesson], remarks

    def job(self, student: Student, handed: LessonSubmission) -> Job | None:
        """Return the job that judges a submitted kernel; None if there is nothing to judge."""
        it, lesson = self.assignment, self.lessons[handed.lesson]
        if handed.status != "graded" or is_stub(handed.data, lesson):
            return None
        rubric = self._rubric(handed.lesson)
        drawn = (seed_for(self.seed, student.id, handed.lesson, number) for number in range(it.rubric.seeds))
        return Job(
            student=student.id,
            lesson=handed.lesson,
            lesson_hash=self.hashes[handed.lesson],
            file=handed.file or "",
            data=handed.data,
            headers=handed.headers,
            seeds=rubric.seeds or tuple(drawn),
            shapes=tuple(astuple(shape) for shape in rubric.shapes),
            seconds=it.rubric.seconds if rubric.seconds is None else rubric.seconds,
            memory_gib=it.rubric.memory_gib if rubric.memory_gib is None else rubric.memory_gib,
            device=it.device,
            course=None if it.course.packaged else it.course.root.resolve(),
        )

    def grade(self, executor: Executor, tell: Tell = lambda done, total: None) -> GradingProgress:
        """Judge all kernels without a valid grade. Each grade is saved at once, so an interruption loses none."""
        count = GradingProgress(len(self.mine))
        remarks: dict[str, tuple[str, ...]] = {}
        students = {student.id: student for student in self.assignment.submissions.students}
        with _alone(self.assignment.out):
            save_grading(self.assignment.out, self.record({}))
            for job, judged in executor.run(self._open(count, remarks, tell)):
                self._save(self._graded(students[job.student], job, judged))
                count.done += 1
                tell(count.kept + count.done, count.total)
            save_grading(self.assignment.out, self.record(remarks))
        return count

    def grade_one(self, student: Student, lesson: str) -> Grade:
        """Return the grade of one student for one lesson; judge the kernel in this process if no grade is valid."""
        handed = read_student(student, self.lessons, self.assignment.course.names)[0][lesson]
        job = self.job(student, handed)
        if job is None:
            grade = self._not_judged(student, handed)
        elif (earlier := self._earlier(student, job)) is not None:
            grade = self._scored(student, job, earlier)
        else:
            grade = self._graded(student, job, judge(job))
        self._save(grade)
        return grade

    @classmethod
    def repeat(cls, assignment: Assignment, student: str, lesson: str) -> tuple[Grade, Grade]:
        """Judge a case of an earlier run again: return the earlier and the new grade, and write nothing.

        Raises ``CommandError`` if there was no such grade, or if the submitted file has changed."""
        before = load_grade(assignment.out, student, lesson)
        if before is None:
            raise CommandError(f"{shown(assignment.out)} has no grade of {student} for lesson {lesson}")
        classroom = cls.of(replace(assignment, lessons=load_grading(assignment.out).lessons))
        found = next((it for it in assignment.submissions.students if it.id == student), None)
        if found is None:
            raise CommandError(f"{student} is not among the submissions")
        handed = read_student(found, classroom.lessons, assignment.course.names)[0][lesson]
        job = classroom.job(found, handed)
        if job is None:
            return before, classroom._not_judged(found, handed)
        if job.sha256 != before.sha256:
            raise CommandError(f"{student} has handed in another file for lesson {lesson} since then: grade again")
        seed, own = before.case.seed, classroom.lessons[lesson]
        drawn = {astuple(shape) for shape in (*own.shapes.check, *hidden_and_checked(own, seed))}
        shapes = tuple(shape for shape in before.case.check_shapes if shape not in drawn)
        job = replace(job, seeds=(seed,), shapes=shapes)
        return before, classroom._graded(found, job, judge(job))

    def kept(self) -> int:
        """Return the number of grades of an earlier run that are still valid."""
        return sum(self._is_kept(student, handed) for student, handed, _ in self.handed())

    def _is_kept(self, student: Student, handed: LessonSubmission) -> bool:
        job = self.job(student, handed)
        if job is not None:
            return self._earlier(student, job) is not None
        return load_grade(self.assignment.out, student.id, handed.lesson) == self._not_judged(student, handed)

    def _open(self, count: GradingProgress, remarks: dict[str, tuple[str, ...]], tell: Tell) -> Iterator[Job]:
        """Yield the jobs that remain. Save the grades of kernels that need no judging."""
        for student, handed, said in self.handed():
            remarks[student.id] = said
            job = self.job(student, handed)
            if job is None:
                self._save(self._not_judged(student, handed))
                count.done += 1
                tell(count.kept + count.done, count.total)
                continue
            keep_source(self.assignment.out, job.student, job.lesson, job.data)
            if (earlier := self._earlier(student, job)) is not None:
                self._save(self._scored(student, job, earlier))
                count.kept += 1
                tell(count.kept + count.done, count.total)
            else:
                yield job

    def _earlier(self, student: Student, job: Job) -> Grade | None:
        """Return the grade of an earlier run if its key equals that of this job."""
        if self.assignment.fresh:
            return None
        grade = load_grade(self.assignment.out, student.id, job.lesson)
        return grade if grade and grade.key == job.key and grade.status != "kit_error" else None

    def _save(self, grade: Grade) -> None:
        if load_grade(self.assignment.out, grade.student, grade.lesson) != grade:
            save_grade(self.assignment.out, grade)

    def _rubric(self, lesson: str) -> LessonRubric:
        return self.assignment.rubric.by_lesson.get(lesson, LessonRubric())

    def _not_judged(self, student: Student, handed: LessonSubmission) -> Grade:
        untouched = handed.status == "graded"
        return Grade(
            student=student.id,
            lesson=handed.lesson,
            status="missing" if untouched else handed.status,
            points=0.0,
            out_of=out_of(self.lessons[handed.lesson], self._rubric(handed.lesson)),
            message=UNTOUCHED if untouched else handed.message,
            name=student.record.name,
            file=handed.file,
            sha256=handed.sha256,
            versions=versions(),
            lesson_hash=self.hashes[handed.lesson],
        )

    def _graded(self, student: Student, job: Job, judged: Judged) -> Grade:
        lesson, seed = self.lessons[job.lesson], judged.seed
        grade = Grade(
            student=student.id,
            lesson=job.lesson,
            status=judged.status,
            points=0.0,
            out_of=0.0,
            message=judged.message,
            outcome=judged.outcome,
            case=Case(
                seed,
                tuple(map(astuple, (lesson.shapes.count, *hidden_and_counted(lesson, seed)))),
                (*map(astuple, (*lesson.shapes.check, *hidden_and_checked(lesson, seed))), *job.shapes),
            ),
            versions=versions(),
            seconds=judged.seconds,
            key=job.key,
            passes=judged.passes,
        )
        return self._scored(student, job, grade)

    def _scored(self, student: Student, job: Job, grade: Grade) -> Grade:
        """Return the grade with points by the current rubric and with the fields that do not affect the outcome."""
        lesson, rubric = self.lessons[job.lesson], self._rubric(job.lesson)
        scored = score(grade.outcome, lesson, rubric, self.assignment.rubric.near_miss) if grade.outcome else None
        return replace(
            grade,
            name=student.record.name,
            file=job.file,
            sha256=job.sha256,
            lesson_hash=job.lesson_hash,
            points=scored.points if scored else 0.0,
            out_of=out_of(lesson, rubric),
            parts=scored.parts if scored else (),
            message=scored.message if scored else grade.message,
            verdict=str(grade.outcome["verdict"]) if grade.outcome else None,
            look_at=(*(scored.look_at if scored else ()), *self._remarkable(job, grade)),
        )

    def _remarkable(self, job: Job, grade: Grade) -> Iterator[str]:
        """Yield remarks on a kernel that only the teacher sees."""
        if len(job.data) <= LARGEST:
            text = as_utf8(job.data).decode(errors="replace")
            if said := reference_of(self.assignment.course, job.lesson, text):
                yield said
        if grade.passes:
            yield f"passes lesson {grade.passes}, not lesson {job.lesson}, as which it was handed in"


def _seed(assignment: Assignment) -> int:
    """Return the seed of the class: the given one, else the rubric's, else the earlier run's, else a random one."""
    given = assignment.seed if assignment.seed is not None else assignment.rubric.seed
    if given is not None:
        return given
    if (assignment.out / "grading.json").exists():
        return load_grading(assignment.out).seed
    if assignment.shard is not None:
        raise CommandError("shards of one class need one seed: give all of them --seed, or seed = ... in grading.toml")
    return secrets.randbits(32)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Lock the output folder against other grading runs. The system releases the lock when the process ends."""
    path = out / ".lock"
    with writing(path):
        out.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    with file:
        with contextlib.suppress(OSError):  # a file system without locks
            if not files.take_lock(file.fileno()):
                raise CommandError(f"{shown(out)} is being written by another gemm-lessons grade; wait for it")
        yield
