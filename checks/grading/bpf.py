"""Evaluate a seccomp filter as Linux does, on any machine: ``answer(steps, architecture, number, arguments)``."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gemm_lessons.engine.process.seccomp import ABOVE, ANY_BIT, AT_LEAST, EQUAL, LOAD, RETURN, Step

MOST_STEPS = 4096  # BPF_MAXINSNS


def answer(steps: Sequence[Step], architecture: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The value that the filter returns for a system call. Raises ``ValueError`` for a filter that Linux rejects."""
    if len(steps) > MOST_STEPS or steps[-1][0] != RETURN:
        raise ValueError("too long, or without an end")
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number & 0xFFFF_FFFF, architecture, 0, *(it & (1 << 64) - 1 for it in given))
    at = register = 0
    tests = {
        EQUAL: lambda it: register == it,
        ABOVE: lambda it: register > it,
        AT_LEAST: lambda it: register >= it,
        ANY_BIT: lambda it: register & it,
    }
    while True:
        code, if_true, if_false, operand = steps[at]
        if not (0 <= if_true < 256 and 0 <= if_false < 256):
            raise ValueError(f"step {at}: a jump of more than 255 steps")
        at += 1
        if code == RETURN:
            return operand
        if code == LOAD:
            (register,) = struct.unpack_from("<I", data, operand)
        else:
            at += if_true if tests[code](operand) else if_false
