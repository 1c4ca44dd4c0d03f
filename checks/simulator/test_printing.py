"""Device printf: C's formats, the order of blocks and threads, and the limit of the text."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from gemm_lessons.engine.compiler.source import without_printf
from gemm_lessons.engine.machine.printing import MAX_KEPT_CALLS, formatted

TOGETHER = True

STRINGS = {64: "text"}


def said(text: str, kinds: str = "", *values: object) -> str:
    return formatted(text, struct.pack(f"@{kinds}", *values), lambda address: STRINGS[address])


# What C prints, with the arguments as a struct.
@pytest.mark.parametrize(
    ("text", "kinds", "values", "expected"),
    [
        ("%d %i|%5d|%-5d|%05d|%+d", "iiiiii", (7, -7, 7, 7, 7, 7), "7 -7|    7|7    |00007|+7"),
        ("%u %o %x %X %#x %#o", "6i", (-1, 8, 255, 255, 255, 8), "4294967295 10 ff FF 0xff 010"),
        ("%ld %lld %lu", "qqq", (1 << 40, -1, -1), f"{1 << 40} -1 {(1 << 64) - 1}"),
        ("%hd %hu %hhd", "iii", (65537, -1, 257), "1 65535 1"),
        ("%f %.2f %8.3f", "3d", (1.5, 1.5, 1.5), "1.500000 1.50    1.500"),
        ("%e %g %G", "3d", (1.5, 1e-7, 1e20), "1.500000e+00 1e-07 1E+20"),
        ("%f %g", "dd", (float("nan"), float("-inf")), "nan -inf"),
        ("%a %A", "dd", (1.5, 0.1), "0x1.8p+0 0X1.999999999999AP-4"),
        ("%c%c %s|%8s|%.2s", "iiqqq", (72, 105, 64, 64, 64), "Hi text|    text|te"),
        ("%d %f %d", "idi", (1, 2.0, 3), "1 2.000000 3"),
        ("%*d|%.*f|%-*d|", "iiidii", (4, 7, 1, 2.25, 3, 5), "   7|2.2|5  |"),
        ("%p %s", "qq", (255, 0), "0xff (null)"),
        ("100%% %d", "i", (1,), "100% 1"),
        ("%y %d", "i", (1,), "%y 1"),
        ("%d %d", "i", (1,), "1 0"),
        ("nothing", "", (), "nothing"),
    ],
)  # fmt: skip
def test_formats(text: str, kinds: str, values: tuple[object, ...], expected: str) -> None:
    assert said(text, kinds, *values) == expected


PRINT = 'extern "C" __global__ void k(int *o) { if (threadIdx.x % 16 == 3) { HERE } o[threadIdx.x] = 3; }'


def test_lines_come_by_block_and_thread(run):
    body = 'printf("%d", blockIdx.x); printf(".%d %s %.1f\\n", threadIdx.x, "x", threadIdx.x / 2.0f);'
    for limit in (None, 1):  # blocks in lockstep, and one after the other
        out = np.zeros(32, np.int32)
        launched = run(PRINT.replace("HERE", body), 2, 32, [out], block_limit=limit)
        assert launched.printed.text == "0.3 x 1.5\n0.19 x 9.5\n1.3 x 1.5\n1.19 x 9.5\n"
        assert (launched.printed.shown, launched.printed.calls) == (8, 8)
        assert "printf" not in {finding.kind for finding in launched.findings}
        assert (out == 3).all()


def test_only_the_first_calls_are_kept(run):
    body = 'for (int i = 0; i < 900; i++) printf("%d %d\\n", threadIdx.x, i);'
    launched = run(PRINT.replace("HERE", body), 40, 64, [np.zeros(64, np.int32)])
    lines = launched.printed.text.splitlines()
    assert lines == [f"3 {i}" for i in range(MAX_KEPT_CALLS)]
    assert (launched.printed.shown, launched.printed.calls) == (MAX_KEPT_CALLS, 40 * 4 * 900)


def test_what_was_printed_before_a_fault_is_there(run):
    source = 'extern "C" __global__ void k(int *o) { printf("before\\n"); o[1 << 20] = 1; }'
    assert run(source, 1, 1, [np.zeros(1, np.int32)], fault="out_of_bounds").printed.text == "before\n"


def test_a_kernel_that_prints_nothing_has_printed_nothing(run):
    assert run(PRINT.replace("HERE", ""), 1, 32, [np.zeros(32, np.int32)]).printed is None


def test_the_source_without_printf() -> None:
    assert without_printf("a = 1;") == "a = 1;"
    quiet = without_printf('std::printf("%d",\n  1); ::printf (x); fprintf(y); my_printf(z);')
    assert quiet.count("gemm_lessons_prints_nothing") == 2
    assert "fprintf(y); my_printf(z)" in quiet
    assert quiet.count("\n") == 1


@pytest.mark.parametrize(
    ("call", "returned"),
    [
        ('printf("none\\n")', 0),
        ('printf("%d of %d%%\\n", t, 3)', 2),
        ('printf("%*d\\n", 5, t)', 2),
        ('printf(t % 2 ? "%d\\n" : "%d %f\\n", t, 1.0)', None),
        ("printf(nullptr)", -1),
    ],
)
def test_it_returns_the_number_of_its_arguments(run, call, returned):
    """As CUDA's does, not the number of characters. Nothing is unset then."""
    out = np.full(32, 7, np.int32)
    source = 'extern "C" __global__ void k(int *o, int n) { int t = threadIdx.x; if (t < n) o[t] = CALL; }'
    launched = run(source.replace("CALL", call), 1, 32, [out, 20])
    t = np.arange(32)
    assert out.tolist() == np.where(t < 20, 2 - t % 2 if returned is None else returned, 7).tolist()
    assert not [finding for finding in launched.findings if finding.kind == "unset"]
