"""A class without a simulator: what is judged, what is kept, and that the order of things never matters."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from checks.grading.classroom import make_class
from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.engine.process import resources
from gemm_lessons.grading import classroom as rooms
from gemm_lessons.grading.classroom import Assignment, Classroom
from gemm_lessons.grading.executors import Done, LocalExecutor, open_executor
from gemm_lessons.grading.inputs import find_students
from gemm_lessons.grading.judging import Job, Judged, as_utf8, seed_for
from gemm_lessons.grading.merge import merge_shards
from gemm_lessons.grading.needs import UNKNOWN_BYTES, load_needs
from gemm_lessons.grading.results import load_grades, load_grading
from gemm_lessons.grading.rubric import LessonRubric, Points, Rubric

COURSE = packaged_course()
LESSONS = ("01_naive", "02_coalesced", "03_block_tile")
EMPTY: dict[str, Any] = {"shapes": [], "compile": {"diagnostics": []}, "findings": [], "gates": []}


def judge(job: Job) -> Judged:
    """Instead of a simulator: the answer depends on the source alone."""
    verdict = ("passed", "wrong_answer", "faulted")[len(job.data) % 3]
    return Judged("graded", "", {"verdict": verdict, **EMPTY}, job.seeds[0], 0.1)


@dataclass
class Shuffled:
    """Takes all jobs, and gives them back in another order; ``stop_after`` some of them somebody presses Ctrl-C."""

    seed: int = 0
    stop_after: int = 10**9
    judged: list[str] = field(default_factory=list)
    judge: Callable[[Job], Judged] = judge

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        waiting = list(jobs)
        random.Random(self.seed).shuffle(waiting)
        for job in waiting:
            if len(self.judged) >= self.stop_after:
                raise KeyboardInterrupt
            self.judged.append(f"{job.student}/{job.lesson}")
            yield job, self.judge(job)


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    make_class(folder, 16, LESSONS)
    return folder


@pytest.fixture
def assignment(submissions: Path, tmp_path: Path) -> Assignment:
    found = find_students(submissions, COURSE.names)
    return Assignment(found, COURSE, LESSONS, Rubric.plain(LESSONS), tmp_path / "out", seed=7)


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.json"))}


def test_the_same_class_has_the_same_files_in_any_order(assignment: Assignment, tmp_path: Path) -> None:
    for seed in (1, 2):
        executor = Shuffled(seed)
        Classroom.of(replace(assignment, out=tmp_path / str(seed))).grade(executor)
        assert len(executor.judged) == len(set(executor.judged))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    grading = load_grading(tmp_path / "1")
    grades = load_grades(tmp_path / "1", grading)
    assert len(grades) == 16 * 3
    assert {grade.status for grade in grades} == {"graded", "missing"}
    assert [student.id for student in grading.students] == sorted(student.id for student in grading.students)
    assert all(grade.case.seed == seed_for(7, grade.student, grade.lesson) for grade in grades if grade.outcome)


def test_ctrl_c_leaves_what_is_done_and_nothing_is_done_twice(assignment: Assignment) -> None:
    room = Classroom.of(assignment)
    first, second, third = Shuffled(1, stop_after=10), Shuffled(2), Shuffled(3)
    with pytest.raises(KeyboardInterrupt):
        room.grade(first)
    kept = room.kept()
    assert kept >= 10
    for path in assignment.out.rglob("*.json"):
        json.loads(path.read_text())
    count = room.grade(second)
    assert not set(first.judged) & set(second.judged)
    assert count.kept + count.done == count.total == 48
    before = contents(assignment.out)
    assert room.grade(third).done == sum(grade.status == "missing" for grade in _grades(assignment.out))
    assert not third.judged
    assert contents(assignment.out) == before
    assert room.kept() == 48
    Classroom.of(replace(assignment, fresh=True)).grade(third)
    assert len(third.judged) == len(first.judged) + len(second.judged)


def _grades(out: Path) -> Any:
    return load_grades(out, load_grading(out))


def test_what_changes_is_judged_again_and_only_that(assignment: Assignment) -> None:
    Classroom.of(assignment).grade(Shuffled())
    other = Rubric(LESSONS, {name: LessonRubric(Points(1, 1, 8, 0)) for name in LESSONS})
    points, none = replace(assignment, rubric=other), Shuffled()
    Classroom.of(points).grade(none)
    assert not none.judged, "other points need no other run"
    assert {grade.points for grade in _grades(assignment.out)} == {0, 1, 2, 10}

    (assignment.out / "results" / "bo001" / "01_naive.json").write_text("{")
    (assignment.out / "results" / "bo001" / "03_block_tile.json").unlink()
    again = Shuffled()
    Classroom.of(points).grade(again)
    assert set(again.judged) <= {"bo001/01_naive", "bo001/03_block_tile"}
    assert again.judged

    seeds, anew = replace(assignment, seed=8), Shuffled()
    Classroom.of(seeds).grade(anew)
    assert len(anew.judged) == len(none.judged) + sum(1 for grade in _grades(assignment.out) if grade.outcome)


def test_the_kit_s_fault_is_tried_again(assignment: Assignment) -> None:
    broken = Shuffled(judge=lambda job: Judged("kit_error", "no compiler", None, 1, 0.0))
    Classroom.of(assignment).grade(broken)
    assert broken.judged
    fine = Shuffled()
    Classroom.of(assignment).grade(fine)
    assert sorted(fine.judged) == sorted(broken.judged)


def test_the_seed_of_an_earlier_run_stays(assignment: Assignment) -> None:
    room = Classroom.of(replace(assignment, seed=None))
    assert room.seed != Classroom.of(replace(assignment, seed=None)).seed, "nobody knows it before"
    room.grade(Shuffled())
    assert Classroom.of(replace(assignment, seed=None)).seed == room.seed
    with pytest.raises(CommandError, match="need one seed"):
        Classroom.of(replace(assignment, seed=None, shard=(1, 2), out=assignment.out / "other"))


@pytest.mark.parametrize("parts", [7])
def test_shards_are_the_whole_class_once(assignment: Assignment, tmp_path: Path, parts: int) -> None:
    whole, shards = tmp_path / "whole", [tmp_path / str(part) for part in range(parts)]
    Classroom.of(replace(assignment, out=whole)).grade(Shuffled())
    judged: list[str] = []
    for part, out in enumerate(shards):
        executor = Shuffled(part)
        room = Classroom.of(replace(assignment, out=out, shard=(part + 1, parts)))
        assert abs(len(room.mine) - 48 / parts) <= 2
        room.grade(executor)
        judged += executor.judged
    assert len(judged) == len(set(judged))
    merged = tmp_path / "merged"
    assert merge_shards(shards[::-1], merged) == ()
    assert contents(merged) == contents(whole)
    missing = merge_shards(shards[1:], tmp_path / "part")
    assert f"shard 1/{parts} is not among the folders" in missing[0]


def test_what_does_not_belong_together_is_not_merged(assignment: Assignment, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    Classroom.of(replace(assignment, out=one)).grade(Shuffled())
    Classroom.of(replace(assignment, out=two, seed=8)).grade(Shuffled())
    with pytest.raises(CommandError, match="was graded with another seed"):
        merge_shards([one, two], tmp_path / "both")
    Classroom.of(replace(assignment, out=two)).grade(
        Shuffled(judge=lambda job: Judged("graded", "", {"verdict": "faulted", **EMPTY}, job.seeds[0], 0))
    )
    with pytest.raises(CommandError, match="have different grades for"):
        merge_shards([one, two], tmp_path / "both")
    with pytest.raises(CommandError, match="is not a folder of gemm-lessons grade"):
        merge_shards([one, tmp_path / "nothing"], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_one_at_a_time_writes_a_folder(assignment: Assignment) -> None:
    with rooms._alone(assignment.out), pytest.raises(CommandError, match="another gemm-lessons grade"):
        Classroom.of(assignment).grade(Shuffled())


def test_local_processes_judge_several_at_once_and_a_bug_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gemm_lessons.grading import executors

    jobs = [Job("ana", "01_naive", "", "", bytes(i)) for i in range(9)]
    together = threading.Barrier(3, timeout=20)

    def wait(job: Job) -> Judged:
        together.wait()
        return judge(job)

    monkeypatch.setattr(executors, "judge", wait)
    with LocalExecutor(3) as executor:
        assert {job.data for job, _ in executor.run(jobs)} == {job.data for job in jobs}

    def bug(job: Job) -> Judged:
        raise ZeroDivisionError

    monkeypatch.setattr(executors, "judge", bug)
    with LocalExecutor(2) as executor, pytest.raises(ZeroDivisionError):
        list(executor.run(jobs))
    with pytest.raises(CommandError, match="there is no executor"):
        open_executor("slurm")


def test_as_many_processes_judge_as_have_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a class take what the largest of its lessons takes."""
    monkeypatch.setattr(resources, "share_of_cores", lambda: 16.0)
    monkeypatch.setattr(resources, "memory_bytes", lambda: 4 << 30)
    names = packaged_course().names
    largest = max(load_needs().values(), key=lambda it: it.resident_mib).resident_mib
    for lessons, each in ((("00_first_kernel",), load_needs()["first_kernel"].resident_mib), (names, largest)):
        workers = open_executor("local", lessons=lessons)
        assert isinstance(workers, LocalExecutor)
        assert workers.processes == max(1, min(16, (4 << 10) // each))
    mine = open_executor("local", lessons=("03_mine",))
    assert isinstance(mine, LocalExecutor)
    assert mine.processes == (4 << 30) // UNKNOWN_BYTES


def test_a_bug_of_ours_costs_one_kernel_and_not_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    from gemm_lessons.grading import judging

    def bug(*arguments: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.delenv("GEMM_LESSONS_DEBUG", raising=False)
    monkeypatch.setattr(judging, "judge_submission", bug)
    judged = judging.judge(Job("ana", "01_naive", "", "", b""))
    assert (judged.status, judged.outcome) == ("kit_error", None)
    assert judged.message == "this is a bug in gemm-lessons (ZeroDivisionError: oh)"


def test_every_seed_has_to_pass_and_nothing_tells_where_it_lay(monkeypatch: pytest.MonkeyPatch) -> None:
    from gemm_lessons.grading import judging
    from gemm_lessons.grading.worker import Limits, Submission

    asked: list[Submission] = []

    def answer(submission: Submission, limits: Limits) -> dict[str, Any]:
        asked.append(submission)
        assert sorted(path.name for path in submission.path.parent.iterdir()) == ["kernel.cu", "mine.cuh"]
        verdict = "passed" if submission.seed != 3 else "wrong_answer"
        return {"verdict": verdict, "kernel": str(submission.path), "hints": [f"see {submission.path}:3"], **EMPTY}

    monkeypatch.setattr(judging, "judge_submission", answer)
    headers = {"mine.cuh": b""}
    job = Job("ana", "01_naive", "", "my/01.cu", b"", headers, seeds=(2, 3, 4), shapes=((5, 6, 7),))
    judged = judging.judge(job)
    assert [it.seed for it in asked] == [2, 3], "one that does not pass decides"
    assert asked[0].secret == ((5, 6, 7),)
    assert judged.seed == 3
    assert judged.outcome == {"verdict": "wrong_answer", "kernel": "my/01.cu", "hints": ["see my/01.cu:3"], **EMPTY}
    assert job.key != replace(job, seeds=(2, 3)).key != replace(job, headers={}).key


def test_text_of_any_editor_is_text() -> None:
    source = "// Größe\n"
    for data in (source.encode(), source.encode("utf-16"), source.encode("cp1252")):
        assert as_utf8(data).decode() == source
    assert as_utf8(b"\0\xff\xfe") == b"\0\xff\xfe"


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "every"])
def test_a_plausible_class_is_graded_as_it_was_made(tmp_path: Path, every: bool) -> None:
    """A student with every lesson and one with the first of them, by the real judgement, within the memory of a small
    machine. Some: of each kind of submission one or two, up to any_shape. test_honest.py grades right kernels of six
    other lessons."""
    submissions = tmp_path / "in"
    submissions.mkdir()
    made = dict(make_class(submissions, 2))
    first, second = dict.fromkeys(student for student, _ in made)
    kept = {first: {*range(100)}, second: {*range(11)}} if every else {first: {0, 1, 3, 9}, second: {6, 9, 10}}
    for student, lesson in made:
        if int(lesson[:2]) not in kept[student]:
            for late in (submissions / student).rglob("*.cu"):
                if lesson in (late.stem, late.parent.name):
                    late.unlink()
                    made[student, lesson] = "missing"
    assert {*made.values()} >= {"right", "wrong", "broken", "half", "missing"}
    command = [sys.executable, "-m", "gemm_lessons", "grade", str(submissions), "--out", str(tmp_path / "out")]
    # By a process between: what a process starts with counts as used by it, and this one may be large.
    between = "import resource as r, subprocess as s, sys; s.run(sys.argv[1:], check=True, stdout=s.DEVNULL);"
    between += "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", between, *command], capture_output=True, text=True)
    assert done.returncode == 0
    assert int(done.stdout) < (1100 if every else 700) << 10, "kB, of the largest process: that of lesson ozaki"
    grades = {(grade.student, grade.lesson): grade for grade in _grades(tmp_path / "out")}
    assert grades.keys() == made.keys()
    for case, kind in made.items():
        grade = grades[case]
        said = f"{case}, {kind}: {grade.message}"
        if kind == "right":
            assert grade.verdict == "passed", said
            assert grade.points == grade.out_of, said
        else:
            assert grade.verdict != "passed", said
            assert grade.status == ("missing" if kind in ("stub", "missing") else "graded"), said
