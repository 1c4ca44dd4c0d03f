"""Which machine instructions addresses depend on: what is settled under a predicate, and when it is not."""

from __future__ import annotations

from functools import partial

import pytest

from gemm_lessons.engine.compiler.sass import SassInstruction, width_of
from gemm_lessons.engine.sass.flow import Listing
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.engine.sass.planning import needs, with_conditional_writes
from gemm_lessons.engine.sass.slicing import Slicer
from gemm_lessons.engine.sass.useful_work import UsefulWork

OLD = "FFMA R20, R9, R9, R9"  # the number that lay in the address's register before

KEPT = """
ISETP.GE.AND P5, PT, R0, R1, PT
P2R R33, PR, RZ, 0x20
@!P5 IMAD.WIDE R20, R2, 0x4, R6
ISETP.GE.AND P5, PT, R3, R1, PT
{between}
ISETP.NE.AND P2, PT, R33, RZ, PT
@!P2 LDG.E R29, [R20.64]
"""
AGAIN = """
ISETP.GE.AND P5, PT, R0, R1, PT
@!P5 IMAD.WIDE R20, R2, 0x4, R6
ISETP.GE.AND P5, PT, R3, R1, PT
{between}
ISETP.GE.AND P4, PT, R0, R1, PT
@!P4 LDG.E R29, [R20.64]
"""
MEETING = """
@P1 BRA `(other)
ISETP.GE.AND P0, PT, R0, R1, PT
@!P0 IMAD.WIDE R20, R2, 0x4, R6
BRA `(both)
other: ISETP.GE.AND P0, PT, R1, R0, PT
{guard} IMAD.WIDE R20, R3, 0x4, R6
both: @!P0 LDG.E R29, [R20.64]
"""
TURNS = """
@P1 IMAD.WIDE R20, R2, 0x4, R6
{guard} IMAD.WIDE R20, R3, 0x4, R6
@P1 BRA `(other)
LDG.E R29, [R20.64]
other: @P1 LDG.E R28, [R20.64]
"""
BOTH = """
@P1 IMAD.WIDE R20, R2, 0x4, R6
{guard} IMAD.WIDE R20, R3, 0x4, R6
LDG.E R29, [R20.64]
"""
AROUND = """
ISETP.GE.AND P0, PT, R0, R1, PT
loop: @!P0 IMAD.WIDE R20, R2, 0x4, R6
{between}
@!P0 LDG.E R29, [R20.64]
ISETP.GE.AND P1, PT, R2, R1, PT
@P1 BRA `(loop)
"""


@pytest.mark.parametrize(
    ("code", "changes", "needed"),
    [
        (KEPT, {"between": "NOP"}, False),
        (KEPT, {"between": "MOV R33, R4"}, True),  # another register's zero
        (KEPT, {"between": "@P3 P2R R33, PR, RZ, 0x1"}, True),
        (KEPT, {"between": "P2R R33, PR, RZ, 0x20"}, True),  # P5 as it is now
        (KEPT, {"between": "P2R R33, PR, RZ, 0x60"}, True),  # this or another
        (AGAIN, {"between": "NOP"}, False),
        (AGAIN, {"between": "IADD3 R0, R0, 0x1, RZ"}, True),  # not the same comparison
        (AGAIN, {"between": "@P3 MOV R1, R2"}, True),
        (MEETING, {"guard": "@!P0"}, False),
        (MEETING, {"guard": "@P0"}, True),
        (TURNS, {"guard": "@!P1"}, False),
        (TURNS, {"guard": "@!P2"}, True),
        (BOTH, {"guard": "@!P1"}, False),
        (BOTH, {"guard": "@!P2"}, True),
        (BOTH, {"guard": "ISETP.GE.AND P1, PT, R0, R1, PT\n@!P1"}, True),
        (AROUND, {"between": "NOP"}, False),
        (AROUND, {"between": "ISETP.GE.AND P0, PT, R3, R1, PT"}, True),  # what the last turn decided
        (AROUND, {"between": "@P0 ISETP.GE.AND P0, PT, R3, R1, PT"}, True),
    ],
)
def test_a_number_is_needed_only_where_no_address_took_its_place(
    code: str, changes: dict[str, str], needed: bool
) -> None:
    chosen = sliced([OLD, *code.format(**changes).strip().splitlines()])
    assert (OLD in chosen) is needed
    assert any("IMAD.WIDE" in text for text in chosen)


@pytest.mark.parametrize(
    ("chooses", "needed"), [("ELECT P2, URZ, PT", False), ("ISETP.GE.AND P2, PT, R0, R1, PT", True)]
)
def test_where_one_lane_writes_for_its_warp_nobody_needs_what_was_there(chooses: str, needed: bool) -> None:
    """The mbarrier of a box is named in the second of the target's registers."""
    old = "UIADD3.X UR5, URZ, UR11, URZ, UP0, !UPT"
    code = [old, chooses, "@P2 R2UR UR5, R52", "@P2 R2UR UR4, R49", "UTMALDG.2D [UR4], [UR8]"]
    chosen = sliced(code, signals=True)
    assert (old in chosen) is needed
    assert "@P2 R2UR UR5, R52" in chosen


@pytest.mark.parametrize(("table", "needed"), [("0xa2", False), ("0xa0", True)])
def test_a_predicate_that_is_written_in_all_lanes_by_two_instructions_is_not_needed(table: str, needed: bool) -> None:
    """P3 or not P0, then P3 where P0: how ptxas gives a copy the coordinates of one lane after another."""
    old = "FSETP.GEU.AND P3, PT, R20, -126, PT"
    code = [old, f"PLOP3.LUT P3, PT, P3, P0, PT, {table}, 0x0", "@P0 R2UR P3, UR10, R0", "@P3 LDG.E R29, [R20.64]"]
    assert (old in sliced(code)) is needed


def sliced(lines: list[str], signals: bool = False) -> list[str]:
    """The lines that addresses depend on. A line may have a label in front."""
    labels, code = {}, []
    for number, line in enumerate([*lines, "EXIT"]):
        label, _, text = line.rpartition(": ")
        if label:
            labels[label] = number
        opcode = text.split()[1 if text.startswith("@") else 0]
        code.append(decode(number, SassInstruction(opcode, width_of(opcode), "", None, 16 * number, 0, text)))
    listing = with_conditional_writes(Listing(tuple(code), labels))
    code = [*listing.code]
    nothing = (0,) * len(code)
    work = UsefulWork(nothing, nothing, nothing, (False,) * len(code))
    wanted = partial(needs, frozenset(), work, signals=signals)
    return [d.text for d, there in zip(code, Slicer(listing).relevant(wanted), strict=True) if there]
