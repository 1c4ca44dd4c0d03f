"""The measured data and the tables of what to measure fit together; the timing itself needs a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checks.course import halves, mma, two_warps
from checks.course.measure import ROOT, ROUNDS, rates, solutions, spread
from checks.course.variants import VARIANTS
from gemm_lessons.authoring.numbers import Numbers
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import LessonError


def rows(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "lessons" / "measured" / file).read_text())["rows"]
    return found


@pytest.mark.parametrize(
    "variant", [*VARIANTS, *halves.VARIANTS, *two_warps.VARIANTS], ids=lambda variant: variant.name
)
def test_the_edits_of_a_variant_match_its_solution(variant: Any) -> None:
    kernel = variant.kernel()
    changed = kernel.source != kernel.lesson.solution_path.read_text()
    assert changed == bool(variant.edits or variant.pitfall)
    assert changed or variant.tile or variant.name == variant.lesson, "a variant changes something"


def test_names_are_unique() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


def test_every_variant_was_measured() -> None:
    measured = {row["kernel"] for row in rows("h200_variants.json")}
    assert measured == {variant.name for variant in VARIANTS} | {"cublas"}


def test_every_kernel_of_halves_was_measured() -> None:
    measured = {row["kernel"] for row in rows("h200_halves.json")}
    assert measured == {variant.name for variant in halves.VARIANTS} | {"cublas", halves.IN_FLOAT32}


def test_every_kernel_of_mma_was_measured() -> None:
    measured = {row["kernel"] for row in rows("h200_mma.json")}
    libraries = {f"cublas {kind}" for kind in mma.OF_CUBLAS} | {"cublas int8 TN"}
    assert measured - {mma.TORCH} == {variant.name for variant in mma.VARIANTS} | libraries


def test_what_was_built_elsewhere_says_from_where() -> None:
    for row in rows("h200_anchors.json"):
        if row["kernel"].split()[0] in ("cutlass", "leimao"):
            assert len(row["commit"]) == 40
            assert row["source"].startswith("github.com/")


def test_every_solution_was_measured_at_every_size() -> None:
    measured = {(row["kernel"], row["size"]) for row in rows("h200.json")}
    assert measured == {(name, n) for n in ROUNDS for name in ("cublas", *(kernel.name for kernel in solutions()))}


def test_every_kernel_of_two_warps_was_measured() -> None:
    measured = {row["kernel"] for row in rows("h200_two_warps.json")}
    assert measured == {variant.name for variant in two_warps.VARIANTS} | {"cublas"}


@pytest.mark.parametrize("file", ["h200.json", "h200_variants.json", "h200_halves.json", "h200_two_warps.json"])
@pytest.mark.parametrize("way", ["warm", "cold"])
def test_rates_follow_from_the_times(file: str, way: str) -> None:
    found = [row for row in rows(file) if way in row]  # some are there for their errors alone
    base = {row["size"]: row[way]["median_us"] for row in found if row["kernel"] == "cublas"}
    for row in found:
        here, expected = row[way], rates(row[way]["median_us"], row["size"], base[row["size"]])
        assert here["tflops"] == pytest.approx(expected["tflops"], abs=0.002)
        assert here["percent_of_cublas"] == pytest.approx(expected["percent_of_cublas"], abs=0.02)
        assert here["p10_us"] <= here["median_us"] <= here["p90_us"]


def test_tensor_cores_round_as_cublas_does() -> None:
    by_place = {(row["kernel"], row["size"]): row for row in rows("h200_halves.json")}
    ours, half, plain = (by_place[name, 4096] for name in ("tensor_cores", halves.HALF_SUMS, halves.IN_FLOAT32))
    assert ours["error"] == by_place["cublas", 4096]["error"], "the same sums, cut off at the same places"
    assert plain["error"] < ours["error"] < half["error"] / 100
    assert ours["error_positive"] > 10 * plain["error_positive"], "cuts do not cancel"


def test_spread() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median_us": 3.0, "p10_us": 1.0, "p90_us": 5.0}


def test_a_column_may_say_its_own_way() -> None:
    [row] = [row for row in rows("h200.json") if (row["kernel"], row["size"]) == ("cublas", 1024)]
    filled = Numbers(Course(ROOT)).filled
    table = filled("h200 us", "| us | 1024 warm | 1024 cold |\n|---|---:|---:|\n| cublas | | |\n")
    assert f"| {row['warm']['median_us']:.1f} | {row['cold']['median_us']:.1f} |" in table
    with pytest.raises(LessonError, match="hot"):
        filled("h200 us", "| us | 1024 hot |\n|---|---:|\n| cublas | |\n")
