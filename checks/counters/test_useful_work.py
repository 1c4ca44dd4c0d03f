"""Useful work that gates count: each way to pad the counts, beside a twin with real work."""

from __future__ import annotations

import pytest

from checks.counters.test_totals import LINE, Program
from gemm_lessons.engine.compiler.sass import SassInstruction
from gemm_lessons.engine.sass.exposed_latency import events_of
from gemm_lessons.engine.sass.operands import decode

THREADS = 64
# A load of x; arithmetic; its use. ``a`` and ``b`` come from shared memory.
LOADED = "float a = s[t], b = s[63 - t], sum = 0.0f;"


def padded(arithmetic: str) -> str:
    """Return a body with ``arithmetic`` n times between a load and its use."""
    return f"{LOADED} float v = x[t]; for (int i = 0; i < n; i++) {{ {arithmetic} }} y[t] = v + sum;"


HIDE = {  # arithmetic -> whether it hides the load
    "products": ("sum = fmaf(a, b, sum);", True),
    "products of converted numbers": ("sum += (a + i) * fabsf(b);", True),
    "products in fp64": ("sum = __double2float_rn(fma((double)a, (double)b, (double)sum));", True),
    "products, and additions apart": ("a += 1; sum = __fadd_rn(sum, __fmul_rn(a, b));", True),
    "products of halves": (
        'int h = __float_as_int(sum); asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(h) : "r"(__float_as_int(a)),'
        ' "r"(__float_as_int(b))); sum = __int_as_float(h);', True),
    "halves by an index": (
        'int h = __float_as_int(sum); asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(h) : "r"(t), "r"(t + 1));'
        ' sum = __int_as_float(h);', False),
    "multiply-adds by an index": ("sum = sum * __int2float_rn(i) + t;", False),
    "multiply-adds by a parameter": ("sum = sum * n + n;", False),
    "additions of an index": ('asm volatile("add.f32 %0, %0, %1;" : "+f"(sum) : "f"((float)t));', False),
    "integers": ('int k = t; asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(k)); sum += 0 * k;', False),
    "products for nothing": (
        'float junk = t; asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(junk) : "f"(a), "f"(b));', False),
    "additions beside a tensor core": (
        'if (i == 0) { float d[4] = {a, b}; asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32'
        ' {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])'
        ' : "r"(__float_as_int(a))); sum = d[0]; } asm volatile("add.f32 %0, %0, %1;" : "+f"(sum) : "f"(a));', False),
}  # fmt: skip


@pytest.mark.parametrize(("arithmetic", "hides"), HIDE.values(), ids=HIDE)
def test_what_hides_a_load(arithmetic: str, hides: bool) -> None:
    found = PROGRAM.counted(padded(arithmetic), 200)
    assert not found.obstacle
    assert found["global_bytes_waited_for"] == (0 if hides else 2 * LINE)


@pytest.mark.parametrize(("register", "waited"), [("R8", False), ("R9", True)])
def test_a_wide_product_reads_one_register_of_each_factor(register: str, waited: bool) -> None:
    """IMAD.WIDE R12, R8, ... reads R8 alone: R9, which a load fills, is not used by it."""
    lines = ["LDG.E R9, [R2.64]", f"IMAD.WIDE R12, {register}, 0x4, R4", *["FFMA R20, R21, R22, R20"] * 128,
             "STG.E [R6.64], R9"]  # fmt: skip
    code = [decode(i, SassInstruction(it.split()[0], 0, "", None, 16 * i, 0, it)) for i, it in enumerate(lines)]
    events = events_of(code, lambda d: 4 * (d.name == "LDG"), [int(d.name == "FFMA") for d in code])
    assert [event.until for event in events.events] == [0 if waited else 128]


JOINS = {  # how numbers that count for nothing reach C
    "a product with zero": "junk * (float)(n >> 30)",
    "a branch that is never taken": "(n < 0 ? junk : 0.0f)",
    "a minimum with infinity": "fminf(0.0f, junk + __int_as_float(0x7f800000 + (n >> 30)))",
    "bits": "__int_as_float(__float_as_int(junk) & n >> 30)",
}


