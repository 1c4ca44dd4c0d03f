"""What gates count: every kind of access, barriers in every form, what nothing hides; and what cannot be counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.simulator.phase_cases import MIRROR
from gemm_lessons import engine, simulate
from gemm_lessons.course.lesson import Gate
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler import sass
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.counters.counters import blocks_to_share
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import PAGE, Argument, Buffer, Grid, Pages, Scalar
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.engine.sass.trace import Traffic, traceable
from gemm_lessons.engine.sass.work_per_thread import WorkPerThread
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.judging.gates import judge_gates, uncounted

TOGETHER = True
THREADS = 64
LINE = 128  # bytes that a warp reads or writes, 4 for each lane
HEAD = """
__device__ void copy4(unsigned to, const float *from)
{ asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;" :: "r"(to), "l"(from) : "memory"); }
extern "C" __global__ void __launch_bounds__(64) k(float *x, float *y, int n)
{ __shared__ float s[64]; const int t = threadIdx.x; s[t] = 0; __syncthreads();
"""


def counted(body: str, n: int = 0) -> Counters:
    """``body`` by two warps, after a store to shared memory and a barrier."""
    return of(f"{HEAD}\n{body}\n}}", "k", n)


def of(source: str, entry: str, n: int = 0) -> Counters:
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    launched = simulate(source, entry, 1, THREADS, [x, y, n])
    assert launched.fault is None
    return launched.counters


# body -> what it adds
KINDS = {
    "load": ("y[t] = x[t];", {"global_bytes_read": 2 * LINE, "global_bytes_written": 2 * LINE, "global_accesses": 4}),
    "atomic": ("y[t] = atomicAdd(x + t, 0.0f);",
               {"global_bytes_read": 2 * LINE, "global_sectors_read": 8, "global_bytes_written": 4 * LINE}),
    "reduction": ("atomicAdd(y + t, 1.0f);", {"global_bytes_read": 2 * LINE, "global_sectors_written": 8}),
    "cp.async": ("copy4((unsigned)__cvta_generic_to_shared(s + t), x + t); y[t] = s[t];",
                 {"global_bytes_read": 2 * LINE, "shared_bytes_read": 2 * LINE, "shared_accesses": 6}),
    "shared atomic": ("y[t] = atomicAdd((int *)s + t, 1);", {"shared_bytes_read": 2 * LINE, "shared_accesses": 4}),
    "shuffle": ("y[t] = __shfl_xor_sync(~0u, x[t], 1);", {"shuffles": 2, "shared_bytes_read": 0}),
    "a trap that is not reached": ("if (n) __trap(); y[t] = 1;", {"global_sectors_written": 8}),
    "named barriers": ('asm volatile("bar.sync 1, 64; bar.sync %0, 64;" :: "r"(n + 2)); y[t] = 1;', {"barriers": 3}),
    "half a block": ('if (t < 32) asm volatile("bar.sync 1, 32; bar.sync 1, 32;"); y[t] = 1;', {"barriers": 3}),
    "voting": ("y[t] = __syncthreads_count(t) + __syncthreads_or(n);", {"barriers": 3}),
    "signals": ('if (t < 32) asm volatile("bar.arrive 3, 64;"); else asm volatile("bar.sync 3, 64;"); y[t] = 1;',
                {"barriers": 2}),
}  # fmt: skip


class Program:
    """Bodies as kernels of one program, which is compiled and disassembled once."""

    def __init__(self, bodies: Iterable[str]) -> None:
        device, kernel = HEAD.split('extern "C"')
        self._names = {body: f"kind_{number}" for number, body in enumerate(bodies)}
        self._source = device + "".join(
            f'extern "C"{kernel.replace(" k(", f" {name}(")}{body}\n}}\n' for body, name in self._names.items()
        )

    def counted(self, body: str, n: int = 0) -> Counters:
        """Return what the function ``counted`` does."""
        return of(self._source, self._names[body], n)


PROGRAM = Program(body for body, _ in KINDS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_counts(kind: str) -> None:
    body, expected = KINDS[kind]
    counters = PROGRAM.counted(body)
    assert not counters.obstacle
    assert {name: counters[name] for name in expected} == expected


# A load, then as many multiply-adds as the launch says, then its use. Factors are loaded: other products hide nothing
# (``test_useful_work.py``).
HIDING = "float v = x[t], a = y[t + 64]; for (int i = 0; i < n; i++) a = a * a + 1; y[t] = a + v;"


def test_only_what_is_executed_hides_a_load() -> None:
    waiting = {n: counted(HIDING, n)["global_bytes_waited_for"] for n in (0, 100, 200)}
    assert waiting == {0: 4 * LINE, 100: 4 * LINE, 200: 2 * LINE}, "of the second load, the arithmetic is the first use"


def test_products_of_bytes_hide_a_load() -> None:
    body = "float v = x[t]; int a = ((int *)s)[t]; for (int i = 0; i < n; i++) a = __dp4a(a, a, a); y[t] = a + v;"
    assert [counted(body, n)["global_bytes_waited_for"] for n in (100, 200)] == [2 * LINE, 0]


def test_products_of_tensor_cores_hide_a_load() -> None:
    product = (
        'asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4},'
        ' {%0, %1, %2, %3};" : "+f"(a[0]), "+f"(a[1]), "+f"(a[2]), "+f"(a[3]) : "r"(b));'
    )
    body = f"float v = x[t], a[4] = {{}}; int b = ((int *)s)[t]; for (int i = 0; i < n; i++) {product} y[t] = a[0] + v;"
    assert [counted(body, n)["global_bytes_waited_for"] for n in (10, 40)] == [2 * LINE, 0]


def test_a_copy_is_waited_for_where_its_group_is() -> None:
    begin = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" :: "r"(to), "l"(x + t));'
    work = "float a = s[63 - t]; for (int i = 0; i < n; i++) a = a * a + 1;"
    end = 'asm volatile("cp.async.wait_group 0;" ::: "memory"); y[t] = a + s[t];'
    body = f"const unsigned to = (unsigned)__cvta_generic_to_shared(s + t); {begin} {work} {end}"
    assert [counted(body, n)["global_bytes_waited_for"] for n in (10, 200)] == [2 * LINE, 0]


def test_a_warp_may_wait_for_its_lanes_under_a_condition() -> None:
    """ptxas makes ``@P0 WARPSYNC.ALL`` of it."""
    at = "(unsigned)__cvta_generic_to_shared(s + t / 8 * 8)"
    store = f'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%1], {{%0}};" :: "r"(t), "r"({at}));'
    counters = counted(f"if (t > 31) {store} y[t] = s[t];")
    assert not counters.obstacle
    assert counters["stmatrix"] == 2, "both warps issue it, one with its lanes switched off"
    assert counters["shared_bytes_written"] == 2 * LINE + 8 * 16


@pytest.mark.parametrize("operation", [
    'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(at));',
    'asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %0}, {%0, %0}, {%0}, {%0, %0};" : "+r"(r));',
])  # fmt: skip
@pytest.mark.parametrize("n", [0, 1, 2])
def test_an_instruction_of_a_whole_warp_may_be_under_a_condition(operation: str, n: int) -> None:
    """``@P0 WARPSYNC.ALL`` before ``@P0 LDSM`` or ``@P0 HMMA``, also where all warps or none take part."""
    at = "const unsigned at = (unsigned)__cvta_generic_to_shared(s + t % 8 * 4);"
    counters = counted(f"unsigned r = t; {at} if (t < 32 * n) {{ {operation} }} y[t] = r + at;", n)
    assert not counters.obstacle
    assert counters["global_bytes_written"] == 2 * LINE


def test_a_gate_on_what_cannot_be_counted_is_neither_met_nor_missed() -> None:
    """It used to be missed. But the kit's limits are no mistake of a kernel, and a learner cannot do anything about
    them; a count on PTX misses such a gate if it does by far (``checks/judgement/test_unjudged.py``)."""
    generic = counted("const float *p = n ? (const float *)s : x; y[(int)p[t] & 31] = 1;")
    assert "line" in generic.obstacle
    gates = [
        Gate("reads", "reads", Expression("global_bytes_read / M"), "", at_most=1e9),
        Gate("most", "most", Expression("M"), "", at_most=1e9),
        Gate("barriers", "barriers", Expression("barriers"), "", at_most=1),
    ]
    names = {"global_bytes_read": 1.0, "M": 1.0, "barriers": 1.0}
    reads, most, barriers = judge_gates(gates, names, uncounted(generic))
    assert reads.passed is None
    assert reads.note == f"cannot be counted: {generic.obstacle}"
    assert most.passed
    assert barriers.passed, "barriers are counted on PTX"
    nothing = {it.id: it.passed for it in judge_gates(gates, names, uncounted(Counters()))}
    assert nothing == {"reads": None, "most": True, "barriers": None}


def test_who_is_asked_by_a_generic_address_is_counted() -> None:
    """Generic accesses count as global or shared memory, lane by lane; ncu counts a generic load as neither."""
    found = counted("const float *p = t < 8 * n ? (const float *)s + t : x + t; y[t] = *p;", 2)
    assert not found.inexact
    assert found["shared_bytes_read"] == 16 * 4
    assert (found["global_load_requests"], found["global_load_sectors"]) == (2, 6)
    assert (found["global_load_instructions"], found["shared_load_instructions"]) == (0, 0)


ADD = "__device__ __noinline__ float add(const float *v, int n) { if (n < 3) return 1; return v[n] + v[3]; }"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_functions_count_accesses_to_what_they_are_given(arch: str) -> None:
    """A local array's address is generic there, which machine code finds in a constant bank; some lanes return early.
    Of each warp, 11 lanes have a local array, 11 shared memory and 10 global memory."""
    body = """float v[8]; for (int i = 0; i < 8; i++) v[i] = t * i;
    const float *p = t % 32 % 3 == 0 ? v : t % 32 % 3 == 1 ? s : x; y[t] = add(p, n) + add(v, t & 7);"""
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    launched = simulate(ADD + HEAD + body + "}", "k", 1, THREADS, [x, y, 4], arch=arch)
    found, t = launched.counters, np.arange(THREADS)
    given = np.choose(t % 32 % 3, [7 * t, 0 * t, 0 * t + 2])
    assert np.array_equal(y[:THREADS], given + np.where((t & 7) < 3, 1, t * ((t & 7) + 3)))
    assert not found.inexact
    assert (found["global_load_requests"], found["global_load_sectors"]) == (4, 4)
    assert found["shared_bytes_read"] == 2 * 2 * 11 * 4


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_a_kernel_without_parameters_is_counted_on_machine_code(arch: str) -> None:
    source = """__device__ unsigned sum[32];
    extern "C" __global__ void k() { sum[threadIdx.x] = blockDim.x + gridDim.x; }"""
    found = simulate(source, "k", 3, 32, [], arch=arch).counters
    assert not found.obstacle
    assert found["global_store_sectors"] == 3 * 4


RECURSIVE = """__device__ __noinline__ float deeper(const float *x, int n, int t) {
    if (n == 0) return 0;
    float sum = 0;
    if (t >> n & 1) sum = deeper(x, n - 1, t);
    return sum + x[32 * n + t];
}
extern "C" __global__ void k(float *x, float *y, int n) {
    const int t = threadIdx.x % 32;
    y[threadIdx.x] = t != 5 ? deeper(x, n, t) : 0;
}"""


def test_lanes_reconverge_within_a_recursion() -> None:
    """The function saves a convergence barrier for the time of its own. Each level loads once for all of its lanes."""
    kernel = engine.compile(RECURSIVE, "k")
    assert any(it.text.startswith("BMOV.32 B") for it in kernel._compiled.sass or ())
    found = of(RECURSIVE, "k", 4)
    assert not found.inexact
    assert (found["global_load_requests"], found["global_store_requests"]) == (2 * 4, 2)


STORED = """extern "C" __global__ void k(float *x, float *y, int n) {
    const int t = threadIdx.x;
    int *mine = (int *)y;
    mine[t] = t % 32 % 7;
    __syncthreads();
    asm volatile("" ::: "memory");
    for (int i = 0; i < mine[t ^ n]; i++) { x[t] += i; asm volatile("" ::: "memory"); }
}"""


def test_what_a_thread_has_itself_stored_may_decide_a_branch() -> None:
    """Of each warp, the loop runs 6 times: each time it reads x and its limit. What others store is not followed."""
    found = of(STORED, "k", 0)
    assert not found.inexact
    assert (found["global_load_requests"], found["global_store_requests"]) == (2 * (1 + 6 * 2), 2 * (1 + 6))
    assert "itself stored" in of(STORED, "k", 1).obstacle


def test_machine_code_that_cannot_be_read_is_counted_on_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(cubin: bytes) -> str:
        raise UnsupportedKernel("nvdisasm cannot read its machine code: SM70 is deprecated")

    monkeypatch.setattr(sass, "disassemble", refuses)
    counters = counted("y[t + 1] = s[t];")
    assert "SM70 is deprecated" in counters.obstacle
    assert counters["global_store_sectors"] == 10


@pytest.mark.parametrize("body", [
    "atomicAdd((int *)s + (t & n), 1); y[t] = 1;",  # ATOMS.POPC.INC: lanes at one word are added up first
    "atomicAdd((int *)s + (t & n), t); y[t] = 1;",
    "y[t] = s[t * 2 & 62];", "y[t] = s[t] + s[t ^ n]; s[t * 32 & 63] = x[t];",
])  # fmt: skip
def test_an_estimate_is_of_the_wavefronts_that_are_counted(body: str) -> None:
    made = must_compile(f"{HEAD}\n{body}\n}}")
    arguments: list[Argument] = [Buffer("x", np.ones(256, np.float32)), Buffer("y", np.zeros(256, np.float32), True)]
    arguments.append(Scalar("n", np.int32(0)))
    grid, simulator = Grid((1, 1, 1), (THREADS, 1, 1)), Simulator()
    traced = traceable(made, simulator.kernel(made)).trace(grid, arguments, 1)
    touches = [touch for warp in traced.warps for _, touch in warp if isinstance(touch, Traffic)]
    counters = simulator.launch(made, grid, arguments).counters
    assert not counters.inexact
    assert sum(it.passes for it in touches if it.space == "shared") == counters["shared_wavefronts"]


# body -> instructions of all threads, if all executed as many as the one with the most, in those of all
SHARES = {
    "all": ("y[t] = x[t];", 1, 1.05),
    "one warp": ("if (t < 32) for (int i = 0; i < 200; i++) y[t] += x[i + n];", 1.7, 2),
    "one lane of each warp": ("if (t % 32 == 0) for (int i = 0; i < 200; i++) y[t] += x[i + n];", 15, 32),
    "one thread": ("if (t == 5) for (int i = 0; i < 200; i++) y[t] += x[i + n];", 25, 64),
    "turn by turn": ("for (int i = 0; i < 64; i++) if (t == i) for (int j = 0; j < 40; j++) y[t] += x[j + n];", 1, 1.2),
}


@pytest.mark.parametrize(("body", "least", "most"), SHARES.values(), ids=SHARES)
def test_who_does_how_much(body: str, least: float, most: float) -> None:
    found = counted(body)
    assert not found.inexact
    assert least <= found["thread_instructions_if_equal"] / found["thread_instructions"] <= most


@pytest.mark.parametrize(
    ("of_blocks", "inside", "best"),
    [
        ([1, 0] * 300, 1.0, 2.0),  # those that work do not fill a GPU
        ([1, 0] * 1024, 1.0, 1.0),
        ([2, 0] * 1024, 1.0, 1.0),
        ([2] * 100 + [1] * 924 + [0] * 100, 1.0, 1.0),  # 1,124 tiles for 1,024 blocks
        ([2] * 5 + [1] * 1019, 0.96, 1 / 0.96),  # 1,029 tiles, some of them at the edge of C
        ([2] * 5 + [1] * 1019, 0.5, 2.0),  # half of the threads multiply nothing
        ([3] * 100 + [1] * 924 + [0] * 100, 1.0, 1.5),
    ],
)
def test_blocks_that_share_tiles(of_blocks: list[int], inside: float, best: float) -> None:
    """Busiest thread / average thread, or that of the best that as many blocks as have tiles can reach.

    ``inside``: the fraction of the threads that multiply.
    """
    threads, of_tile = 1024, 64
    work = WorkPerThread(len(of_blocks), len(of_blocks))  # a thread stands for those of its block
    for tiles in {*of_blocks}:
        work.add(np.array(of_blocks) == tiles, 1, tiles * of_tile)
    sums = Sums()
    work.add_to(sums)
    sums.products = int(sums.products * threads * inside)
    share = sums.most_products * threads * blocks_to_share(sums, Grid((len(of_blocks), 1, 1), (threads, 1, 1)))
    assert share / sums.products == pytest.approx(best, rel=1e-3)


def test_blocks_without_work_count_as_those_with_some() -> None:
    source = """extern "C" __global__ void gemm(const float *x, float *y)
    { if (blockIdx.x % 4 == 0) for (int i = 0; i < 100; i++) y[blockIdx.x] += x[i]; }"""
    x, y = np.ones(256, np.float32), np.zeros(3000, np.float32)
    found = simulate(source, "gemm", 3000, 1, [x, y]).counters
    share = found["thread_instructions_if_equal"] / found["thread_instructions"]
    assert 3 < share < 4
    assert found["thread_instructions"] == found["warp_instructions"], "one thread for each warp"


def test_sampled_blocks_that_are_not_neighbours_count_as_each_alone() -> None:
    """Blocks 3 and 90 take other paths, other numbers of iterations, and access other patterns."""
    source = """extern "C" __global__ void gemm(const float *x, float *y)
    { __shared__ float s[64]; const int b = blockIdx.x, t = threadIdx.x; float a = 0; s[t] = x[b];
      __syncthreads(); for (int i = 0; i < 10 + b % 9; i++) a += x[64 * i + t * (b % 4)] * s[t * (b % 5) % 64];
      if (b > 50 && t < 20) a += x[b * t % 1000]; y[64 * b + t] = a; }"""
    compiled = must_compile(source, path="kernel.cu", entry="gemm")
    buffers = Buffer("x", np.ones(4096, np.float32)), Buffer("y", np.zeros(6400, np.float32), True)

    def sampled(*blocks: int) -> Mapping[str, float]:
        ran = Simulator().sample(compiled, Grid((100, 1, 1), (64, 1, 1)), buffers, blocks)
        assert ran.fault is None
        assert not ran.counters.inexact
        return ran.counters.totals

    one, other, both = sampled(3), sampled(90), sampled(3, 90)
    assert one != other
    for name, value in one.items():
        busiest = max(value, other[name])  # of the thread with the most work
        expected = busiest if name.endswith("_if_equal.sum") else (value + other[name]) / 2
        assert both[name] == pytest.approx(expected), name


def test_bulk_copies_of_buffers_in_pages() -> None:
    """Pages are allocated in the order of first access, so pages that are adjacent in memory are stored apart."""
    compiled = must_compile(MIRROR, path="kernel.cu")
    each = PAGE // 4

    def floats(numbers: Any) -> Any:
        return (numbers[:, None] * each + np.arange(each)).astype(np.float32).view(np.uint8)

    only_sizes = [np.broadcast_to(np.zeros(1, np.float32), (100 * 256,)) for _ in range(2)]
    x = Buffer("x", only_sizes[0], pages=Pages(floats, 8))
    y = Buffer("y", only_sizes[1], True, pages=Pages(lambda numbers: np.zeros((numbers.size, PAGE), np.uint8), 8))
    ran = Simulator().sample(compiled, Grid((100, 1, 1), (256, 1, 1)), (x, y), (3, 90))
    assert not ran.fault
    assert not ran.dependent
    numbers, stored = ran.touched["y"]
    assert sorted(numbers) == [6, 7, 180, 181]
    of = dict(zip(numbers.tolist(), stored.view(np.float32), strict=True))
    for block in (3, 90):
        got = np.concatenate([of[2 * block], of[2 * block + 1]])
        assert np.array_equal(got, np.arange(256 * block, 256 * block + 256)[::-1])


TICKET = """__device__ int n;
extern "C" __global__ void k(const float *x, float *y)
{ if (threadIdx.x == 0) atomicAdd(&n, 1); y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x] + blockIdx.x; }"""
WAITS = """__device__ volatile int n;
extern "C" __global__ void k(const float *x, float *y)
{ while (blockIdx.x != n) ; y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x] + blockIdx.x;
  __syncthreads(); if (threadIdx.x == 0) n = n + 1; }"""


def test_blocks_that_run_alone() -> None:
    """An atomic that no block needs, and a wait for the block before."""
    y = np.zeros(320, np.float32)
    for source, right in ((TICKET, True), (WAITS, False)):
        compiled = must_compile(source, path="kernel.cu")
        buffers = Buffer("x", np.ones(32, np.float32)), Buffer("y", y, True)
        with_others, alone = (
            Simulator().sample(compiled, Grid((10, 1, 1), (32, 1, 1)), buffers, (5,), it) for it in (False, True)
        )
        assert with_others.dependent
        assert bool(alone.dependent) is not right
        assert alone.fault is None


# Lane t copies float a * t to float b * t. A step of 16 floats meets at two banks: 16 lanes each, without a step one.
@pytest.mark.parametrize(
    ("read", "written", "wavefronts", "of_source"), [(1, 1, 2, 0), (16, 1, 32, 30), (1, 16, 32, 0)]
)
def test_wavefronts_of_copies_are_told_apart(read: int, written: int, wavefronts: int, of_source: int) -> None:
    """Wavefronts of a copy that its source addresses cause are not counted as bank conflicts of the layout."""
    body = """__shared__ float wide[1024];
    copy4((unsigned)__cvta_generic_to_shared(wide + t % 32 * WRITTEN + t / 32 * 512), x + t % 32 * READ);
    y[t] = wide[n];"""
    body = body.replace("WRITTEN", str(written)).replace("READ", str(read))
    source = f"{HEAD}\n{body}\n}}"
    x, y = np.ones(512, np.float32), np.zeros(256, np.float32)
    alone = simulate(source.replace("copy4((", "if (n) copy4(("), "k", 1, THREADS, [x, y, 0]).counters
    found = simulate(source, "k", 1, THREADS, [x, y, 0]).counters
    assert found["shared_wavefronts"] - alone["shared_wavefronts"] == wavefronts
    assert (found["copy_source_wavefronts"], alone["copy_source_wavefronts"]) == (of_source, 0)


# Two copies of one group with as many multiply-adds as the launch says between them, after one product.
SPREAD = """__shared__ float more[64];
const unsigned to = (unsigned)__cvta_generic_to_shared(s + t), beside = (unsigned)__cvta_generic_to_shared(more + t);
float a = x[t]; for (int i = 0; i <= n / 8; i++) a = a * 1.5f + 1;
asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + t) : "memory");
for (int i = 0; i < n; i++) a = a * 1.5f + 1;
asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" :: "r"(beside), "l"(x + t) : "memory");
asm volatile("cp.async.wait_group 0;" ::: "memory"); y[t] = a + s[t] + more[t];"""


def test_the_arithmetic_between_copies_of_a_group_is_counted() -> None:
    counters = [counted(SPREAD, n) for n in (0, 100)]
    assert [it["copy_groups"] for it in counters] == [2, 2]
    assert [it["copy_groups_span"] for it in counters] == [0, 200]


def test_copies_before_the_first_product_are_a_prologue() -> None:
    before = SPREAD.replace("a = x[t]; for (int i = 0; i <= n / 8; i++) a = a * 1.5f + 1;", "a = x[t];")
    counters = [counted(before, n) for n in (0, 100)]
    assert [(it["copy_groups"], it["copy_groups_span"]) for it in counters] == [(0, 0), (0, 0)]
