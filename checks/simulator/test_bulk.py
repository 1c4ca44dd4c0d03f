"""``cp.async.bulk``: bytes, faults of addresses and sizes, and what is said of copies that are still under way."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.cluster_cases import changed
from checks.simulator.conftest import Run
from checks.simulator.phase_cases import HEAD, MIRROR, PIPELINE
from gemm_lessons import simulate
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.results import Launched

TOGETHER = True

ARCH = "sm_90"

# Each half is announced: the second one when the first may have ended the phase.
MORE = 'asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(AT(&bar)), "r"(512) : "memory");'
LOADS = [f"bulk_load(tile + {it}, x + {it} + 256 * blockIdx.x, 512, &bar);" for it in (0, 128)]
WHOLE = "expect(&bar, 1024); bulk_load(tile, x + 256 * blockIdx.x, 1024, &bar);"


def serious(launched: Launched) -> set[tuple[str, str]]:
    return {(finding.kind, finding.severity) for finding in launched.findings if finding.severity != "note"}


def mirror(run: Run, *changes: tuple[str, str], fault: str | None = None) -> Launched:
    source = MIRROR
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    launched = run(source, 4, 256, [x, y], fault=fault)
    if not fault:
        assert np.array_equal(y.reshape(4, 256), x.reshape(4, 256)[:, ::-1])
    return launched


def test_bytes_come_and_go(run: Run) -> None:
    assert not serious(mirror(run))


@pytest.mark.parametrize(
    ("old", "new", "fault", "says"),
    [
        ("bulk_load(tile, x +", "bulk_load(tile + 2, x +", "misaligned", "a multiple of 16"),
        ("bulk_load(tile, x +", "bulk_load(tile, x + 1 +", "misaligned", "a multiple of 16"),
        ("x + 256 * blockIdx.x, 1024, &bar", "x + 256 * blockIdx.x, 1000, &bar", "misaligned", "copies 1000 bytes"),
        ("x + 256 * blockIdx.x, 1024", "x + 16 + 256 * blockIdx.x, 1024", "out_of_bounds", "1,024 bytes copied by"),
        ("tile, x + 256", "tile + 64, x + 256", "out_of_bounds", "tile: byte 256"),
        (WHOLE, "expect(&bar, 512); " + LOADS[0] + MORE + LOADS[1], "mbarrier", "is told of 512 more bytes after"),
        ("expect(&bar, 1024)", "expect(&bar, 2048)", "deadlock", "still needs 1,024 bytes"),
        ("init(&bar, 1);", "init(&bar, 2);", "deadlock", "1 of 2 arrivals"),
    ],
)  # fmt: skip
def test_faults(run: Run, old: str, new: str, fault: str, says: str) -> None:
    launched = mirror(run, (old, new), fault=fault)
    assert says in launched.fault.message


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("wait(&bar, 0);\n", "if (t < 32) wait(&bar, 0);\n", ("async_in_flight", "error")),
        ("expect(&bar, 1024)", "arrive(&bar)", ("async_in_flight", "error")),
        ("wait(&bar, 0);\n", "wait(&bar, 1);\n", ("async_in_flight", "error")),
        ("fence_async();\n", "", ("async_proxy", "error")),
        ("fence_async();\n", "if (t == 0) fence_async();\n", ("async_proxy", "error")),
        (" drain();", "", ("async_unfinished", "warning")),
        (" commit();", "", ("async_unfinished", "warning")),
        ("drain(); }", "} tile[t] = v;", ("async_in_flight", "error")),
        (" made();", "", ("async_proxy", "warning")),
        ("__syncthreads();\n    tile[t] = v;", "tile[t] = v;", ("race", "error")),
        ("__syncthreads();\n    if (t == 0) { bulk_store", "if (t == 0) { bulk_store", ("race", "error")),
    ],
)
def test_findings(run: Run, old: str, new: str, kind: tuple[str, str]) -> None:
    assert kind in serious(mirror(run, (old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait(&bar, 0);\n", "if (t < 32) wait(&bar, 0); __syncthreads();\n"),
        ("wait(&bar, 0);\n", "if (t % 32 == 0) wait(&bar, 0); __syncwarp();\n"),
        (
            "fence_async();\n    __syncthreads();\n    if (t == 0) {",
            "__syncthreads();\n    if (t == 0) { fence_async();",
        ),
        ("drain(); }", "drain(); } __syncthreads(); tile[t] = v;"),
        (" made();", " fence_async();"),
        (WHOLE, "expect(&bar, 512); " + MORE + LOADS[0] + LOADS[1]),
        (WHOLE, MORE + LOADS[0] + "expect(&bar, 512); " + LOADS[1]),
    ],
)
def test_right_in_another_way(run: Run, old: str, new: str) -> None:
    assert not serious(mirror(run, (old, new)))


def test_a_stage_that_is_filled_again_too_early(run: Run) -> None:
    """Without the consumers' arrivals the next tile is written over what they still read."""
    x, y = np.arange(4 * 256, dtype=np.float32), np.zeros(4 * 256, np.float32)
    early = PIPELINE.replace("wait(&empty[i % 2], (i / 2 + 1) & 1);", "").replace("arrive(&empty[i % 2]);", "")
    launched = run(early, 1, 96, [x, y], fault="mbarrier")
    message = launched.fault.message
    assert message.startswith(
        "line 43 arrives at the mbarrier full[0] in phase 0, in which the same thread has arrived in"
    )
    assert "The mbarrier full[0] gets 1 arrival, but its phase needs 0 more" in message
    unseen = PIPELINE.replace("wait(&empty[i % 2], (i / 2 + 1) & 1);", "if (i > 1) wait(&full[i % 2], i / 2 + 1 & 1);")
    assert ("race", "error") in serious(run(unseen, 1, 96, [x, y], budget=400_000))


