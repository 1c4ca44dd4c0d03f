"""Uninitialised variables: found where they are read, however many blocks run at once."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.conftest import Run
from gemm_lessons.engine.records.results import Launched

TOGETHER = True

HEAD = """extern "C" __global__ void k(const float *a, float *c, int n)
{
    const int t = threadIdx.x, g = blockIdx.x * blockDim.x + t;
"""
SUM = "for (int i = 0; i < n; ++i) acc += a[i];"
SOME_LANES = """float v;
asm volatile("{ .reg .f32 f; .reg .pred p; setp.lt.s32 p, %1, 8; @p mov.f32 f, 0f40000000; BETWEEN }" \
: "=f"(v) : "r"(t));
c[g] = v;"""  # a statement of several lines is in its first one for NVRTC 13.5, in its last one for 13.0
IN_TURN = """float v; asm("{ .reg .pred p; setp.lt.s32 p, %1, 32; @p mov.f32 %0, 0f40000000; }" : "=f"(v) : "r"(t));
for (int i = 0; i < n; ++i) if (t / 32 == i % 2) { v = v * v; __syncwarp(); }
c[g] = v;"""
# body, from line 4 on; how many threads of 64 read what has no value
BODIES = {
    "no first value": (f"float acc;\n{SUM}\nc[g] = acc;", 64),
    "first value": (f"float acc = 0;\n{SUM}\nc[g] = acc;", 0),
    "set in the loop": ("float acc;\nfor (int i = 0; i < n; ++i) { acc = a[i]; c[g] = acc; }", 0),
    "set and used under one condition": (
        "float v; if (t < n) v = a[t];\n__syncthreads();\nif (t < n) c[g] = v * 2; else c[g] = 1;", 0),
    "set by some lanes": (SOME_LANES.replace("BETWEEN", "add.f32 %0, f, f;"), 56),
    "set by some lanes, read by these": (
        SOME_LANES.replace("BETWEEN", "mov.f32 %0, 0f00000000; @p add.f32 %0, f, f;"), 0),
    "handed on": (SOME_LANES.replace("BETWEEN", "{ .reg .f32 h; mov.f32 h, f; add.f32 %0, h, h; }"), 56),
    "the same step by lanes that have set it, then by others": (IN_TURN, 32),
    "vote": ("const int any = __syncthreads_or(a[t] > 3);\nif (t == 0) c[0] = any;", 0),
}  # fmt: skip


# PTX over %r: set to t in lanes 0 to 7, unset in the other 56; %d: set everywhere; %p: t < 8; result in %o.
BITS = {
    "stored": ("mov.b32 %o, %r;", 56),
    "low half": ("mov.b32 {%x, %y}, %r; mov.b32 %o, {%x, %z};", 64),
    "half that is set": ("mov.b32 %o, {%z, %z2}; and.b32 %o, %o, 0xffff0000;", 0),
    "half that is not": ("mov.b32 %o, {%z, %z2}; and.b32 %o, %o, 0xffff;", 64),
    "shifted out": ("mov.b32 %o, {%z2, %z}; shl.b32 %o, %o, 16; shr.s32 %o, %o, 16;", 0),
    "sign extended": ("cvt.s32.s16 %o, %z;", 64),
    "bytes by prmt": ("prmt.b32 %o, %r, %d, 0x7654;", 0),
    "one byte by prmt": ("prmt.b32 %o, %r, %d, 0x7653;", 56),
    "overwritten by bfi": ("bfi.b32 %o, %d, %r, 0, 32;", 0),
    "partly overwritten": ("bfi.b32 %o, %d, %r, 0, 31;", 56),
    "taken by bfe": ("bfi.b32 %o, %d, %r, 0, 8; bfe.u32 %o, %o, 2, 6;", 0),
    "ones decide or": ("or.b32 %o, %r, -1;", 0),
    "xor decides nothing": ("xor.b32 %o, %r, %r;", 56),
    "inverted": ("not.b32 %o, %r;", 56),
    "lop3 as and": ("lop3.b32 %o, %r, 0, %d, 0x80;", 0),
    "lop3 as or": ("lop3.b32 %o, %r, 0, %d, 0xfe;", 56),
    "sum of high bits": ("and.b32 %o, %r, 0xff00; add.s32 %o, %o, %d; and.b32 %o, %o, 0xff;", 0),
    "carries upwards": ("and.b32 %o, %r, 1; add.s32 %o, %o, %d; and.b32 %o, %o, 0xf0;", 56),
    "moved by a power of two": ("and.b32 %o, %r, 255; mul.lo.u32 %o, %o, 256; and.b32 %o, %o, 0xffff00ff;", 0),
    "times three": ("and.b32 %o, %r, 255; mul.lo.u32 %o, %o, 3; and.b32 %o, %o, 0x100;", 56),
    "below the product": ("and.b32 %o, %r, 255; mul.lo.u32 %o, %o, 768; and.b32 %o, %o, 255;", 0),
    "times zero": ("mul.lo.u32 %o, %r, 0;", 0),
    "square": ("mul.lo.u32 %o, %r, %r; and.b32 %o, %o, 0x100;", 56),
    "moved, then added": ("and.b32 %o, %r, 255; mad.lo.u32 %o, %o, 256, %d; and.b32 %o, %o, 0x10000;", 56),
    "float sum": ("add.f32 %f, %f, 0f3F800000; mov.b32 %o, %f;", 64),
    "false decides": ("setp.ne.s32 %q, %r, 3; and.pred %q, %q, %p; selp.b32 %o, 1, 2, %q;", 0),
    "true decides nothing": ("setp.ne.s32 %q, %r, 3; or.pred %q, %q, %p; selp.b32 %o, 1, 2, %q;", 56),
    "true decides": ("setp.ne.s32 %q, %r, 3; not.pred %n, %p; or.pred %q, %q, %n; selp.b32 %o, 1, 2, %q;", 0),
    "combined in setp": ("setp.ne.and.s32 %q, %r, 3, %p; selp.b32 %o, 1, 2, %q;", 0),
    "combined the other way": ("setp.ne.or.s32 %q, %r, 3, %p; selp.b32 %o, 1, 2, %q;", 56),
    "combined with not": ("setp.ne.or.s32 %q, %r, 3, !%p; selp.b32 %o, 1, 2, %q;", 0),
    "not chosen": ("selp.b32 %o, %r, %d, %p;", 0),
    "chosen": ("selp.b32 %o, %d, %r, %p;", 56),
    "same either way": ("setp.lt.s32 %q, %r, 3; selp.b32 %o, 5, 5, %q;", 0),
    "differs in a set bit": ("or.b32 %o, %r, 1; setp.eq.s32 %q, %o, 2; selp.b32 %o, 1, 2, %q;", 0),
    "differs in no set bit": ("or.b32 %o, %r, 1; setp.eq.s32 %q, %o, 3; selp.b32 %o, 1, 2, %q;", 56),
    "guarded": ("mov.b32 %o, 1; @%p mov.b32 %o, %r;", 0),
    "guarded the other way": ("mov.b32 %o, 1; @!%p mov.b32 %o, %r;", 56),
    "undefined guard": ("mov.b32 %o, 1; setp.lt.s32 %q, %r, 3; @%q mov.b32 %o, 2;", 56),
    "branch": ("setp.lt.s32 %q, %r, 3; mov.b32 %o, 1; @%q bra L; mov.b32 %o, 2; L:", 56),
    "branch that is decided": ("setp.lt.and.s32 %q, %r, 3, %p; mov.b32 %o, 1; @%q bra L; mov.b32 %o, 2; L:", 0),
    "shuffled to itself": ("shfl.sync.bfly.b32 %o, %r, 0, 31, -1;", 56),
    "shuffled in from lane 0": ("shfl.sync.idx.b32 %o, %r, 0, 31, -1;", 32),
    "ballot": ("setp.lt.s32 %q, %r, 99; vote.sync.ballot.b32 %o, %q, -1; and.b32 %o, %o, 0xff;", 32),
    "loaded over": ("ld.global.u32 %r, [%a]; mov.b32 %o, %r;", 0),
    "address": ("and.b32 %o, %r, 4; cvt.u64.u32 %w, %o; add.s64 %w, %w, %a; ld.global.u32 %o, [%w];", 56),
    "halves apart": ("mov.b32 %o, {%z2, %z}; add.f16x2 %o, %o, %o; and.b32 %o, %o, 0xffff;", 0),
}  # fmt: skip
ASM = (
    "{ .reg .b32 %r, %o; .reg .f32 %f; .reg .pred %p, %q, %n; .reg .b16 %x, %y, %z, %z2; "
    "setp.lt.s32 %p, $2, 8; mov.b16 %z2, 7; @%p mov.b32 %r, $2; BODY mov.b32 $0, %o; }"
)


def asm(name: str, body: str) -> str:
    """One line of C++ that runs ``body`` and stores its result."""
    text = (
        ASM.replace("BODY", body).replace("%d", "$2").replace("%w", "$1").replace("%a", "$3").replace("L", f"L{name}")
    )
    text = text.replace("%", "%%").replace("$", "%")
    return (
        f'{{ int o; long long w; asm volatile("{text}" : "=r"(o), "=&l"(w) : "r"(t), "l"(a) : "memory"); c[g] = o; }}'
    )


def test_what_decides_is_told_from_what_is_only_read(run: Run) -> None:
    """One kernel, one case a line."""
    lines = [asm(str(number), body) for number, (body, _) in enumerate(BITS.values())]
    _, launched = launch(run, "\n".join(lines))
    found = {f.line: f.count for f in launched.findings if f.kind == "unset"}
    first = HEAD.count("\n") + 1
    counts = {name: found.get(first + number, 0) for number, name in enumerate(BITS)}
    assert counts == {name: count for name, (_, count) in BITS.items()}


def launch(run: Run, body: str, blocks: int = 1, block_limit: int | None = None) -> tuple[np.ndarray, Launched]:
    a = np.arange(64, dtype=np.float32)
    a.setflags(write=False)
    out = np.zeros(64 * blocks, np.float32)
    return out, run(f"{HEAD}{body}\n}}", blocks, 64, [a, out, 8], block_limit=block_limit)


@pytest.mark.parametrize(("body", "threads"), BODIES.values(), ids=BODIES)
def test_reads_of_what_has_no_value_are_found(run: Run, body: str, threads: int) -> None:
    out, launched = launch(run, body)
    found = [finding for finding in launched.findings if finding.kind == "unset"]
    assert [(finding.count, finding.line) for finding in found] == ([(threads, 5)] if threads else [])
    assert np.isnan(out).sum() == threads
    if threads:
        assert (
            f"line 5 reads a variable that thread {64 - threads} in block 0 has not given a value" in found[0].message
        )


def test_the_first_thread_is_named_whichever_use_runs_first(run: Run) -> None:
    """Threads 8 and up store the variable before the others do."""
    body = (
        'asm volatile("{ .reg .f32 f, g; .reg .pred q; setp.ge.s32 q, %1, 8; add.f32 g, f, f;'
        ' @q st.global.f32 [%0], g; st.global.f32 [%0], g; }" : : "l"(c + g), "r"(t) : "memory");'
    )
    _, launched = launch(run, body)
    (found,) = (finding for finding in launched.findings if finding.kind == "unset")
    assert found.count == 56 + 64
    assert "thread 0 in block 0 " in found.message


def test_the_result_does_not_depend_on_how_many_blocks_run_at_once(run: Run) -> None:
    body, _ = BODIES["no first value"]
    together, first = launch(run, body, 6)
    for block_limit in (1, 4):
        alone, second = launch(run, body, 6, block_limit)
        assert together.tobytes() == alone.tobytes()
        assert first.findings == second.findings
    assert [finding.count for finding in first.findings] == [6 * 64]
