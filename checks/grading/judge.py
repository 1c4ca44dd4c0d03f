"""A warm process that judges one kernel after the other, each as a submission of its own: what the batteries run on.

The kernel lies alone in an empty folder, and its inputs are seeded afresh. Limits of time are the battery's, which can
end this process; memory is bounded here.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from gemm_lessons.child import Parent
from gemm_lessons.course.folder import CommandError, any_course
from gemm_lessons.course.lesson import ShapeError
from gemm_lessons.errors import KitError, UnsupportedKernel
from gemm_lessons.hardware.sheets import GPUS
from gemm_lessons.judgement.verdict import CompileFailed, Faulted, GateMissed, TimedOut, Verdict, WrongAnswer
from gemm_lessons.run.choose import open_device
from gemm_lessons.run.pipeline import RunRequest, run_lesson

MEMORY = 6 << 30  # bytes of address space; the simulator maps about 1.5 GiB


def main(parent: Parent, choice: str) -> None:
    """Answer questions until there are no more."""
    assert choice in ("sim", "gpu")
    device = open_device("gpu" if choice == "gpu" else "sim")
    if choice == "sim":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    parent.send({"ready": device.name})
    while True:
        question, _ = parent.receive()
        began, cpu = time.perf_counter(), time.process_time()
        verdict, reason = _judge(device, question)
        times = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
        parent.send({"verdict": verdict, "reason": reason} | times)


def _judge(device: Any, question: dict[str, Any]) -> tuple[str, str]:
    course = any_course()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_bytes(question["source"].encode(errors="surrogateescape"))
        request = RunRequest(
            course, course.lesson(question["lesson"]), path, device, GPUS["h200"], seed=question["seed"], beside=False
        )
        try:
            verdict = run_lesson(request).verdict
        except MemoryError:
            return "faulted", "memory: the run needed too much"
        except UnsupportedKernel as error:
            return "unsupported", str(error)
        except (CommandError, ShapeError) as error:
            return "refused", str(error)
        except KitError as error:
            return "kit_error", f"{type(error).__name__}: {error}"
    return verdict.kind, reason_of(verdict)


def reason_of(verdict: Verdict) -> str:
    """A verdict's reason in one line."""
    match verdict:
        case CompileFailed():
            told = [f"line {it.line}: {it.message}" for it in verdict.diagnostics if it.severity == "error"]
            words = "; ".join([verdict.message, *told])
        case Faulted() | TimedOut():
            finding = verdict.finding
            words = f"{finding.kind} at {verdict.shape}, line {finding.line}: {finding.message}"
        case WrongAnswer():
            judged = verdict.judgement
            words = f"{judged.wrong:,} of {judged.total:,} wrong at {verdict.shape}"
            words += f": {judged.pattern.explanation}" if judged.pattern else ""
        case GateMissed():
            words = "; ".join(
                f"{it.name}: {'none' if it.value is None else f'{it.value:.4g}'}, limit {it.limit:g}"
                for it in verdict.missed
            )
        case _:
            words = ""
    return " ".join(words.split())
