"""Products of warpgroups: an H200's answers, a GEMM against NumPy, and what the checkers say of broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.readings.simulator.record_wgmma import ALL, FIRST, KEPT, cases_of, fingerprints, simulated
from checks.simulator.wgmma_cases import TYPES, WgmmaForm, form, forms
from gemm_lessons import simulate
from gemm_lessons.engine.counters.counters import TILES
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.engine.records.metrics import METRICS

M, N, K, STEP = 64, 64, 64, 16
# C = A B: a block of 128 threads. A and B are K-major and unswizzled in shared memory, in tiles of 8 rows x 16 bytes.
GEMM = (Path(__file__).parent / "sources" / "wgmma_gemm.cu").read_text()
RIGHT = {
    "STAGES": "1",
    "PROXY": 'asm volatile("fence.proxy.async;" ::: "memory");',
    "FENCE": 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    "EARLY": "",
    "WAIT": 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");',
    "AFTER": "__syncthreads();",
    "LAST": "",
    "1, 1, 1, 0, 0;": "p, 1, 1, 0, 0; }",
    '"wgmma.mma': '"{ .reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma',
}


def source(**other: str) -> str:
    text = GEMM
    for name, part in {**RIGHT, **other}.items():
        text = text.replace(name, part)
    text = text.replace("LIST", "{" + ", ".join(f"%{i}" for i in range(32)) + "}")
    return text.replace("RESULTS", ", ".join(f'"+f"(d[{i}])' for i in range(32)))


def launched(*, depth: int = K, **other: str) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(1)
    a, b = (random.integers(-8, 9, (64, depth)).astype(np.float32) for _ in range(2))
    c = np.full((M, N), np.nan, np.float32)
    halves = [(it.view(np.uint32) >> 16).astype(np.uint16) for it in (a, b)]
    found = simulate(source(**other), "k", 1, 128, [*halves, c, np.int32(depth)], arch="sm_90a")
    return found, c, a @ b.T


def test_a_product_against_numpy() -> None:
    found, c, expected = launched()
    assert found.fault is None
    assert not found.findings, found.findings
    assert np.array_equal(c, expected)


def test_scale_d_may_be_a_number() -> None:
    """Public kernels give 1 instead of a predicate."""
    found, c, expected = launched(**{"1, 1, 1, 0, 0;": "1, 1, 1, 0, 0;", '"wgmma.mma': '"wgmma.mma'})  # type: ignore[arg-type]
    assert not found.findings, found.findings
    assert np.array_equal(c, expected)


def test_two_stages_with_a_product_in_flight() -> None:
    """The wait leaves the newest group: the other stage may be refilled."""
    one = 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'
    found, c, expected = launched(STAGES="2", WAIT=one, LAST=RIGHT["WAIT"])
    assert not found.findings, found.findings
    assert np.array_equal(c, expected)


@pytest.mark.parametrize(
    ("parts", "kind", "case"),
    [
        ({"PROXY": ""}, "async_proxy", "product"),
        ({"FENCE": ""}, "async_proxy", "registers"),
        ({"WAIT": "", "LAST": RIGHT["WAIT"]}, "async_in_flight", "product"),
        ({"EARLY": "if (d[0] == 12345.0f) C[0] = 1.0f;"}, "async_in_flight", "accumulator"),
        ({"WAIT": "", "STAGES": "2"}, "async_in_flight", "accumulator"),
        (
            {"WAIT": 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");', "LAST": RIGHT["WAIT"]},
            "async_in_flight",
            "left running",
        ),
    ],
)
def test_what_is_missing_is_found(parts: dict[str, str], kind: str, case: str) -> None:
    found, _, _ = launched(**parts)  # type: ignore[arg-type]
    assert (kind, case) in [(it.kind, it.case) for it in found.findings], found.findings
    assert all(it.line for it in found.findings)
    of_wgmma = ("product", "left running", "registers", "accumulator")
    assert all("wgmma" in it.message for it in found.findings if it.case in of_wgmma)


@pytest.mark.parametrize("waits", [True, False])
def test_sums_that_the_compiler_moves_to_local_memory_are_used_where_they_are_read(waits: bool) -> None:
    """The loop that stores C is not unrolled. NVVM moves the sums before the wait, and ptxas waits there, too."""
    one = 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'
    loop = {"for (int i = 0; i < 32; i++)": "#pragma unroll 1\n    for (int i = 0; i < 32; i++)"}
    found, c, expected = launched(STAGES="2", WAIT=one, LAST=RIGHT["WAIT"] if waits else "", **loop)  # type: ignore[arg-type]
    assert np.array_equal(c, expected)
    cases = [(it.case, source(STAGES="2", **loop).splitlines()[it.line - 1].strip()[:8]) for it in found.findings]
    assert cases == [] if waits else ("accumulator", "C[row * ") in cases, found.findings


@pytest.mark.parametrize(("change_first", "cases"), [(True, {"operand"}), (False, set())])
def test_a_register_of_a_is_changed_before_the_wait(change_first: bool, cases: set[str]) -> None:
    """Fragments of A in registers: a product reads them at any moment before its wait."""
    after = ("add.u32 a, a, 1;", "wgmma.wait_group.sync.aligned 0;")[:: 1 if change_first else -1]
    parts = {
        "1, 1, 1, 0, 0;": "p, 1, 1, 0; }",
        "LIST, %32, %33,": "LIST, {a, %33, %34, %35}, %36,",
        '"wgmma.mma': '"{ .reg .pred p; .reg .b32 a; setp.eq.b32 p, 0, 0; mov.b32 a, %32; wgmma.mma',
        "p, 1, 1, 0; }": f"p, 1, 1, 0; wgmma.commit_group.sync.aligned; {' '.join(after)} }}",
        '"l"(tile(As[stage]))': '"r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3])',
        "FENCE": """unsigned f[4];
            for (int i = 0; i < 4; i++) {
                const int row = 16 * (t / 32) + t % 32 / 4 + i % 2 * 8, k = i / 2 * 8 + t % 4 * 2;
                f[i] = *(unsigned *)&A[row * k_all + k0 + k];
            }
            """
        + RIGHT["FENCE"],
    }
    found, c, expected = launched(**parts)  # type: ignore[arg-type]
    assert {it.case for it in found.findings} == cases, found.findings
    assert change_first or np.array_equal(c, expected)


@pytest.mark.counted
def test_a_tile_outside_of_shared_memory_is_a_fault() -> None:
    """Machine code is followed without the tiles of descriptors, so it cannot contradict that."""
    found, _, _ = launched(**{"8ull << 32": "8192ull << 32"})  # type: ignore[arg-type]
    assert (found.fault.kind, found.fault.line is not None) == ("out_of_bounds", True)


def test_a_wait_is_for_the_whole_warpgroup() -> None:
    """A product is one operation of four warps: one thread may refill, or signal, after its own wait."""
    found, c, expected = launched(AFTER="")
    assert not found.findings, found.findings
    assert np.array_equal(c, expected)


@pytest.mark.parametrize(
    ("written", "fails"), [("mov.f32 %0, 0f00000000;", False), ("add.f32 %0, %0, 0f00000000;", True)]
)
def test_zeros_after_the_fence(written: str, fails: bool) -> None:
    """NVRTC moves the zeros of a loop whose first iteration is apart past the fence; ptxas then waits for them."""
    found, c, expected = launched(depth=16, FENCE=f"""{RIGHT["FENCE"]} asm volatile("{written}" : "+f"(d[0]));""")
    assert [it.case for it in found.findings] == ["registers"] * fails
    assert fails or np.array_equal(c, expected)


ROLES = Path(__file__).with_name("kernels") / "wgmma_roles.cu"
COMMON = Path(__file__).parents[2] / "lessons" / "common"
PARTS = {
    "AWAIT_EMPTY": "await(empty[stage], i / STAGES - 1 & 1)",
    "AWAIT_FULL": "await(full[stage], i / STAGES & 1)",
    "WAIT": 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")',
}


ROLES_SHARED = 3 * 24576  # bytes: three stages


def roles_source(**other: str) -> str:
    text = ROLES.read_text(encoding="utf-8")
    for name, part in {**PARTS, **other}.items():
        text = text.replace(name + ";", part + ";")
    return text


def roles_arguments(m: int, n: int, k: int) -> tuple[list[Any], Any, Any]:
    """Return the arguments, C and the right answer."""
    random = np.random.default_rng(2)
    a, b = (random.integers(-8, 9, (rows, k)).astype(np.float32) for rows in (m, n))
    halves = [(it.view(np.uint32) >> 16).astype(np.uint16) for it in (a, b)]
    maps = [TensorMap(it, (rows, 64), 128) for it, rows in zip(halves, (128, 64), strict=True)]
    c = np.full((m, n), np.nan, np.float32)
    return [*maps, c, *(np.int32(it) for it in (m, n, k))], c, a @ b.T


def with_roles(m: int = 256, n: int = 128, k: int = 320, **other: str) -> tuple[Any, Any, Any]:
    given, c, expected = roles_arguments(m, n, k)
    found = simulate(
        roles_source(**other), "k", (n // 64, m // 128), 384, given,
        arch="sm_90a", dynamic_shared=ROLES_SHARED, include_dirs=[COMMON],
    )  # fmt: skip
    return found, c, expected


def test_a_producer_and_two_consumers() -> None:
    found, c, expected = with_roles()
    assert found.fault is None, found.fault
    assert not found.findings, found.findings
    assert np.array_equal(c, expected)


@pytest.mark.counted
def test_counters_of_an_h200() -> None:
    """Counters of Nsight Compute on an H200 (driver 580), at 512 x 512 x 512 and of the one-block kernel."""
    found, _, _ = with_roles(512, 512, 512)
    counted = found.counters.totals
    assert counted["smsp__inst_executed_pipe_tensor_op_hmma.sum"] == 8192
    assert counted["memory_l1_wavefronts_shared"] == counted["memory_l1_wavefronts_shared_ideal"] == 65536
    assert counted["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 65536
    assert "bank conflicts" in found.counters.inexact["memory_l1_wavefronts_shared"]
    assert counted["simulator__multiply_adds_tensor.sum"] == 512**3
    counted = launched()[0].counters.totals
    assert counted["smsp__inst_executed_pipe_tensor_op_hmma.sum"] == 16
    assert (counted["memory_l1_wavefronts_shared"], counted["memory_l1_wavefronts_shared_ideal"]) == (640, 384)
    assert counted["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 512


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        ({"AWAIT_FULL": "(void)0"}, {"async_in_flight"}),
        ({"AWAIT_EMPTY": "(void)0"}, {"async_in_flight", "mbarrier"}),
        ({"WAIT": "(void)0"}, {"async_in_flight"}),
        ({"AWAIT_FULL": "await(full[stage], (i / STAGES & 1) ^ 1)"}, {"async_in_flight"}),
    ],
)
def test_roles_without_a_wait_are_found(parts: dict[str, str], kinds: set[str]) -> None:
    found, _, _ = with_roles(**parts)  # type: ignore[arg-type]
    seen = {it.kind for it in found.findings} | ({found.fault.kind} if found.fault else set())
    assert seen & kinds, (seen, found.fault)


@pytest.mark.parametrize(
    ("parts", "case", "says"),
    [
        ({"AWAIT_FULL": "(void)0"}, "bulk load", "must first see the end of their phase of the mbarrier full["),
        ({"AWAIT_FULL": "await(full[stage], i & 1)"}, "ended before", "was for the phase before phase 0"),
        ({"AWAIT_FULL": "await(full[stage], 0)"}, "ended before", "was for phase 0, which ended before this copy"),
        ({"sizeof(Stage))": "sizeof(stages[0].a))"}, "ended without", "ended without the bytes of this copy"),
        ({"arrive_for(full[stage], sizeof(Stage))": "arrive(full[stage])"}, "ended without", "phase 0 of the mbarrier"),
        ({"WAIT": PARTS["WAIT"].replace(" 0;", " 1;")}, "left running", "wgmma.wait_group 1 in line"),
        ({"WAIT": "(void)0"}, "product", "the warps that issued it must wait"),
    ],
)
def test_why_a_wait_did_not_cover_a_copy_or_product(parts: dict[str, str], case: str, says: str) -> None:
    found, _, _ = with_roles(**parts)  # type: ignore[arg-type]
    messages = [it.message for it in found.findings if it.case == case]
    assert messages, [(it.case, it.message) for it in found.findings]
    assert says in messages[0]


def test_products_that_start_before_anything_has_arrived() -> None:
    """The consumers run first: their stage is empty, and the copy then overwrites what they read."""
    found, _, _ = with_roles(AWAIT_FULL="await(full[stage], (i / STAGES & 1) ^ 1)")
    cases = {it.case: it.message for it in found.findings if it.kind == "async_in_flight"}
    assert {"not filled", "ended before"} & set(cases), cases


QUICK = [form(*types, 8, registers=where) for types in TYPES for where in (False, True)]
QUICK += [it for it in forms() if (any(it.transposed) and it.n == 64) or (any(it.negated) and it.types[1] == "bf16")]
READINGS = json.loads(KEPT.read_text(encoding="utf-8"))["products"]


def compared(of: WgmmaForm, style: str) -> None:
    assert fingerprints(simulated(of, *cases_of(of, style, FIRST)))[0] == READINGS[str(of)][style][0]


@pytest.mark.parametrize(("number", "of"), list(enumerate(QUICK)), ids=lambda it: str(it))
def test_an_h200_s_answers(number: int, of: WgmmaForm) -> None:
    compared(of, ALL[number % len(ALL)])


@pytest.mark.long
@pytest.mark.parametrize("of", forms(), ids=str)
def test_every_answer(of: WgmmaForm) -> None:
    for style in ALL:
        compared(of, style)


@pytest.mark.parametrize(
    "name",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16",
    ],
)
def test_other_forms_are_refused_by_name(name: str) -> None:
    from gemm_lessons.engine.machine.warpgroups import form_of
    from gemm_lessons.engine.ptx.records import Instruction

    instruction = Instruction(0, "wgmma", tuple(name.split(".")[1:]), (), None, False, None, name)
    with pytest.raises(UnsupportedKernel, match="wgmma"):
        form_of(instruction)


@pytest.mark.counted
def test_branches_that_depend_on_sums_are_not_counted_and_said() -> None:
    found, c, expected = launched(LAST=RIGHT["LAST"] + " if (d[0] > 1e9f) return;")
    assert np.array_equal(c, expected)
    assert "branches depend on sums of tensor cores" in found.counters.obstacle


@pytest.mark.counted
def test_only_multiply_adds_that_depend_on_sums_are_marked() -> None:
    """ptxas makes a guard of the branch. All other counters are of the machine code."""
    last = RIGHT["LAST"] + " if (d[0] > 1e9f) d[1] = fmaf(d[1], d[0], d[2]);"
    found, _, _ = launched(LAST=last)
    assert not found.counters.obstacle
    marked = {name: why for name, why in found.counters.inexact.items() if why != TILES}
    assert list(marked) == [METRICS["ffma"]]
    assert "sums of tensor cores decide" in marked[METRICS["ffma"]]


@pytest.mark.counted
@pytest.mark.parametrize("factor", [1, 2.0**-110])
def test_sums_that_are_divided_are_counted_if_no_division_is_slow(factor: float) -> None:
    """Which division calls its slow path is known from the numbers on PTX; where one does, all is counted there."""
    found, c, expected = launched(LAST=RIGHT["LAST"] + f" d[0] = d[0] * {float(factor)}f / (fabsf(d[1]) + 1);")
    first, second = (expected[np.arange(M) % 16 < 8, at:8:2] for at in (0, 1))
    quotients = first * np.float32(factor) / (abs(second) + np.float32(1))
    assert np.array_equal(c[np.arange(M) % 16 < 8, 0:8:2], quotients)
    marked = {name for name, why in found.counters.inexact.items() if why != TILES}
    if factor == 1:
        assert not found.counters.obstacle
        assert not marked
        assert found.counters.totals[METRICS["ffma"]] >= 4 * M * 2
    else:
        assert "a division takes its slow path" in found.counters.obstacle
        assert METRICS["ffma"] in marked


SPILLED = """
    volatile float kept[2];
    volatile int place[1];
    kept[0] = d[0];
    place[0] = PLACE;
    kept[1] = kept[0];
    ((volatile float *)As)[place[0]] = 1;
    d[0] = kept[1];
"""


@pytest.mark.counted
@pytest.mark.parametrize(("place", "counted"), [("t", True), ("d[0] > 1e9f", False)])
def test_sums_on_the_stack_beside_an_address_there(place: str, counted: bool) -> None:
    found, c, expected = launched(LAST=RIGHT["LAST"] + SPILLED.replace("PLACE", place))
    assert np.array_equal(c, expected)
    assert (not found.counters.obstacle) is counted, found.counters.obstacle
