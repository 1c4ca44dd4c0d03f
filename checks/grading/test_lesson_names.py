"""File names as students and learning platforms write them: each gives a lesson, or a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.grading.inputs import one_student, read_student
from gemm_lessons.grading.lesson_names import lesson_named
from gemm_lessons.grading.naming import claim, owner_of

COURSE = packaged_course()
LESSONS = COURSE.names

# A file in a student's folder or archive, and its lesson.
NAMES = {
    # the lesson's own name wins over digits, versions, types, folders and old numbers
    "dp4a.cu": "dp4a",
    "DP4A.CU": "dp4a",
    "dp4a_final.cu": "dp4a",
    "14_dp4a.cu": "dp4a",
    "block_tile_v2.cu": "block_tile",
    "block_tile_2.cu": "block_tile",
    "block_tile2.cu": "block_tile",
    "exercise 2/03_block_tile.cu": "block_tile",
    "02/block_tile.cu": "block_tile",
    "02_coalesced/block_tile.cu": "block_tile",
    "naive_v9.cu": "naive",
    "naive-fp16.cu": "naive",
    "naive_float4.cu": "naive",
    "naive_sm90.cu": "naive",
    "12_two_warps.cu": "two_warps",
    "13_dgemm.cu": "dgemm",
    "15_tensor_cores.cu": "tensor_cores",
    "18_split_k/kernel.cu": "split_k",
    "19_beat_cublas/solution_of_mine.cu": "beat_cublas",
    "04_thread_tile.cu": "thread_tile",
    "mma_fp8.cu": "mma",
    "mma_m16n8k16.cu": "mma",
    "double_precision_naive.cu": "naive",
    "dgemm_naive.cu": "naive",
    "splitK.cu": "split_k",
    "SplitK2.cu": "split_k",
    "split-k (1).cu": "split_k",
    "BlockTile.cu": "block_tile",
    "blockTile_mueller.cu": "block_tile",
    "BLOCKTILE.CU": "block_tile",
    "block tile.cu": "block_tile",
    "myblocktilekernel.cu": "block_tile",
    "double_buffering_v3.cu": "double_buffer",
    "my_block_tiles.cu": "block_tile",
    "kernel_dp4a_v4.cu": "dp4a",
    "v5_thread_tile_8x8.cu": "thread_tile",
    "03.block_tile.cu": "block_tile",
    "Gruppe7_Lektion3.cu": "block_tile",
    "Block-Tile - Kopie.cu": "block_tile",
    "block_tile - Kopie (2).cu": "block_tile",
    "block_tile_128x128x8.cu": "block_tile",
    "block_tile_32x32.cu.txt": "block_tile",
    "2026-03-12_block_tile.cu": "block_tile",
    "12345678_block_tile.cu": "block_tile",
    "gruppe07_block_tile.cu": "block_tile",
    "double_buffer_2_stages.cu": "double_buffer",
    "two_warps_4.cu": "two_warps",
    "first_kernel.cu": "first_kernel",
    "bank_conflict.cu": "bank_conflicts",
    "tensorcore_v2.cu": "tensor_cores",
    "vector_load_float4.cu": "vector_loads",
    "cluster.cu": "clusters",
    "Lab 05/role_2.cu": "roles",
    "epilogues.cu": "epilogue",
    "lab4_wgmma.cu": "wgmma",
    "ozaki_scheme_fp64.cu": "ozaki",
    "Thread Tile \u2014 m\u00fcller.cu": "thread_tile",
    "threadtile_s1234567.cu": "thread_tile",
    # a number
    "03.cu": "block_tile",
    "3.cu": "block_tile",
    "03 (1).cu": "block_tile",
    "03-1.cu": "block_tile",
    "03 - Copy.cu": "block_tile",
    "03 - Kopie.cu": "block_tile",
    "lesson3.cu": "block_tile",
    "Lesson-3.cu": "block_tile",
    "Lesson_03_v2.cu": "block_tile",
    "Lektion 3.cu": "block_tile",
    "Leçon 3.cu": "block_tile",
    "Übung_03.cu": "block_tile",
    "Übung 3 Müller.cu": "block_tile",
    "U\u0308bung3.cu": "block_tile",  # as macOS writes it
    "Uebung03_mueller_12345678.cu": "block_tile",
    "Aufgabe 3.cu": "block_tile",
    "Aufgabe3/kernel.cu": "block_tile",
    "ex03.cu": "block_tile",
    "kernel_3.cu": "block_tile",
    "练习3.cu": "block_tile",
    "第3课.cu": "block_tile",
    "王伟_03.cu": "block_tile",
    "03tiles.cu": "block_tile",
    "3_tile_fp16.cu": "block_tile",
    "03_v2.cu": "block_tile",
    "03_final2.cu": "block_tile",
    "03_2026-03-12.cu": "block_tile",
    "2026-03-12_14-30-05_03.cu": "block_tile",
    "12.03.2026 03.cu": "block_tile",
    "20260312_03.cu": "block_tile",
    "Gruppe 7 03.cu": "block_tile",
    "hw2/03.cu": "block_tile",
    "hw2_lesson03.cu": "block_tile",
    "week 2/lesson 3/kernel.cu": "block_tile",
    "Woche 2/03/kernel.cu": "block_tile",
    "exercise 2/03.cu": "block_tile",
    "03/my try 2.cu": "block_tile",
    "03/2.cu": "block_tile",
    "03/exercise1.cu": "block_tile",
    "03_block_tile/exercise 2/kernel.cu": "block_tile",
    "03_block_tile/attempt 4/kernel.cu": "block_tile",
    "submission_1234567/03/kernel.cu": "block_tile",
    "gemm-ana-lima-main/lessons/03_block_tile/kernel.cu": "block_tile",
    "kernel (2)/03.cuh": "block_tile",
    "03_WS24_mueller.cu": "block_tile",
    "WS 24/03.cu": "block_tile",
    "matrikel 12/03.cu": "block_tile",
    # two names, and what decides
    "03_block_tile_naive_loops.cu": "block_tile",
    "block_tile/naive_and_coalesced.cu": "block_tile",
    "03 12-5-2026.cu": "block_tile",
    # a question
    "12-5-2026.cu": (),
    "persistent_cluster.cu": ("persistent", "clusters"),
    "tensor_core_mma.cu": ("tensor_cores", "mma"),
    "vectorized_loads.cu": (),
    "warp_tiling_v3.cu": (),
    "5_2.cu": (),
    "coalesed.cu": (),
    "hw 3/main.cu": (),
    "naive_vs_block_tile.cu": ("naive", "block_tile"),
    "tensor_cores_mma.cu": ("tensor_cores", "mma"),
    "lesson 2 lesson 3.cu": ("coalesced", "block_tile"),
    "02-03.cu": ("coalesced", "block_tile"),
    "gemm.cu": (),
    "kernel.cu": (),
    "kernel-1.cu": (),
    "kernel (3).cu": (),
    "fp16.cu": (),
    "sgemm_float4.cu": (),
    "int8.cu": (),
    "sm_90.cu": (),
    "v2.cu": (),
    "sgemm_v5.cu": (),
    "naive2coalesced.cu": ("naive", "coalesced"),
    "2d_blocktiling.cu": (),
    "gemm_64x64.cu": (),
    "2026-03-12.cu": (),
    "12.03.26.cu": (),
    "12345678.cu": (),
    "Gruppe 7.cu": (),
    "hw3.cu": (),
    "作业3.cu": (),
    "WS_24.cu": (),
    "wmma.cu": (),
    "lesson 42.cu": (),
    "ana_03/gemm.cu": (),
    "Abgabe_03_mueller/gemm.cu": (),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_lesson_of_a_file(name: str, tmp_path: Path) -> None:
    expected = NAMES[name]
    found = claim(name, LESSONS)
    if isinstance(expected, str):
        assert found.lesson[3:] == expected
        return
    assert found is None
    stem = name.rpartition("/")[2].removesuffix(".cu")
    if expected:
        assert tuple(lesson[3:] for lesson in lesson_named(stem, LESSONS).lessons) == expected
    path = tmp_path / "ana" / name
    path.parent.mkdir(parents=True)
    path.write_text("// mine")
    lessons = {lesson: COURSE.lesson(lesson) for lesson in LESSONS[:4]}
    handed, remarks = read_student(one_student(tmp_path / "ana", "ana").students[0], lessons, LESSONS)
    assert {it.status for it in handed.values()} == {"missing"}
    (remark,) = remarks
    assert remark.startswith(f"{name} was not graded: its name ")
    assert all(lesson in remark for lesson in expected)


@pytest.mark.parametrize(
    ("name", "owner", "file"),
    [
        ("Ana Lima_123456_assignsubmission_file_03.cu", "Ana Lima", "03.cu"),
        ("Müller, Jörg_98_assignsubmission_file_block_tile_v2.cu", "Müller, Jörg", "block_tile_v2.cu"),
        ("limaana_LATE_12345_67890_dp4a.cu", "limaana", "dp4a.cu"),
        ("limaana_12345_67890_03_block_tile-1.cu", "limaana", "03_block_tile-1.cu"),
        ("ana_03.cu", "ana", "03.cu"),
        ("ana-block_tile.cu", "ana", "block_tile.cu"),
        ("ana_block_tile_v2.cu", "ana", "block_tile_v2.cu"),
        ("jörg.müller_dp4a.cu", "jörg.müller", "dp4a.cu"),
        ("王伟_03.cu", "王伟", "03.cu"),
    ],
)
def test_the_student_of_a_loose_file(name: str, owner: str, file: str) -> None:
    found = owner_of(name, LESSONS, loose=True)
    assert (found.name, found.file) == (owner, file)


def test_names_of_lessons_to_come_are_told_apart() -> None:
    lessons = ["15_mma", "17_ragged_mma", "18_wgmma", "19_roles", "20_persistent", "21_clusters", "22_fp8"]
    for name in ("ragged_mma", "wgmma", "roles_v2", "fp8", "persistent", "clusters"):
        assert lesson_named(name, lessons).lesson == next(it for it in lessons if it[3:] in name and it != "15_mma")
    assert lesson_named("mma", lessons).lesson == "15_mma"
    assert lesson_named("wgmma_fp8", lessons).lesson == "18_wgmma"
