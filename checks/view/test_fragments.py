"""Pictures of fragments say what lanes hold: what a warp finds in its registers, on the simulator."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gemm_lessons
from checks.compiling import must_compile
from checks.view.browser import Browser, chromium
from gemm_lessons.engine.pictures.fragments import Held, WarpProduct, products
from gemm_lessons.report.page import page_of
from gemm_lessons.view import View

M, N, K = 8, 32, 16  # a product that a warp computes transposed
SOURCE = f"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void held(const half *A, const half *B, const float *C, float *a_held, float *b_held,
                                float *c_held, float *D)
{{
    wmma::fragment<wmma::matrix_a, {M}, {N}, {K}, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, {M}, {N}, {K}, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, {M}, {N}, {K}, float> c;
    wmma::load_matrix_sync(a, A, {K});
    wmma::load_matrix_sync(b, B, {N});
    wmma::load_matrix_sync(c, C, {N}, wmma::mem_row_major);
    for (int i = 0; i < 16; i++)
        a_held[threadIdx.x * 16 + i] = __half2float(a.x[i]);
    for (int i = 0; i < 16; i++)
        b_held[threadIdx.x * 16 + i] = __half2float(b.x[i]);
    for (int i = 0; i < 8; i++)
        c_held[threadIdx.x * 8 + i] = c.x[i];
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(D, c, {N}, wmma::mem_row_major);
}}
"""


@pytest.fixture(scope="module")
def product() -> WarpProduct:
    made = must_compile(SOURCE, path="held.cu", entry="held")
    (found,) = products(made.ptx, made.entry)
    return found


def drawn(it: Held) -> dict[tuple[int, int], set[int]]:
    """Lane and register -> indices of the elements, counted row by row."""
    found = defaultdict(set)
    for i, place in enumerate(zip(it.lanes, it.registers, strict=True)):
        found[place].add(i)
    return dict(found)


def test_a_picture_of_wmma_is_what_lanes_find_in_their_registers(product: WarpProduct) -> None:
    a, b, c = (np.arange(rows * cols, dtype=np.float32) for rows, cols in ((M, K), (K, N), (M, N)))
    held = [np.zeros(32 * size, np.float32) for size in (16, 16, 8)]
    arguments = [a.astype(np.float16), b.astype(np.float16), c, *held, np.zeros(M * N, np.float32)]
    gemm_lessons.simulate(SOURCE, "held", 1, 32, arguments)
    assert product.text == "wmma.mma m8n32k16"
    for it, elements, side in zip(product.matrices, held, (2, 2, 1), strict=True):
        expected = drawn(it)
        registers = max(it.registers) + 1
        for lane, found in enumerate(elements.reshape(32, -1).astype(int)):
            for register in range(registers):  # what comes behind is a second copy
                assert set(found[register * side : (register + 1) * side]) == expected[lane, register], (it.name, lane)


def test_a_picture_of_mma_is_that_of_the_manual() -> None:
    """PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16 with floating point type"."""
    registers = ", ".join(f"%r{i}" for i in range(6))
    sums = ", ".join(f"%f{i}" for i in range(4))
    a, b = registers[:18], registers[20:]
    (found,) = products(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<6>;\n.reg .f32 %f<4>;\n"
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{sums}}}, {{{a}}}, {{{b}}}, {{{sums}}};\nret;\n}}\n",
        "k",
    )
    assert found.text == "mma.sync m16n8k16"
    left, right, total = (drawn(it) for it in found.matrices)
    for lane in range(32):
        group, number = divmod(lane, 4)
        for i in range(8):
            row = group if i in (0, 1, 4, 5) else group + 8
            assert row * 16 + 2 * number + i % 2 + (8 if i >= 4 else 0) in left[lane, i // 2]
        for i in range(4):
            assert (2 * number + i % 2 + (8 if i >= 2 else 0)) * 8 + group in right[lane, i // 2]
            assert {(group + (8 if i >= 2 else 0)) * 8 + 2 * number + i % 2} == total[lane, i]


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")
def test_a_lane_and_what_it_holds_in_the_browser(product: WarpProduct, seen: View, tmp_path: Path) -> None:
    path = tmp_path / "fragments.html"
    view = replace(seen, sides=tuple(replace(side, products=(product,)) for side in seen.sides))
    path.write_text(page_of(view), encoding="utf-8")
    with Browser() as browser:
        browser.show(path)
        browser.run("document.getElementById('lane-0').value = 17")
        browser.run("document.getElementById('lane-0').dispatchEvent(new Event('input'))")
        assert browser.run("document.querySelectorAll('#fragments figure').length") == 1, "both sides have the same"
        lit = browser.run("[...document.querySelectorAll('#fragments .mine text')].map((it) => it.textContent)")
        assert lit == ["17"] * sum(it.lanes.count(17) for it in product.matrices)
        said = browser.run("document.querySelector('output[for=lane-0]').textContent")
        assert said.startswith("Lane 17 (group 4, number 1)A: a0 row 4, columns 2 to 3; ")
        assert browser.problems == []