@pytest.mark.parametrize(
    ("edits", "cause"),
    [
        ([], "no line of the kernel waits for the mbarrier empty, at which threads arrive in line 51: let line 43"),
        # All mbarriers are of one array, and some are waited for.
        (
            [("__shared__ u64 full[2], empty[2];", "__shared__ u64 all[4]; u64 *full = all, *empty = all + 2;")],
            "line 43 arrives at the mbarrier all[0] in phase 0",
        ),
        (
            [("wait(&full[i % 2], i / 2 & 1);", "wait(&empty[1], 1);")],
            "no line of the kernel waits for the mbarrier full: the threads that need",
        ),
        # There is a wait, of a thread that does not arrive.
        ([("const float *from", "if (t > 999) wait(&empty[0], 0); const float *from")], "line 43 arrives at the"),
    ],
)
def test_a_producer_that_does_not_wait_is_told_for_what(run: Run, edits: list[tuple[str, str]], cause: str) -> None:
    source = changed(PIPELINE, ("wait(&empty[i % 2], (i / 2 + 1) & 1);", ""), *edits)
    x, y = np.arange(4 * 256, dtype=np.float32), np.zeros(4 * 256, np.float32)
    fault = run(source, 1, 96, [x, y], fault="mbarrier").fault
    assert fault.message.startswith(cause), fault.message
    assert " gets 1 arrival, but its phase needs 0 more, by thread 0 in block 0 in line 11" in fault.message


@pytest.mark.parametrize(
    ("expected", "found"), [(64, set()), (63, {("mbarrier", "error")}), (33, {("mbarrier", "error")})]
)
def test_threads_of_a_warp_that_arrive_in_two_phases(run: Run, expected: int, found: set[tuple[str, str]]) -> None:
    """Each phase ends earlier, by the arrivals that the one before did not need: in the end, without a warp."""
    x, y = np.arange(4 * 256, dtype=np.float32), np.zeros(4 * 256, np.float32)
    launched = run(PIPELINE.replace("init(&empty[s], 64);", f"init(&empty[s], {expected});"), 1, 96, [x, y])
    assert serious(launched) == found


