"""Which basic blocks are a loop: those that lead back to themselves, in time that grows with their number."""

from __future__ import annotations

import random

from gemm_lessons.simulator.program.cfg import Block
from gemm_lessons.simulator.program.meant_to_meet import loops


def reached(blocks: list[Block], start: int) -> set[int]:
    """All blocks to which some way leads from this one."""
    found: set[int] = set()
    work = [start]
    while work:
        block = blocks[work.pop()]
        following = {*block.targets} | ({block.fallthrough} if block.fallthrough is not None else set())
        work += following - found
        found |= following
    return found


def test_loops_are_what_leads_back():
    rng = random.Random(1)
    for _ in range(300):
        size = rng.randint(1, 12)
        blocks = [
            Block(n, (), n + 1 if n + 1 < size and rng.random() < 0.8 else None, tuple(rng.choices(range(size), k=k)))
            for n in range(size)
            for k in [rng.choice([0, 0, 1, 2])]
        ]
        ways = [reached(blocks, n) for n in range(size)]
        expected = {frozenset(m for m in ways[n] if n in ways[m]) for n in range(size) if n in ways[n]}
        found = loops(blocks)
        assert {frozenset(block.number for block in loop) for loop in found} == expected
        assert [loop[0].number for loop in found] == sorted(loop[0].number for loop in found)


def test_a_long_program_is_no_trouble():
    size = 50_000
    blocks = [Block(n, (), n + 1, ()) for n in range(size)] + [Block(size, (), None, (0,))]
    assert [len(loop) for loop in loops(blocks)] == [size + 1]
