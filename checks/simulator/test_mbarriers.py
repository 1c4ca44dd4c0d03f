"""``mbarrier``: phases, who waits, who is missing; and what the checkers say of those that are used wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.conftest import Run
from checks.simulator.phase_cases import HEAD, PIPELINE
from gemm_lessons.engine.machine.phases import Phases
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.results import Launched

TOGETHER = True

ARCH = "sm_90"

BODY = (
    HEAD
    + """
extern "C" __global__ void k(u64 *out)
{
    __shared__ u64 bar[4];
    __shared__ int box[256];
    const int t = threadIdx.x;
    u64 got = 0;
    if (t == 0) { init(&bar[0], blockDim.x); init(&bar[1], 1); init(&bar[2], 2); }
    __syncthreads();
    BODY
    out[blockIdx.x * blockDim.x + t] = got;
}
"""
)
TOKEN = 'u64 s; asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(s) : "r"(AT(&bar[0])) : "memory");'


def serious(launched: Launched) -> set[str]:
    return {finding.kind for finding in launched.findings if finding.severity != "note"}


def run_body(
    run: Run, text: str, threads: int = 64, blocks: int = 2, fault: str | None = None
) -> tuple[Launched, list[int]]:
    out = np.zeros(blocks * threads, np.uint64)
    return run(BODY.replace("BODY", text), blocks, threads, [out], fault=fault), out.tolist()


def test_a_pipeline_of_warps_takes_turns(run: Run) -> None:
    x = np.arange(3 * 4 * 256, dtype=np.float32)
    y = np.zeros_like(x)
    launched = run(PIPELINE, 3, 96, [x, y])
    assert np.array_equal(y.reshape(-1, 256), 2 * x.reshape(-1, 256)[:, ::-1])
    assert not serious(launched)


def test_all_threads_meet_phase_after_phase(run: Run) -> None:
    """An mbarrier orders threads as __syncthreads() does, by parity and by token, in any order of waiting."""
    text = """
    for (int i = 0; i < 5; ++i) {
        box[t] = 100 * i + t;
        if (t >= 32) { arrive(&bar[0]); wait(&bar[0], i & 1); }
        else { TOKEN unsigned yes; do { asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2;"
            " selp.u32 %0, 1, 0, p; }" : "=r"(yes) : "r"(AT(&bar[0])), "l"(s) : "memory"); } while (!yes); }
        got = 1000 * got + box[63 - t];
        __syncthreads();
    }""".replace("TOKEN", TOKEN)
    launched, out = run_body(run, text)
    assert out[:64] == [sum((100 * i + 63 - t) * 1000 ** (4 - i) for i in range(5)) for t in range(64)]
    assert not serious(launched)


def test_arrivals_tell_what_was_missing(run: Run) -> None:
    pending = 'unsigned n; asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s)); got = n;'
    _, out = run_body(run, TOKEN + pending)
    assert out == 2 * [64 - t for t in range(64)]


def test_counts_drops_and_a_count_of_more_than_one(run: Run) -> None:
    text = """if (t == 0) {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0], 2; }" :: "r"(AT(&bar[2])) : "memory");
        got = over(&bar[2], 0);
        asm volatile("{ .reg .b64 s; mbarrier.arrive_drop.shared::cta.b64 s, [%0]; }" :: "r"(AT(&bar[2])) : "memory");
        got = 10 * got + over(&bar[2], 1);
        arrive(&bar[2]); got = 10 * got + over(&bar[2], 1); arrive(&bar[2]); got = 10 * got + over(&bar[2], 0);
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(AT(&bar[2])) : "memory"); }"""
    launched, out = run_body(run, text)
    assert out[0] == out[64] == 1011
    assert not serious(launched)


def test_one_address_may_be_generic(run: Run) -> None:
    text = """asm volatile("{ .reg .b64 s; mbarrier.arrive.b64 s, [%0]; }" :: "l"(&bar[0]) : "memory");
        wait(&bar[0], 0); got = 7;"""
    assert run_body(run, text)[1] == [7] * 128


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("if (t) wait(&bar[1], 0);", "the end of phase 0 of the mbarrier bar[1], which still needs 1 of 1 arrivals"),
        ("if (t == 0) expect(&bar[1], 64); wait(&bar[1], 0);", "still needs 64 bytes"),
        ("arrive(&bar[0]); wait(&bar[0], 0); wait(&bar[0], 1);", "phase 1 of the mbarrier bar[0]"),
        ("if (t < 40) arrive(&bar[0]); wait(&bar[0], 0);", "24 of 64 arrivals"),
    ],
)  # fmt: skip
def test_a_phase_that_nobody_ends_is_a_deadlock(run: Run, text: str, says: str) -> None:
    launched, _ = run_body(run, text, fault="deadlock")
    assert says in launched.fault.message
    assert launched.fault.line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("if (t == 5) arrive(&bar[3]);", "is used before mbarrier.init has initialised it, by thread 5 in block 0 in"),
        ("if (t == 5) box[0] = 1; if (t == 0) *(volatile u64 *)&bar[1] = 3; __syncthreads(); arrive(&bar[1]);",
         "was overwritten by another store"),
        ("if (t == 0) init(&bar[3], 0);", "expects 0 arrivals"),
        ("""if (t == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0], 3; }"
            :: "r"(AT(&bar[2])));""",
         "gets 3 arrivals, but its phase needs 2 more"),
        ("""if (t == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.noComplete.shared::cta.b64 s, [%0], 2; }"
            :: "r"(AT(&bar[2])));""", "must not be the last"),
    ],
)  # fmt: skip
def test_misuse(run: Run, text: str, says: str) -> None:
    launched, _ = run_body(run, text, fault="mbarrier")
    assert says in launched.fault.message


@pytest.mark.parametrize("parity", [2, -2, 3, -1])
def test_the_lowest_bit_of_a_parity_counts(run: Run, parity: int) -> None:
    """As in machine code, which shifts it left by 31. Public kernels count phases and pass the count."""
    text = f"if (over(&bar[0], {parity})) arrive(&bar[0]); wait(&bar[0], 0);"
    launched, _ = run_body(run, text, fault=None if parity % 2 else "deadlock")
    [found] = [it for it in launched.findings if it.kind == "mbarrier"]
    assert found.severity == "warning"
    assert (
        f"the mbarrier bar[0] is tested for parity {parity}, by thread 0 in block 0; PTX knows only 0" in found.message
    )


def test_made_without_a_barrier_behind_it_is_a_race(run: Run) -> None:
    source = BODY.replace("__syncthreads();\n    BODY", "arrive(&bar[0]); wait(&bar[0], 0);")
    launched = run(source, 1, 64, [np.zeros(64, np.uint64)])
    assert [f.message for f in launched.findings if f.kind == "race" and "bar, byte 0" in f.message]


ONE_WARP = (
    HEAD
    + """
