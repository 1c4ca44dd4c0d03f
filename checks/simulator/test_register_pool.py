"""``setmaxnreg``: registers of a block counted; what would hang or is undefined is told by its line, and nothing
else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gemm_lessons.engine import CompileError, UnsupportedKernel, simulate

# Warpgroup 0 gives registers back, the others ask for more. 384 threads start with 168 registers each.
KERNEL = """
#define DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
#define INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))
#define MEET(number, threads) asm volatile("bar.sync %0, %1;" :: "n"(number), "n"(threads) : "memory")

extern "C" __global__ void __launch_bounds__(384, 1) k(const float *x, float *y)
{
    const int t = threadIdx.x, role = t / 128;
    float sum = x[t];
    if (role == 0) {
        DEC(24);
    } else {
        INC(240);
    }
    for (int i = 1; i < 4; i++)
        sum += x[(t + i) % 384];
    y[t] = sum;
}
"""
ARCH = "sm_90a"
TOGETHER = True  # the disassembly says whether registers are exchanged


def run(*changes: tuple[str, str]) -> tuple[Any, list[str]]:
    """Run the kernel with changes, return the launch and the lines of its source."""
    source = KERNEL
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    x, y = np.arange(384, dtype=np.float32), np.zeros(384, np.float32)
    found = simulate(source, "k", 1, 384, [x, y], arch=ARCH)
    if found.fault is None:
        assert np.array_equal(y, sum(np.roll(x, -i) for i in range(4)))
    return found, source.splitlines()


FITS = [
    (),
    (("DEC(24)", "DEC(40)"), ("INC(240)", "INC(232)")),
    (("INC(240)", "INC(168)"),),  # as many as before
    (("DEC(24)", "DEC(168)"), ("INC(240)", "INC(168)")),
    (("DEC(24);", "DEC(96); MEET(1, 128); DEC(24);"),),
    (("INC(240);", "INC(200); MEET(2, 256); INC(240);"),),
    (("INC(240);", "if (role == 1) { INC(240); } else { INC(200); }"),),
    (("DEC(24);\n", "MEET(1, 128); DEC(24);\n"),),  # the others wait for that
    (("__launch_bounds__(384, 1)", "__maxnreg__(168)"),),
    (("__launch_bounds__(384, 1)", "__launch_bounds__(512, 1)"), ("INC(240)", "INC(176)")),
]


@pytest.mark.parametrize("changes", FITS)
def test_what_fits_runs(changes: tuple[tuple[str, str], ...]) -> None:
    found, _ = run(*changes)
    assert found.fault is None, found.fault
    assert not found.findings


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        (
            (("INC(240)", "INC(248)"),),
            "INC(248)",
            "2,560 more, but the other warps of the block have given back only 512",
        ),
        ((("DEC(24);", ";"),), "INC(240)", "given back only 0 (setmaxnreg.dec)"),
        ((("DEC(24)", "DEC(80)"),), "INC(240)", "have 168"),
        ((("INC(240);", "INC(200); __syncwarp(); INC(256);"),), "INC(256)", "for 256 registers a thread"),
        (
            (("DEC(24);", "MEET(1, 384); DEC(24);"), ("INC(240);", "INC(240); MEET(1, 384);")),
            "INC(240)",
            "the warps that give some back in line 11 wait for something else before",
        ),
    ],
)
def test_what_never_gets_its_registers_hangs(changes: tuple[tuple[str, str], ...], line: str, words: str) -> None:
    found, lines = run(*changes)
    assert found.fault.kind == "deadlock"
    assert line in lines[found.fault.line - 1]
    assert words in found.fault.message
    assert "registers each" in found.fault.message, "who waits is told, too"


@pytest.mark.parametrize(
    ("changes", "case", "line", "words"),
    [
        ((("DEC(24);", "DEC(24); MEET(1, 128); DEC(40);"),), "dec", "DEC(40)", "its warp has 24"),
        ((("INC(240)", "INC(240); MEET(2, 256); INC(232)"),), "inc", "INC(232)", "has 240"),
        ((("DEC(24);", "if (t < 64) DEC(24);"), ("INC(240)", "INC(168)")), "part", "DEC(24)", "warp 2 of its"),
        ((("role == 0", "t < 64"), ("INC(240)", "INC(168)")), "part", "DEC(24)", "warp 2 of its"),
    ],
)  # fmt: skip
def test_misuse(changes: tuple[tuple[str, str], ...], case: str, line: str, words: str) -> None:
    found, lines = run(*changes)
    assert (found.fault.kind, found.fault.case) == ("register_pool", case)
    assert line in lines[found.fault.line - 1]
    assert words in found.fault.message


def test_ptxas_refuses_a_dec_above_the_launch() -> None:
    with pytest.raises(CompileError, match=r"kernel.cu:11: .* register count \(200\)"):
        run(("DEC(24)", "DEC(200)"), ("INC(240)", "INC(168)"))


@pytest.mark.parametrize("bounds", ["__launch_bounds__(384)", ""])
def test_what_the_compiler_leaves_out_is_told(bounds: str) -> None:
    found, lines = run(("__launch_bounds__(384, 1)", bounds), ("INC(240)", "INC(248)"))
    assert found.fault is None
    (note,) = found.findings
    assert (note.kind, note.severity) == ("registers_ignored", "note")
    assert re.search(r"DEC|INC", lines[note.line - 1])


PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 y) {maxntid}
{{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p, %r1, 128;
    @%p bra GIVE;
    setmaxnreg.inc.sync.aligned.u32 {inc};
    bra END;
GIVE:
    setmaxnreg.dec.sync.aligned.u32 24;
END:
    ret;
}}
"""


@pytest.mark.parametrize(
    ("declared", "inc", "case"),
    [
        (".maxntid 384, 1, 1 .minnctapersm 1", 240, None),
        (".maxntid 384, 1, 1 .minnctapersm 1", 248, "deadlock"),
        (".maxnreg 168", 240, None),
        (".maxnreg 160", 240, "deadlock"),
        (".maxntid 384, 1, 1", 240, "registers_ignored"),
    ],
)
def test_ptx_without_machine_code(declared: str, inc: int, case: str | None) -> None:
    found = simulate(PTX.format(maxntid=declared, inc=inc), "k", 1, 384, [np.zeros(4, np.float32)], arch=ARCH)
    told = [it.kind for it in (found.fault, *found.findings) if it is not None]
    assert told == ([] if case is None else [case])


@pytest.mark.parametrize("number", [16, 25, 264])
def test_other_numbers_are_refused_by_name(number: int) -> None:
    with pytest.raises(UnsupportedKernel, match="a multiple of 8 from 24 to 256: setmaxnreg"):
        simulate(PTX.format(maxntid=".maxnreg 168", inc=number), "k", 1, 384, [np.zeros(4, np.float32)], arch=ARCH)
