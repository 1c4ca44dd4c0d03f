"""What ``python -m checks.arm64`` compares, without the emulator."""

from __future__ import annotations

import tomllib
from pathlib import Path

from checks.arm64 import GRADED, PATIENT, compared, different, first_command, wait_longer, write_class
from checks.versions import ROOT

ANSWER = {
    "verdict": "passed",
    "kernel": "/here/solution.cu",
    "shapes": [{"m": 96, "max_error": 1.6018e20, "tolerance": None}],
    "counters": {"inst": 100},
}


def test_differences_are_named_but_for_paths_and_last_digits() -> None:
    there = {
        "verdict": "passed",
        "kernel": "/kit/solution.cu",
        "shapes": [{"m": 96, "max_error": 1.6018000001e20, "tolerance": None}],
        "counters": {"inst": 101},
    }
    assert list(different(compared(there), compared(ANSWER))) == ["counters.inst: 101 on aarch64, 100 here"]
    there["counters"] = {"inst": 100}
    assert not list(different(compared(there), compared(ANSWER)))
    for error in (1.60181e20, None, 0.0):
        there["shapes"] = [{"m": 96, "max_error": error, "tolerance": None}]
        assert len(list(different(compared(there), compared(ANSWER)))) == 1
    there["shapes"] = []
    assert len(list(different(compared(there), compared(ANSWER)))) == 1
    del there["shapes"]
    assert len(list(different(compared(there), compared(ANSWER)))) == 1


def test_one_kernel_of_the_class_is_wrong(tmp_path: Path) -> None:
    write_class(tmp_path, 600)
    right, wrong = ((tmp_path / name / f"{GRADED}.cu").read_text() for name in ("ana", "bo"))
    assert right != wrong
    assert tomllib.loads((tmp_path / "grading.toml").read_text()) == {"limits": {"seconds": 600}}
    assert "gemm-lessons run" in first_command()


def test_only_the_copy_in_the_chroot_waits_longer(tmp_path: Path) -> None:
    here = ROOT / "gemm_lessons/engine/compiler"
    there = tmp_path / "kit/.venv/lib/python3.11/site-packages/gemm_lessons/engine/compiler"
    there.mkdir(parents=True)
    for name in PATIENT:
        (there / name).write_text((here / name).read_text())
    wait_longer(tmp_path, 900)
    for name in PATIENT:
        changed = (there / name).read_text().splitlines()
        lines = [line for line, old in zip(changed, (here / name).read_text().splitlines(), strict=True) if line != old]
        assert [line.partition("  #")[0] for line in lines] == ["PATIENCE_S = 900"]