extern "C" __global__ void k(u64 *out)
{
    __shared__ u64 bar[1], box[1];
    if (threadIdx.x == 0) {
        init(bar, 1);
        arrive(bar);
        box[0] = out[0];
    }
    BETWEEN
    wait(bar, 0);
    out[threadIdx.x] = box[0];
}
"""
)


@pytest.mark.parametrize(("between", "found"), [("", {"bar", "box"}), ("__syncwarp();", set())])
def test_an_arrival_of_one_lane_orders_nothing_between_the_lanes_of_its_warp(
    run: Run, between: str, found: set[str]
) -> None:
    """The others may look at the mbarrier before it is made, and read what is stored after the arrival."""
    launched = run(ONE_WARP.replace("BETWEEN", between), 1, 32, [np.zeros(32, np.uint64)])
    races = [it for it in launched.findings if it.kind == "race"]
    assert {it.array for it in races} == found
    assert all("put __syncwarp() between" in it.message for it in races)


def test_an_mbarrier_beside_tiles_is_named_by_its_byte(run: Run) -> None:
    text = "__shared__ u64 all[128]; if (t == 0) init(&all[96], 2); __syncthreads(); if (t == 0) arrive(&all[96]); wait"
    launched, _ = run_body(run, text + "(&all[96], 0);", fault="deadlock")
    assert launched.fault is not None
    assert "gives the mbarrier at byte 768 of all 2 arrivals a phase" in launched.fault.message


ELECT = (
    'unsigned one; asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(one)); '
)
UNMAKE = 'asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(AT(&bar[3])) : "memory");'


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("if (t < 2) init(&bar[3], 1);", "warning"),
        ("if (t % 32 == 0) init(&bar[3], 1);", "warning"),  # a thread of each warp
        ("init(&bar[3], 64);", "warning"),
        ("if (t == 0) init(&bar[3], 1); if (t == 40) init(&bar[3], 1);", "warning"),
        ("if (t < 2) init(&bar[3], t + 1);", "error"),
        ("if (t == 0) init(&bar[3], 1); if (t == 40) init(&bar[3], 2);", "error"),
        ("if (t == 40) init(&bar[3], 2);", ""),
        (f"if (t < 32) {{ {ELECT} if (one) init(&bar[3], 1); }}", ""),
        ("if (t >= 62) init(&bar[t - 60], 1);", ""),  # one each
        (f"if (t == 0) {{ init(&bar[3], 1); {UNMAKE} }} __syncthreads(); if (t == 40) init(&bar[3], 2);", ""),
    ],
)
def test_one_thread_initialises_an_mbarrier(run: Run, text: str, severity: str) -> None:
    launched, _ = run_body(run, text + "__syncthreads();")
    found = [it for it in launched.findings if it.severity != "note"]
    assert {it.severity for it in found} == ({severity} if severity else set())
    assert {(it.kind, it.case) for it in found} <= {("race", "mbarriers")}


def test_who_waits_is_ordered_and_who_does_not_is_not(run: Run) -> None:
    good = "box[t] = t; arrive(&bar[0]); wait(&bar[0], 0); got = box[63 - t];"
    assert not serious(run_body(run, good)[0])
    launched, _ = run_body(run, good.replace("wait(", "if (t < 32) wait("))
    races = [f.message for f in launched.findings if f.kind == "race"]
    assert races
    assert "read by thread 32" in races[0]


def test_arriving_again_before_the_phase_was_waited_for_is_a_race(run: Run) -> None:
    """The second store of a slot that others still read: the next phase's barrier is the one that is missing."""
    text = "for (int i = 0; i < 3; ++i) { box[t] = i; arrive(&bar[0]); wait(&bar[0], i & 1); got += box[63 - t]; }"
    assert "race" in serious(run_body(run, text)[0])


