"""The speed that each lesson has to reach on an H200, compared with the stored measurements.

A limit that is missed is listed as missed, and has to be taken off that list when it is reached.
"""

from __future__ import annotations

import pytest

from checks.course.limits import MEAN, Limit, limits, mean_of_squares, table
from checks.course.tables import STORED

MISSED = {
    "mma tma, 4096, cold: 77% of cublas float16 (aim)",
    "mma tma, 8192, cold: 77% of cublas float16 (aim)",
    "mma tma, 4096, cold: 90% of 646 (aim)",
    "mma tma, 8192, cold: 90% of 646 (aim)",
    "precision int8_tma, 4096, cold: 110% of torch int8 TN",
    "precision int8_tma, 8192, cold: 110% of torch int8 TN",
    "precision int8_tma, 4096, cold: 135% of 788 (aim)",
    "precision int8_tma, 8192, cold: 135% of 891 (aim)",
    "precision, 4096, cold: 300% of cublas float32 (aim)",
    "ragged_mma NT, 4096, cold: 80% of cublas NT",
    "ragged_mma TN, 4096, cold: 80% of cublas TN",
    "ragged_mma TT, 4096, cold: 80% of cublas TT",
    "beat_cublas tma, 4096, cold: 110% of cublas (aim)",
    "epilogue, 64, cold: 170% of any_shape then kernel",
    "dgemm, 4096, cold: 92% of loop float64",
    "dgemm, 8192, cold: 92% of loop float64",
    "precision tf32_tma, 8192, cold: 65% of cublas tf32",
    "clusters, 2048, warm: 101% of cublas (aim)",
    "clusters, 8192, warm: 105% of cublas (aim)",
    "clusters, 16384, warm: 105% of cublas (aim)",
    "fp8 fast, 2048, warm: 110% of torch fp8",
    "fp8 fast, 4096, warm: 105% of torch fp8 (aim)",
    "fp8 fast, 8192, warm: 105% of torch fp8 (aim)",
    "fp8 fast, 16384, warm: 105% of torch fp8 (aim)",
    "fp8 tf32, 2048, warm: 105% of cublas (aim)",
    "fp8 tf32, 4096, warm: 105% of cublas (aim)",
    "fp8 tf32, 8192, warm: 105% of cublas (aim)",
    "fp8, 2048, warm: 92% of fp8 fast (aim)",
    "fp8, 4096, warm: 92% of fp8 fast (aim)",
    "fp8, 8192, warm: 92% of fp8 fast (aim)",
}


@pytest.mark.parametrize("limit", [*limits()], ids=lambda limit: limit.name)
def test_a_limit_is_reached_or_listed_as_missed(limit: Limit) -> None:
    reached = limit.reached()
    assert (reached >= limit.percent) == (limit.name not in MISSED), f"{reached:.1f}%"


def test_what_is_missed_is_a_limit() -> None:
    assert {limit.name for limit in limits()} >= MISSED


def test_beat_cublas_is_faster_than_cublas_on_the_whole() -> None:
    assert mean_of_squares() >= MEAN


def test_the_table_shows_every_limit_and_what_is_missed() -> None:
    made = table(STORED)
    assert made.row_count == 1 + len([*limits()])
    assert [*made.columns[-1].cells].count("missed") + [*made.columns[-1].cells].count("aim, missed") == len(MISSED)
