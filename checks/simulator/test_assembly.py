"""Inline assembly: names belong to their braces, text in comments and strings is no code, constants have a width."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.ptx.parser import without_comments_and_strings

COUNT = """{ .reg .pred p; .reg .u32 n; mov.u32 n, 0; L1: add.u32 n, n, STEP; setp.lt.u32 p, n, 20; @p bra L1;
    mov.u32 %0, n; }"""


def lines(text: str) -> str:
    """A C++ string literal over several lines."""
    return " ".join(f'"{line}\\n"' for line in text.replace('"', '\\"').splitlines())


def asm(run, *bodies: str, loop: str = "") -> list[int]:
    """The results of each statement (output ``%0``, input ``%1`` = t) in 32 threads; of several, one digit each."""
    text = "".join(f'asm volatile({lines(b)} : "=r"(v) : "r"(t)); o[t] = o[t] * 100 + v;' for b in bodies)
    out = np.zeros(32, np.int32)
    run(f'extern "C" __global__ void k(int *o, int n) {{ const int t = threadIdx.x; int v; {loop} {{ {text} }} }}',
        1, 32, [out, 3])  # fmt: skip
    return out.tolist()


def test_a_label_belongs_to_its_braces(run):
    """The same labels and registers in two blocks: the first one used to jump into the second."""
    bodies = [COUNT.replace("STEP", "3"), COUNT.replace("STEP", "7")]
    assert asm(run, *bodies) == [2121] * 32
    assert asm(run, bodies[0], loop='_Pragma("unroll") for (int i = 0; i < 3; i++)') == [212121] * 32
    assert asm(run, bodies[1], loop="for (int i = 0; i < n; i++)") == [212121] * 32


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # a label of the outer braces, and one that is declared again inside
        ("""{ .reg .pred p; .reg .u32 a; mov.u32 a, 0;
            again: { .reg .u32 b; add.u32 b, a, 5; mov.u32 a, b; setp.lt.u32 p, a, 12; @p bra again; }
            { bra done; again: add.u32 a, a, 1000; done: add.u32 a, a, 1; }
            mov.u32 %0, a; }""", [16] * 32),
        # an inner register hides the outer one, also after braces further in have closed
        ("""{ .reg .u32 x, y; mov.u32 x, 1; mov.u32 y, 2;
            { .reg .u64 x; mov.u64 x, 0x700000007; { .reg .u16 x<2>; mov.u16 x0, 9; mov.u16 x1, 8; }
              .reg .u64 y; add.u64 y, x, 1; }
            add.u32 %0, x, y; }""", [3] * 32),
        # numbered registers of two blocks with different widths
        ("""{ .reg .u32 r; { .reg .u64 w<3>; mov.u64 w1, 0x1ffffffff; shr.u64 w2, w1, 32; cvt.u32.u64 r, w2; }
            { .reg .u32 w<3>; mov.u32 w1, 5; add.u32 w2, w1, r; mov.u32 %0, w2; } }""", [6] * 32),
        # a table of branches in each of two braces
        ("""{ .reg .u32 i, r; and.b32 i, %1, 1;
            { ts: .branchtargets A, B; brx.idx i, ts; A: mov.u32 r, 10; bra E; B: mov.u32 r, 20; E: }
            { ts: .branchtargets A, B; brx.idx i, ts; A: add.u32 r, r, 1; bra E; B: add.u32 r, r, 2; E: }
            mov.u32 %0, r; }""", [11, 22] * 16),
        # a register called like a part of a special one, and addresses in scoped registers
        ("""{ .reg .u32 x, y, a; .shared .u32 s[33]; mov.u32 x, 1; mov.u32 a, s; mad.lo.u32 a, %1, 4, a;
            st.shared.u32 [a+4], %1; add.u32 a, a, 8; ld.shared.u32 y, [ a + -4 ]; mov.u32 x, %tid.x;
            add.u32 %0, x, y; }""", [2 * t for t in range(32)]),
        # shared arrays of one name in two braces
        ("""{ .reg .u32 r, q; { .shared .u32 s; st.shared.u32 [s], 5; ld.shared.u32 r, [s]; }
            { .shared .u32 s; st.shared.u32 [s], 6; ld.shared.u32 q, [s]; } mad.lo.u32 %0, r, 10, q; }""", [56] * 32),
        # guards, several statements a line, no blanks, labels on the line
        ("{.reg .pred p;setp.eq.u32 p,%1,3;mov.u32 %0,1;@ !p bra X;mov.u32 %0,2;X: @p add.u32 %0,%0,0x10;}",
         [18 if t == 3 else 1 for t in range(32)]),
        # names without a percent sign outside of any braces
        (".reg .u32 tmp; add.u32 tmp, %1, 0b101; sub.u32 %0, tmp, 017;", [t - 10 for t in range(32)]),
        # code in comments and strings
        ("""{ .reg .u32 r; mov.u32 r, 1; // } add.u32 r, r, 5;
            /* L: add.u32 r, r, 7; " } */ .pragma "nounroll; add.u32 r, r, 9; // }";
            add.u32 r, r, 40; mov.u32 %0, r; }""",
         [41] * 32),
        ("""{ .loc 1 7 3 mov.u32 %0, %1; .loc 1 8 1
            add.u32
            %0, %0,
            1; }""", [t + 1 for t in range(32)]),
        # constants: rounded to the instruction's width, or to what the register holds
        ("{ .reg .f32 x; mov.f32 x, 0d4008000000000000; add.f32 x, x, 1.5; mul.f32 x, x, 2e1; cvt.rzi.s32.f32 %0, x; }",
         [90] * 32),
        ("{ .reg .f64 x; mov.f64 x, 0f40400000; add.f64 x, x, -.5; cvt.rni.s32.f64 %0, x; }", [2] * 32),
        ("{ .reg .u32 x; mov.b32 x, 0f3F800000; shr.u32 %0, x, 23; }", [127] * 32),
    ],
)  # fmt: skip
def test_inline_assembly_does_what_ptxas_reads(run, body, expected):
    assert asm(run, body) == expected


def test_a_branch_beyond_its_table_is_a_fault(run):
    body = "{ ts: .branchtargets A, B; brx.idx %1, ts; A: mov.u32 %0, 10; B: add.u32 %0, %0, 20; }"
    source = 'extern "C" __global__ void k(int *o) { int v = 0; asm("BODY" : "+r"(v) : "r"(threadIdx.x)); o[0] = v; }'
    launched = run(source.replace("BODY", body), 1, 32, [np.zeros(1, np.int32)], fault="illegal_access")
    assert "thread 2 in block 0 takes branch 2 of 2" in launched.fault.message


def test_a_string_is_no_code(run):
    """The load would miss: it stands in a string, in a comment, and behind a quotation mark inside a string."""
    for text in ('.pragma "x; ld.global.u32 %0, [0];";', '.pragma "a\\"; ld.global.u32 %0, [0]; //";'):
        plain_text, strings = without_comments_and_strings(text)
        assert "ld.global" not in plain_text
        assert len(strings) == 1
    assert asm(run, 'mov.u32 %0, 1; .pragma "x; ld.global.u32 %0, [0]"; // "\nadd.u32 %0, %0, 1;') == [2] * 32


def test_sections_and_file_names_are_data():
    text = """.version 8.0 .target sm_90 .address_size 64
        .visible .entry k(.param .u64 k_param_0) { .loc 2 5 1, function_name $L__i0+4, inlined_at 1 9 2
        ret; }
        .file 1 "a.cu" .file 2 "b;{.cu", 5, 6
        .section .debug_str { $L__i0: .b8 0, 1 .b8 2 }
        .global .align 4 .u32 after;"""
    module = parser.parse(text)
    source = module.kernels["k"].instructions[0].source
    assert source == ptx.SourceLine("b;{.cu", 5, ptx.SourceLine("a.cu", 9))
    assert [v.name for v in module.variables] == ["after"]