def test_copies_of_threads_report_to_it(run: Run) -> None:
    source = HEAD + """
extern "C" __global__ void k(const int *x, int *y)
{
    __shared__ int box[64];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(AT(&box[t])), "l"(x + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(AT(&bar)) : "memory");
    WAIT
    y[t] = box[63 - t];
}"""  # fmt: skip
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    launched = run(source.replace("WAIT", "wait(&bar, 0);"), 1, 64, [x, y])
    assert np.array_equal(y, x[::-1])
    assert not serious(launched)
    launched = run(source.replace("WAIT", ""), 1, 64, [x, y])
    assert serious(launched) == {"async_in_flight"}
    own = source.replace(".noinc", "").replace("WAIT", "arrive(&bar); wait(&bar, 0);")
    assert not serious(run(own, 1, 64, [x, y]))


def test_an_mbarrier_may_be_made_anew(run: Run) -> None:
    """Accesses that its earlier phases ordered stay ordered; its new phases work as usual."""
    source = HEAD + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float tile[2][256];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
        if (t == 0) { init(&bar, 1); made(); expect(&bar, 1024); bulk_load(tile[i], x + 256 * i, 1024, &bar); }
        __syncthreads();
        WAIT
        sum += tile[i][t];
        __syncthreads();
        if (t == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(AT(&bar)) : "memory");
        __syncthreads();
    }
    y[t] = sum + tile[0][255 - t];
}"""  # fmt: skip
    x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    assert not serious(run(source.replace("WAIT", "wait(&bar, 0);"), 1, 64, [x, y]))
    assert y[3] == 3 + 259 + 252
    half = "if (t < 32 || i == 0) wait(&bar, 0);"
    assert "async_in_flight" in serious(run(source.replace("WAIT", half), 1, 64, [x, y]))


def test_copies_that_were_waited_for_need_no_mbarrier(run: Run) -> None:
    source = HEAD + """
extern "C" __global__ void k(const int *x, int *y)
{
    __shared__ int box[2][64];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(AT(&box[0][t])), "l"(x + t) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(AT(&box[1][t])), "l"(x + 64 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(AT(&bar)) : "memory");
    int sum = box[0][63 - t];
    wait(&bar, 0);
    y[t] = sum + box[1][63 - t];
}"""  # fmt: skip
    x, y = np.arange(128, dtype=np.int32), np.zeros(64, np.int32)
    assert not serious(run(source, 1, 64, [x, y]))
    assert y[0] == 63 + 127


def test_many_lanes_at_once_are_as_one_after_the_other() -> None:
    """Random arrivals, announcements and bytes at a few mbarriers, beside a plain model of each."""
    random = np.random.default_rng(7)
    phases = Phases(np.zeros(4 * 8, np.uint8))
    phases.init(np.arange(4), np.array([1, 3, 5, 8]))
    model = [[0, expected, expected, 0] for expected in (1, 3, 5, 8)]  # phase, missing, expected, bytes
    for _ in range(400):
        cell = np.sort(random.integers(0, 4, random.integers(1, 9)))
        announced = random.integers(0, 3, cell.size) * 16 if random.random() < 0.5 else np.zeros(cell.size, np.int64)
        if any(missing == 0 for _, missing, _, _ in model):  # only bytes can end that phase
            cell = np.array([number for number, (_, missing, _, _) in enumerate(model) if missing == 0])
            arriving, given = False, np.array([-model[number][3] for number in cell])
        else:
            arriving, given = True, announced
        expected_phases, fits = [], True
        trial = [list(one) for one in model]
        for number, more in zip(cell.tolist(), given.tolist(), strict=True):
            one = trial[number]
            fits &= not arriving or one[1] > 0
            expected_phases.append(one[0])
            one[3] += more
            one[1] -= arriving
            if one[1] == one[3] == 0:
                one[0], one[1] = one[0] + 1, one[2]
        if not fits:
            continue
        if arriving:
            found = phases.arrive(cell, np.ones_like(cell), given, False, True)
        else:
            found = phases.announce(cell, given)
        model = trial
        assert found.tolist() == expected_phases
        state = np.stack((phases.phase, phases.pending, phases.expected, phases.bytes), axis=1)
        assert state.tolist() == model
        phases.check(np.arange(4))
    assert min(one[0] for one in model) > 10


def test_what_is_not_known_is_named(run: Run) -> None:
    for text in ("mbarrier.arrive.shared::cta.b64.frobnicate s, [%0];", "fence.proxy.frobnicate;"):
        body = f'asm volatile("{{ .reg .b64 s; {text} }}" :: "r"(AT(&bar[0])) : "memory");'
        with pytest.raises((UnsupportedKernel, Exception), match=r"unsupported PTX|frobnicate"):
            run_body(run, body)
