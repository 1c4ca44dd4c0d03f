"""The loop that a kernel is in when its instructions are used up, and what is known of its condition."""

import numpy as np
import pytest

TOGETHER = True
HEAD = """extern "C" __global__ void k(int *o, int n)
{
"""  # so that a body begins in line 3
SAME, NO_EXIT, IN_A_LOOP = (
    "compares the same values in each iteration",
    "once entered, the loop around",
    ", in the loop ",
)
LOOPS = {
    "a counter that is set": ("for (int i = 0; i < n; i = 4)\n  o[i] = i;", NO_EXIT, "line 3"),
    "an outer counter that is set": (
        "for (int i = 0; i < n; i = o[30]) {\n  for (int j = 0; j < n; j++)\n    atomicAdd(o + j, 1);\n}",
        SAME,
        "line 3",
    ),
    "what is in memory": ("while (o[threadIdx.x] != 7)\n  o[threadIdx.x] = 0;", NO_EXIT, "line 3"),
    "no counter": ("for (int i = 0; i < n; )\n  o[i] += 1;", NO_EXIT, "line"),
    "no condition": ("for (;;)\n  atomicAdd(o, 1);", NO_EXIT, "line"),
    "a condition that changes": ("unsigned x = 1;\nwhile (x != 6)\n  o[0] = x = x * 5 + 4;", IN_A_LOOP, "line 4"),
    "a long loop": ("for (int i = 0; i < 100000; i++)\n  atomicXor(o, i);", IN_A_LOOP, "line 3"),
    "a long loop around a short one": (
        "for (int i = 0; i < 100000; i++)\n  for (int j = 0; j < n; j++)\n    atomicXor(o + j, i);",
        IN_A_LOOP,
        "line 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "said", "place"), LOOPS.values(), ids=LOOPS)
def test_the_loop_is_named(run, body, said, place):
    launched = run(HEAD + body + "\n}\n", 1, 32, [np.zeros(32, np.int32), np.int32(12)], fault="timeout", budget=40_000)
    assert said in launched.fault.message
    assert place in launched.fault.message
    assert [it for it in (SAME, NO_EXIT, IN_A_LOOP) if it in launched.fault.message] == [said]


def test_a_loop_with_several_ways_out_is_not_judged_by_one_of_them(run):
    body = (
        "volatile int *p = o;\nfor (;;) {\n  if (p[0] == 9) break;\n  if (p[1] == 9) return;\n"
        "  if (p[2] == 9) break;\n  p[5] = p[5] + 1;\n}\np[3] = 1;"
    )
    launched = run(HEAD + body + "\n}\n", 1, 32, [np.zeros(32, np.int32), np.int32(12)], fault="timeout", budget=40_000)
    assert "in the loop around lines 5 to 8" in launched.fault.message