def weightless(joined: str) -> str:
    return f"""float junk = t, v = x[t]; for (int i = 0; i < n; i++) asm volatile("add.f32 %0, %0, %0;" : "+f"(junk));
               float sum = s[t] * s[63 - t]; y[t] = v + sum + {joined};"""


@pytest.mark.parametrize("joined", JOINS.values(), ids=JOINS)
def test_what_is_joined_with_no_weight_hides_nothing(joined: str) -> None:
    assert PROGRAM.counted(weightless(joined), 200)["global_bytes_waited_for"] == 2 * LINE


EXCHANGES = {  # body -> useful exchanges of the two warps
    "shuffle": ("y[t] = __shfl_xor_sync(~0u, x[t], 1);", 2),
    "shuffle of an index": ("y[__shfl_xor_sync(~0u, t, 1)] = x[t];", 0),
    "reduction": ("y[t] = __reduce_or_sync(~0u, t % 32 == n ? __float_as_int(x[t]) : 0);", 2),
    "reduction of an index": ("y[t] = x[t] + __reduce_max_sync(~0u, t);", 0),
    "ballots": ("unsigned bits = __float_as_uint(x[t]), w = 0; for (int i = 0; i < 32; i++)"
                " w |= (__ballot_sync(~0u, bits >> i & 1) >> n & 1) << i; y[t] = __uint_as_float(w);", 64),
    "ballot of an index": ("y[t] = __ballot_sync(~0u, t > n) + x[t];", 0),
    "match": ("y[t] = __match_any_sync(~0u, __float_as_int(x[t]));", 2),
    "movmatrix": ("int a = __float_as_int(x[t]);"
                  ' asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(a));'
                  " y[t] = __int_as_float(a);", 2),
    "a check that stores nothing": ("if (__any_sync(~0u, isnan(x[t]))) __nanosleep(1); y[t] = s[t];", 0),
    "sums added across lanes": ("float a = x[t]; for (int i = 16; i; i /= 2) a += __shfl_down_sync(~0u, a, i);"
                                " if (t % 32 == 0) y[t] = a;", 10),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), EXCHANGES.values(), ids=EXCHANGES)
def test_what_moves_numbers_from_lane_to_lane(body: str, expected: int) -> None:
    found = PROGRAM.counted(body, 3)
    assert not found.obstacle
    assert found["exchanges"] == expected


MINE = "for (int i = 0; i < 64; i++) sum += s[i] * s[63 - i];"
BALANCED = {  # body -> of products, busiest thread / average thread
    "all": (f"{MINE} y[t] = sum;", 1),
    "one warp": (f"if (t < 32) {{ {MINE} y[t] = sum; }}", 2),
    "one warp, and another that spins": (
        f"""if (t < 32) {{ {MINE} y[t] = sum; }} else {{ int k = t;
        for (int i = 0; i < 300; i++) asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(k));
        if (n < 0) y[0] = k; }}""", 2),
    "one lane by a predicate": (
        "for (int i = 0; i < 64; i++) if (t == 7 + n) sum = fmaf(((volatile float *)s)[i], s[63 - i], sum);"
        " y[t] = sum;",
        64),
}  # fmt: skip


def summing(body: str) -> str:
    return f"float sum = 0.0f; {body}"


@pytest.mark.parametrize(("body", "expected"), BALANCED.values(), ids=BALANCED)
def test_balance_of_products(body: str, expected: float) -> None:
    found = PROGRAM.counted(summing(body))
    assert not found.obstacle
    assert found["products_if_equal"] == expected * found["products"] > 0


PROGRAM = Program(
    (
        *(padded(arithmetic) for arithmetic, _ in HIDE.values()),
        *map(weightless, JOINS.values()),
        *(body for body, _ in EXCHANGES.values()),
        *(summing(body) for body, _ in BALANCED.values()),
    )
)
