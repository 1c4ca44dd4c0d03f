"""Judge one submission in its own process, with limits on time and memory.

    judge_submission(Submission(...), Limits(...))  --fork server--> job: run_lesson  -->  the object of ``--json``

There is an outcome even if the process crashed, ran out of memory or was stopped. A submission cannot forge an outcome:
its source is compiled and interpreted (or run on a GPU in a further process) and has no access to the pipe that carries
the outcome. ``sandbox`` confines the process in case a submission breaks out of the simulator.

Each concurrent thread has its own fork server, which is kept for the next question.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemm_lessons.course import CommandError, Course, NotText, read_bytes, text_of
from gemm_lessons.devices import Choice
from gemm_lessons.engine import KitError, UnsupportedKernel
from gemm_lessons.engine.process import GIB, SLOW, Bounds, Child, ChildDied, ChildHung
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    from gemm_lessons.commands import Check
    from gemm_lessons.running import JSON, RunOutcome

MOST_BYTES = 1_000_001  # bytes read of a file: one more than the limit for a kernel
SPARE_S = 60.0  # seconds for the fork server to start and to clean up
# Environment variables that the fork server inherits, so that it finds the same files. Its jobs have none of them.
KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "TMPDIR")


@dataclass(frozen=True)
class Limits:
    """Limits of one submission: seconds of processor time, and bytes of memory in addition to the kit's own.

    For the process of a GPU, only the wall time until its answer counts.
    """

    seconds: float = 60.0
    memory_bytes: int = 2 * GIB


@dataclass(frozen=True)
class Submission:
    """A kernel file for a lesson of a course. ``shape`` (M, N, K) replaces the check shapes; ``seed`` repeats a run.
    The kernel may include the files ``beside`` it by name."""

    course: Path  # the course's root
    lesson: str
    path: Path
    device: Choice = "sim"
    gpu_index: int = 0
    gpu: str = "h200"  # the data sheet for occupancy
    shape: tuple[int, int, int] | None = None
    seed: int | None = None
    beside: tuple[Path, ...] = ()
    secret: tuple[tuple[int, int, int], ...] = ()  # additional check shapes


def judge_submission(submission: Submission, limits: Limits | None = None) -> Mapping[str, JSON]:
    """Return the outcome of a submission as in ``gemm-lessons run --json``, without estimates.

    Raises ``CommandError`` (invalid file, lesson or shape), ``UnsupportedKernel`` and ``KitError``; none
    of these is the submission's fault.
    """
    limits = limits or Limits()
    if refusal := _not_their_own(submission):
        return _refused(submission, refusal)
    source = read_bytes(submission.path, MOST_BYTES)
    try:
        text_of(submission.path, source)
    except NotText as error:
        return _refused(submission, error.why, error.line)
    texts = [read_bytes(path, MOST_BYTES) for path in submission.beside if not path.is_symlink()]
    answer = _ask(_question(submission, limits), [source, *texts])
    if "outcome" in answer:
        return {**answer["outcome"], "kernel": str(submission.path)}
    if answer["error"] == "unsupported":
        raise UnsupportedKernel(answer["text"], answer["line"])
    if answer["error"] in ("command", "kit"):
        raise (CommandError if answer["error"] == "command" else KitError)(answer["text"])
    most = Bounds(limits.seconds, limits.memory_bytes)
    said = {"timeout": most.too_long, "memory": most.too_much, "crash": f"the run crashed: {answer.get('text')}"}
    return _lost(submission, answer["error"], said[answer["error"]])


def protections() -> tuple[str, ...]:
    """Return the protections that are active on this machine, by their names in ``walls.WALLS``."""
    return tuple(run_python("got = True")["walls"])


def walls_around_grading() -> Check:
    """Return the check of ``gemm-lessons doctor`` that lists active and missing protections."""
    from gemm_lessons.commands import Check
    from gemm_lessons.engine.process import WALLS

    try:
        stand = protections()
    except (KitError, KeyError) as error:
        return Check("grading", "optional", f"no submission can be judged here: {error}")
    missing = [text for name, text in WALLS.items() if name not in stand]
    detail = f"{len(stand)} of {len(WALLS)} walls protect the machine from a submission"
    return Check("grading", "found", detail, "not here: " + "; ".join(missing) if missing else "")


def run_python(code: str, limits: Limits | None = None) -> Mapping[str, Any]:
    """Run Python code in the sandbox in place of a submission, to test what a break-out from the simulator could do.

    Returns ``{"got": the variable got, "walls": [...]}`` or ``{"error": "timeout" | "memory" | "crash", "text":}``.
    """
    from gemm_lessons.course import packaged_course

    course = packaged_course()
    submission = Submission(course.root, course.names[0], Path("kernel.cu"))
    return _ask({**_question(submission, limits or Limits()), "python": code}, [b""])


def _question(submission: Submission, limits: Limits) -> dict[str, Any]:
    about = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(submission).items()}
    about["course"] = str(submission.course.absolute())
    files = [submission.path, *(path for path in submission.beside if not path.is_symlink())]
    return {"submission": {**about, "beside": ()}, "files": [path.name for path in files], **asdict(limits)}


# --- fork servers ----------------------------------------------------------------------------------------------------

_idle: list[tuple[int, Child]] = []  # with the process that started them: a fork must not share its parent's pipes
_lock = threading.Lock()


def _ask(question: dict[str, Any], sources: list[bytes]) -> dict[str, Any]:
    """Send a question to a fork server. If the server itself is lost, send it to a new one, once; then raise
    ``KitError``, since a submission is not known to cause that."""
    try:
        return _asked(question, sources)
    except (ChildHung, ChildDied):
        pass
    try:
        return _asked(question, sources)
    except (ChildHung, ChildDied) as lost:
        raise KitError(f"the process that judges submissions was lost: {lost}") from None


def _asked(question: dict[str, Any], sources: list[bytes]) -> dict[str, Any]:
    server = _server()
    try:
        server.send(question, sources)
        answer, _ = server.receive(SLOW * 2 * question["seconds"] + SPARE_S)
    except BaseException:  # also on Ctrl-C: a late answer must not be taken for the next question's
        server.close()
        raise
    with _lock:
        _idle.append((os.getpid(), server))
    return answer


def _server() -> Child:
    with _lock:
        for number, (process, server) in enumerate(_idle):
            if process == os.getpid():
                del _idle[number]
                return server
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**kept, "OPENBLAS_NUM_THREADS": "1"}
    return Child("gemm_lessons.grading.fork_server", environment=environment, bare=True, steady=True)


@atexit.register
def close() -> None:
    """Stop the fork servers of this process; the next question starts a new one."""
    with _lock:
        mine = [server for process, server in _idle if process == os.getpid()]
        _idle.clear()
    for server in mine:
        server.close()


# --- outcomes of what did not run ------------------------------------------------------------------------------------


def _not_their_own(submission: Submission) -> str:
    """Return why a file cannot be graded, or an empty string. The command line accepts a link to a kernel; grading
    accepts neither a link nor the lesson's solution under another name."""
    if submission.path.is_symlink():
        return f"{submission.path.name} is a link to another file: hand in the file itself"
    solution = Course(submission.course).lesson(submission.lesson).solution_path
    with contextlib.suppress(OSError):
        if submission.path.samefile(solution) and submission.path.resolve() != solution.resolve():
            return f"{submission.path.name} is the lesson's solution under another name"
    return ""


def _refused(submission: Submission, message: str, line: int = 1) -> Mapping[str, JSON]:
    from gemm_lessons.running import refused

    lesson = Course(submission.course).lesson(submission.lesson)
    return _as_json(refused(lesson, submission.path, message, line, submission.device, submission.gpu))


def _lost(submission: Submission, kind: str, message: str) -> Mapping[str, JSON]:
    from gemm_lessons.running import ended_early

    lesson = Course(submission.course).lesson(submission.lesson)
    return _as_json(ended_early(lesson, submission.path, kind, message, submission.device, submission.gpu))


def _as_json(outcome: RunOutcome) -> Mapping[str, JSON]:
    from gemm_lessons.running import as_json

    return as_json(outcome)
