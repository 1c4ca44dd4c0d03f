"""Processor time and memory of judging each reference, from which ``grade setup`` derives its limits.

    python -m checks.grading.needs [LESSONS] [--seeds 2]      measures, prints, and renews grading/hosts/needs.toml

Processor time does not depend on how busy the machine is; memory does not depend on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.process.bounds import GIB
from gemm_lessons.grading import worker
from gemm_lessons.grading.needs import NEEDS, Need, load_needs
from gemm_lessons.grading.worker import Limits, Submission

HEAD = """# What judging the reference of a lesson takes: seconds of processor time, of the judging process alone and
# with the compiler and the disassembler; MiB of memory beyond what the kit has when it starts, and resident in all.
# Written by python -m checks.grading.needs.
"""
LOOSE = Limits(seconds=600, memory_bytes=16 * GIB)


def needs_toml(needs: Mapping[str, Need]) -> str:
    """The text of ``needs.toml``."""
    rows = (
        f"{name} = {{ seconds = {it.seconds}, all_seconds = {it.all_seconds}, memory_mib = {it.memory_mib}, "
        f"resident_mib = {it.resident_mib} }}\n"
        for name, it in needs.items()
    )
    return HEAD + "".join(rows)


def measure(lesson: str, seeds: int) -> Need:
    """The largest need, field by field, of judging a lesson's reference on seeds 1 to ``seeds``."""
    course = packaged_course()
    loaded = course.lesson(lesson)
    found = []
    for seed in range(1, seeds + 1):
        question = worker._question(Submission(course.root, lesson, loaded.solution_path, seed=seed), LOOSE)
        answer = worker._ask(question, [loaded.solution_path.read_bytes()])
        assert answer["outcome"]["verdict"] == "passed", (lesson, seed, answer["outcome"]["verdict"])
        found.append(answer["used"])
    most: Mapping[str, float] = {key: max(it[key] for it in found) for key in found[0]}
    return Need(
        round(most["seconds"], 1), round(most["all_seconds"], 1), int(most["memory_bytes"]) >> 20,
        int(most["resident_bytes"]) >> 20,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="default: all")
    parser.add_argument("--seeds", type=int, default=2, help="hidden inputs for each lesson")
    options = parser.parse_args()
    course = packaged_course()
    known = dict(load_needs())
    for name in [course.resolve(it) for it in options.lessons] or course.names:
        known[name[3:]] = need = measure(name, options.seeds)
        print(f"{name:20} {need.seconds:6.1f} s, {need.all_seconds:6.1f} s with helpers, "
              f"{need.memory_mib:5} MiB, {need.resident_mib:5} MiB resident", flush=True)  # fmt: skip
        kept = {it[3:]: known[it[3:]] for it in course.names if it[3:] in known}
        NEEDS.write_text(needs_toml(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
