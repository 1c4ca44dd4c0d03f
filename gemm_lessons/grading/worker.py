"""One submission in, one outcome out, in its own process, with limits in time and memory.

    judge_submission(Submission(...), Limits(...))  --child.Child-->  main: run_lesson  -->  the object of ``--json``

Whatever the submission does ends here: an outcome comes back also when its process crashed, ran out of memory or had
to be stopped. It cannot forge one. Its source is compiled and interpreted (or run on a GPU, in a further process), and
nothing of that can reach the pipe that carries the outcome: it is neither stdout nor stderr, it can only be written,
and only this module's ``main`` has it.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.child import Child, ChildDied, ChildHung, Parent
from gemm_lessons.course.folder import CommandError, Course
from gemm_lessons.course.lesson import Shape, ShapeError
from gemm_lessons.errors import KitError, UnsupportedKernel
from gemm_lessons.launch import Finding
from gemm_lessons.run.choose import Choice

if TYPE_CHECKING:
    from gemm_lessons.judgement.verdict import Verdict
    from gemm_lessons.run.contract import JSON

GIB = 1 << 30
PATIENCE_S = 1.0  # for a worker to end by itself after its answer
RESERVE_BYTES = 64 << 20  # freed when memory runs out, so that this can still be said


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds from start to outcome, bytes of address space.

    The simulator with its libraries maps about 1.5 GiB; a GPU's process is not counted.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 * GIB


@dataclass(frozen=True)
class Submission:
    """A kernel file for a lesson of a course. ``shape`` (M, N, K) replaces the check shapes; ``seed`` repeats a run."""

    course: Path  # the course's root
    lesson: str
    path: Path
    device: Choice = "sim"
    gpu_index: int = 0
    gpu: str = "h200"  # the data sheet for estimates and occupancy
    shape: tuple[int, int, int] | None = None
    seed: int | None = None


def judge_submission(submission: Submission, limits: Limits | None = None) -> Mapping[str, JSON]:
    """The outcome of a submission, as ``gemm-lessons run --json`` gives it.

    Raises ``CommandError`` (the file, the lesson or the shape cannot be), ``UnsupportedKernel`` and ``KitError``: none
    of these is the submission's fault.
    """
    limits = limits or Limits()
    if refusal := _not_their_own(submission):
        return _refused(submission, refusal)
    question = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(submission).items()}
    with Child("gemm_lessons.grading.worker") as child:
        try:
            child.send({"submission": question, "memory_bytes": limits.memory_bytes})
            answer, _ = child.receive(limits.seconds)
            child.close(PATIENCE_S)
        except ChildHung:
            return _lost(submission, "timeout", f"the run took longer than {limits.seconds:g} s and was stopped")
        except ChildDied as died:
            return _lost(submission, "crash", f"the run crashed: {died}")
    if "outcome" in answer:
        outcome: Mapping[str, JSON] = answer["outcome"]
        return outcome
    if answer["error"] == "memory":
        most = f"{limits.memory_bytes / GIB:.2g} GiB"
        return _lost(submission, "memory", f"the run needed more than {most} of memory and was stopped")
    if answer["error"] == "unsupported":
        raise UnsupportedKernel(answer["text"], answer["line"])
    raise (CommandError if answer["error"] == "command" else KitError)(answer["text"])


def _not_their_own(submission: Submission) -> str:
    """Why a file is not one that was handed in. On the command line a kernel may be a link to wherever its owner works;
    what is graded is the file itself."""
    if submission.path.is_symlink():
        return f"{submission.path.name} is a link to another file: hand in the file itself"
    solution = Course(submission.course).lesson(submission.lesson).solution_path
    with contextlib.suppress(OSError):
        if submission.path.samefile(solution) and submission.path.resolve() != solution.resolve():
            return f"{submission.path.name} is the lesson's solution under another name"
    return ""


def _refused(submission: Submission, message: str) -> Mapping[str, JSON]:
    from gemm_lessons.compiler.diagnostics import Diagnostic
    from gemm_lessons.judgement.verdict import CompileFailed

    found = Diagnostic(str(submission.path), 1, None, "error", message)
    return _outcome(submission, CompileFailed(message, (found,)), ())


def _lost(submission: Submission, kind: str, message: str) -> Mapping[str, JSON]:
    """The outcome of a run that could not tell its own."""
    from gemm_lessons.judgement.verdict import Faulted, TimedOut

    finding = Finding(kind, "error", message)
    count = Course(submission.course).lesson(submission.lesson).shapes.count
    return _outcome(submission, (TimedOut if kind == "timeout" else Faulted)(count, finding), (finding,))


def _outcome(submission: Submission, verdict: Verdict, findings: tuple[Finding, ...]) -> Mapping[str, JSON]:
    from gemm_lessons.judgement.evidence import Checked
    from gemm_lessons.run.contract import as_json
    from gemm_lessons.run.outcome import Row, RunOutcome

    lesson = Course(submission.course).lesson(submission.lesson)
    count = lesson.shapes.count
    row = Row("kernel", "your kernel", str(submission.path), "", Checked(verdict, findings=findings))
    device: Literal["simulator", "gpu"] = "gpu" if submission.device == "gpu" else "simulator"
    return as_json(RunOutcome(lesson, device, "", submission.gpu, submission.seed or 0, count, count, (row,)))


def main(parent: Parent) -> None:
    """The worker: one question, one answer."""
    header, _ = parent.receive()
    parent.no_more_questions()
    reserve = bytearray(RESERVE_BYTES)
    _limit_memory(header["memory_bytes"])
    try:
        answer: dict[str, Any] = {"outcome": _run(header["submission"])}
    except MemoryError:
        reserve.clear()
        answer = {"error": "memory"}
    except UnsupportedKernel as error:
        answer = {"error": "unsupported", "text": str(error), "line": error.line}
    except (CommandError, ShapeError) as error:
        answer = {"error": "command", "text": str(error)}
    except KitError as error:
        answer = {"error": "kit", "text": str(error)}
    parent.send(answer)


def _limit_memory(most: int) -> None:
    """Bound the address space. A soft limit: the process of a GPU, which maps far more than it uses, lifts it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(submission: Mapping[str, Any]) -> dict[str, Any]:
    from gemm_lessons.hardware.sheets import find_gpu
    from gemm_lessons.run.choose import open_device
    from gemm_lessons.run.contract import as_json
    from gemm_lessons.run.pipeline import RunRequest, run_lesson

    course = Course(Path(submission["course"]))
    request = RunRequest(
        course=course,
        lesson=course.lesson(submission["lesson"]),
        path=Path(submission["path"]),
        device=open_device(submission["device"], submission["gpu_index"]),
        gpu=find_gpu(submission["gpu"]),
        shape=None if submission["shape"] is None else Shape(*submission["shape"]),
        seed=submission["seed"],
        beside=False,
    )
    return as_json(run_lesson(request))