def test_waiting_for_one_phase_twice(run: Run) -> None:
    """The parity does not change, so the second wait ends at once. A thread that waits for such threads in turn hangs;
    without one, threads read data that has not arrived."""
    x, y = np.arange(4 * 256, dtype=np.float32), np.zeros(4 * 256, np.float32)
    twice = PIPELINE.replace("wait(&full[i % 2], i / 2 & 1);", "wait(&full[i % 2], 0);")
    launched = run(twice, 1, 96, [x, y], fault="deadlock")
    assert "phase 2 of the mbarrier empty[" in launched.fault.message
    unsung = MIRROR.replace(
        "    float v", "    if (t == 0) { expect(&bar, 1024); bulk_load(tile, x, 1024, &bar); }\n    AGAIN\n    float v"
    )
    for again, kinds in (("wait(&bar, 0);", {"async_in_flight", "async_unfinished"}), ("wait(&bar, 1);", set())):
        launched = run(unsung.replace("AGAIN", "__syncthreads(); " + again), 1, 256, [x, y])
        assert {kind for kind, _ in serious(launched)} == kinds


def test_reduction(run: Run) -> None:
    source = MIRROR.replace("bulk_store(y + 256 * blockIdx.x", "bulk_add(y")
    x, y = np.arange(1024, dtype=np.float32), np.full(1024, 5, np.float32)
    run(source, 4, 256, [x, y])
    assert np.array_equal(y[:256], x.reshape(4, 256).sum(axis=0)[::-1] + 5)
    assert (y[256:] == 5).all()


@pytest.mark.parametrize(
    "form",
    [
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%0], [%1], 16, 0, 0, [%0];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%0, %0, %0}], [%0], {%2};",
    ],
)  # fmt: skip
def test_what_is_not_known_is_named_with_its_line(run: Run, form: str) -> None:
    text = f'asm volatile("{form}" :: "r"(AT(tile)), "l"(x), "h"((short)1) : "memory");'
    with pytest.raises(UnsupportedKernel, match=r"cp\.async\.bulk") as error:
        mirror(run, ("wait(&bar, 0);", text + " wait(&bar, 0);"))
    assert error.value.line


def test_head_compiles_alone(run: Run) -> None:
    run(HEAD + 'extern "C" __global__ void k() {}', 1, 32, [])


LIBRARY_COPY = """
extern "C" __global__ void NAME(const float *x, float *y)
{
    __shared__ alignas(16) float tile[256];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    COPY
    bar.arrive_and_wait();
    y[threadIdx.x] = tile[255 - threadIdx.x];
}
"""
BY_LIBRARY = "cuda::memcpy_async(&tile[4 * threadIdx.x], &x[4 * threadIdx.x], cuda::aligned_size_t<16>(16), bar);"
BY_HAND = """
    if (threadIdx.x == 0) {
        unsigned to = __cvta_generic_to_shared(tile), at = __cvta_generic_to_shared(&bar);
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 1024;" :: "r"(at) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                     :: "r"(to), "l"(__cvta_generic_to_global(x)), "r"(at) : "memory");
    }"""


# One program: its header takes two seconds.
LIBRARY_COPIES = "#include <cuda/barrier>" + "".join(
    LIBRARY_COPY.replace("NAME", name).replace("COPY", copy).replace("bar.arrive_and_wait();", wait)
    for name, copy, wait in (
        ("by_library", BY_LIBRARY, "bar.arrive_and_wait();"),
        ("by_hand", BY_HAND, "bar.arrive_and_wait();"),
        ("without_wait", BY_LIBRARY, "(void)bar.arrive();"),
    )
)


@pytest.mark.parametrize(("kernel", "kinds"), [("by_library", []), ("by_hand", ["async_proxy"])])
def test_the_librarys_copy_needs_no_fence_after_the_initialisation(kernel: str, kinds: list[str]) -> None:
    """Its documentation asks for none. A copy that the kernel issues itself does."""
    x, y = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    got = simulate(LIBRARY_COPIES, kernel, 1, 64, [x, y])
    assert y.tolist() == x[:-65:-1].tolist()
    assert [finding.kind for finding in got.findings] == kinds


def test_the_librarys_copy_still_needs_its_wait() -> None:
    """The twin: without the wait, threads read what has not arrived."""
    x, y = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    got = simulate(LIBRARY_COPIES, "without_wait", 1, 64, [x, y])
    assert "async_in_flight" in {finding.kind for finding in got.findings}
