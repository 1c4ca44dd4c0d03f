"""Advice on accesses: threads that own the wrong elements, memory without a value, indices out of bounds.

Each rule returns a remedy for a finding, or None where it does not apply. ``remedies`` has their order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemm_lessons.engine import Finding
from gemm_lessons.engine.records import Coordinates, PastAll, PastEnd, Stopped
from gemm_lessons.gemm import Shape
from gemm_lessons.judging.advice import advice, remedy
from gemm_lessons.judging.evidence import Evidence
from gemm_lessons.judging.verdict import Faulted, WrongAnswer

WORD = 4  # bytes of a number in the lessons whose arrays are inspected
# A thread's own array, as the debug build names it.
OWN_ARRAYS = tuple(("out_of_array", case) for case in ("own", "own end", "one of several"))
# Effects of two writes. If both are in one line, its index is the same in several threads.
ALIKE = ("shared store store", "shared copy copy")
PRODUCT = re.compile(r"\bwgmma")


def _shown(place: Coordinates) -> str:
    """Return a thread or block as findings name it."""
    return str(place) if len(place) > 1 else "".join(map(str, place))


def wrong_lane(facts: Evidence) -> str | None:
    """Advise on a lane index that is the thread's index in the block."""
    found = re.search(r"\b(\w*lane\w*)\s*=\s*threadIdx\.x\s*;", facts.source)
    if found is None or "WM" not in facts.lesson.tile.defines or facts.checked.right:
        return None
    return remedy("wrong_lane", found=found)


def lane(facts: Evidence, finding: Finding) -> str | None:
    """Advise on the same index, whatever it has led to."""
    return wrong_lane(facts)


def one_owner(facts: Evidence, finding: Finding) -> str | None:
    """Advise on threads that store to the same element in one line, which a barrier cannot fix."""
    if finding.kind == "uninitialised":
        alike = (it for it in facts.checked.findings if it.kind == "race" and it.array == finding.array)
        finding = next((it for it in alike if it.effects in ALIKE), finding)
    if finding.effects not in ALIKE or finding.line is None or finding.line != finding.other_line:
        return None
    what = "its index lacks a term that tells them apart, or exceeds one of the array's declared sizes"
    if finding.effects == "shared copy copy":
        what += ", or maps two elements to one place, as a swizzle must not"
    one, other = (_shown(actor.thread) for actor in finding.actors)
    return remedy("one_owner", finding=finding, one=one, other=other, what=what)


def of_each_thread(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an array that each thread has for itself, and that the block was perhaps to share."""
    if (finding.kind, finding.case) != ("uninitialised", "local"):
        return None
    return remedy("of_each_thread")


def in_a_fragment(facts: Evidence, finding: Finding) -> str | None:
    """Advise on the memory that a fragment is loaded from: a wrong address or row distance, or an incomplete copy."""
    line = facts.quote(finding.line) if finding.line else ""
    if finding.kind == "unset" and "mma_sync" in line:
        return remedy("in_a_fragment")
    if finding.kind not in ("uninitialised", "out_of_array") or "load_matrix_sync" not in line:
        return None
    address = (
        "does the address name the row first, then the column, and is the last argument, ldm, the distance from one "
        f"row of {finding.array or 'the tile'} to the next, padding and all?"
    )
    if finding.kind == "out_of_array":
        return address[0].upper() + address[1:]
    return f"Does the copy fill every element, and is there a __syncthreads() after it? If so: {address}"


def scratch(facts: Evidence, finding: Finding) -> str | None:
    """Advise on memory that one launch fills and another reads: neither C nor a matrix with partial tiles."""
    layout = facts.lesson.data.by_name.get(name := finding.array)
    if layout is None or layout.role != "scratch":
        return None
    if (finding.kind, finding.effects) == ("race", "global store store"):
        return remedy("scratch_race", name=name)
    if finding.kind == "out_of_bounds":
        return remedy("scratch_bounds", name=name)
    return None


def trapped(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a kernel that stops itself without a reason."""
    if (finding.kind, finding.case, finding.facts) != ("trap", "stop", Stopped()):
        return None
    return remedy("trapped")


def added_to_nothing(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a read of C before anything was stored in it."""
    answer = facts.lesson.data.answer.name
    if finding.kind != "uninitialised" or finding.array != answer:
        return None
    if "atomic" in facts.quote(finding.line or 0):
        return remedy("added_to_nothing_atomic", answer=answer)
    if facts.lesson.data.answer.role == "inout":
        return remedy("added_to_nothing_beta", answer=answer)
    return remedy("added_to_nothing_sum", answer=answer)


def not_filled_up(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a guarded copy that stores nothing out of bounds: only shapes with partial tiles are wrong."""
    tile = facts.lesson.tile.defines
    sizes = tuple(tile.get(name, 1) for name in ("BM", "BN", "BK"))
    if finding.kind != "uninitialised" or sizes[2] == 1 or not facts.checked.shapes:
        return None
    whole = {it.shape: _is_whole(it.shape, sizes) for it in facts.checked.shapes}
    right = [whole[it.shape] for it in facts.checked.shapes if it.kind == "passed" and not it.findings]
    wrong = [whole[it.shape] for it in facts.checked.shapes if it.kind != "passed" or it.findings]
    if not any(right) or any(wrong) or not wrong:
        return None
    return remedy("not_filled_up")


def _is_whole(shape: Shape, sizes: Sequence[int]) -> bool:
    return not (shape.m % sizes[0] or shape.n % sizes[1] or shape.k % sizes[2])


def blocks_part(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an index of the matrix in an array of the block: in the first block both are equal."""
    name, block = finding.array, finding.actors[0].block if finding.actors else ()
    if not _too_large(finding) or (finding.kind, finding.case) in OWN_ARRAYS or not name:
        return None
    if name in facts.lesson.data.by_name or not any(block):
        return None
    return (
        f"{name} belongs to one block: does its index contain the block's part, which is not 0 in block "
        f"{_shown(block)}? row and col are indices into the matrix, thread_row and thread_col into the tile."
    )


def _too_large(finding: Finding) -> bool:
    """Tell whether an index runs past the end of its array or matrix."""
    return finding.kind in ("out_of_bounds", "out_of_array") and finding.place is not None and finding.place.byte >= 0


def order_of_indices(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an index k of the tile in the place of the other one: As[k][row] of As[BM][BK]."""
    name = finding.array
    declared = re.search(rf"__shared__[^;]*\b{name}\s*\[([^\]]+)\]\s*\[([^\]]+)\]\s*;", facts.source) if name else None
    used = re.search(rf"\b{name}\[([^\]]+)\]\[([^\]]+)\]", facts.quote(finding.line or 0)) if name else None
    if finding.kind not in ("out_of_array", "out_of_bounds", "uninitialised") or not declared or not used:
        return None
    depth = ["BK" in size for size in declared.groups()]
    of_k = [bool(re.search(r"\bk\b", index)) for index in used.groups()]
    if depth.count(True) != 1 or of_k.count(True) != 1 or depth == of_k:
        return None
    other = "the column" if "BN" in declared[1 + depth[0]] else "the row"
    first, last = ("k", other) if depth[0] else (other, "k")
    sizes = "".join(f"[{size}]" for size in declared.groups())
    return f"{name}{sizes} has {first} first, then {last}. Here the two indices have changed places."


def descriptor(facts: Evidence, finding: Finding) -> str | None:
    """Advise on products that read bytes that no copy has written: the descriptor names other bytes than the copy."""
    if finding.kind not in ("uninitialised", "out_of_bounds") or not finding.line:
        return None
    if not PRODUCT.search(facts.quote(finding.line)):
        return None
    if finding.kind == "out_of_bounds":
        return remedy("beyond_shared_memory")
    return advice("cases")["descriptor empty"]


def into_the_next(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an index past the end of its array that hits another one."""
    hit = finding.facts.hit if isinstance(finding.facts, PastEnd) else None
    if finding.kind != "out_of_array" or (finding.kind, finding.case) in OWN_ARRAYS or not finding.actors:
        return None
    if hit is None or not hit.array or not finding.array:
        return None
    does = "reads" if finding.actors[0].effect == "load" else "writes"
    return remedy("into_the_next", does=does, finding=finding, hit=hit)


def where_the_tile_starts(facts: Evidence, finding: Finding) -> str | None:
    """Advise on k0, which counts along K, in an index of the tile: As[row][k0 + k], but not As[k0 / BK]."""
    several = finding.facts.candidates if isinstance(finding.facts, PastAll) else ()
    name = finding.array or "".join(several[-1:])
    if not _too_large(finding) or not name or name in facts.lesson.data.by_name:
        return None
    if not re.search(rf"\b{name}(\[[^]]*\])?\[([^]]*\+ *)?k0( *\+[^]]*)?\]", facts.quote(finding.line or 0)):
        return None
    return remedy("where_the_tile_starts", name=name)


def outside(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an access out of bounds that a guard would not fix."""
    if finding.kind != "out_of_bounds":
        return None
    pattern = facts.checked.verdict.judgement.pattern if isinstance(facts.checked.verdict, WrongAnswer) else None
    if pattern is not None and pattern.name.endswith("_swapped"):
        return "The exchanged row and column cause this: a guard would only hide it."
    if pattern is not None and pattern.name.endswith("_stride"):
        return "The wrong row length causes this: a guard would only hide it."
    if pattern is not None and pattern.name.endswith("_guard"):
        return "The guard is there, but compares with the wrong size: row with M, column with N, k with K."
    if pattern is not None and pattern.name == "partly_written" and "size" in pattern.facts:
        return "Does each guard compare a row with M, a column with N, and k with K?"
    if pattern is not None and pattern.name == "wrong_bound":
        return remedy("outside_loop")
    if finding.place is not None and finding.place.byte < 0:
        return remedy("outside_below")
    if finding.array and finding.array not in facts.lesson.data.by_name:
        return _shared_index(facts, finding)
    if not facts.lesson.data.multiplies:
        return _without_element(facts, finding)
    promised = facts.lesson.shapes.multiple_of
    for size, promise in zip(("BM", "BN", "BK"), (promised.m, promised.n, promised.k), strict=True):
        tile = facts.lesson.tile.defines.get(size, 1)
        if promise > 1 and promise % tile:
            return remedy("outside_promise", promise=promise, size=size, tile=tile)
    if finding.actors and finding.array in ("A", "B") and (beyond := _beyond_k(facts, finding)):
        return beyond
    if min(promised.m, promised.n, promised.k) > 1:
        if finding.array not in ("", "A", "B", "C") and "STAGES" in facts.lesson.tile.defines:
            return remedy("outside_later_tile")
        return "Every tile is whole in this lesson, so no guard is missing: the index itself is too large."
    if facts.quote(finding.line or 0) in {line.strip() for line in facts.stub.text.splitlines()} - {""}:
        return remedy("outside_of_stub")
    return None


def between_accesses(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a wide access of the stub that starts at an index of the learner's."""
    wide = finding.actors[0].width // WORD if finding.actors else 0
    given = {line.strip() for line in facts.stub.text.splitlines()} - {""}
    if finding.kind != "misaligned" or wide < 2 or facts.quote(finding.line or 0) not in given:
        return None
    text = remedy("between_accesses", wide=wide)
    if any(re.search(r"\bmin *\(", line) for line in facts.source.splitlines() if line.strip() not in given):
        text += f" A min that clamps the index must stop {wide} before the end, not 1."
    return text


def _without_element(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an access of a kernel without products: its launch has more threads than the array has elements."""
    verdict, layout = facts.checked.verdict, facts.lesson.data.by_name[finding.array] if finding.array else None
    shape = verdict.shape if isinstance(verdict, Faulted) else facts.checked.shape_of(finding)
    if shape is None or layout is None or len(facts.lesson.launches) > 1:
        return None
    grid = facts.lesson.at(shape).grids(shape)[0]
    there = facts.lesson.data.lay_out(shape.names, gap=0)[finding.array]
    threads, elements = grid.blocks * grid.threads, there.batch * there.rows * there.cols
    if threads <= elements:
        return remedy("without_element_index", elements=elements, finding=finding, threads=threads)
    return remedy("without_element_guard", elements=elements, finding=finding, threads=threads)


def _shared_index(facts: Evidence, finding: Finding) -> str:
    name = finding.array
    declared = re.search(rf"__shared__[^;]*\b{name}((?:\s*\[[^\]]+\])+)", facts.source)
    sizes = re.findall(r"\[([^\]]+)\]", declared[1]) if declared else []
    whole = f"{name}{''.join(f'[{size}]' for size in sizes)} is the block's own, so no guard is missing"
    if "BK" in sizes and any(actor.effect == "store" for actor in finding.actors) and len(sizes) > 1:
        return remedy("shared_index_k", whole=whole)
    if "BK" in sizes:
        return remedy("shared_index_other", whole=whole)
    return f"{name} belongs to the block: check each index against its dimensions, and their order."


def _beyond_k(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an index of A or B past the end, at a shape of whole tiles, where no row and no column is partial."""
    if twice := re.search(r"\b(\w+_tile)\([^;]*\b(block_row|block_col|k0)\b", facts.quote(finding.line or 0)):
        return remedy("beyond_k_view", twice=twice)
    verdict, tile = facts.checked.verdict, facts.lesson.tile.defines
    sizes = tuple(tile.get(name, 1) for name in ("BM", "BN", "BK"))
    if not isinstance(verdict, Faulted) or not _is_whole(verdict.shape, sizes):
        return None
    loop = "k0" if sizes[2] > 1 else "k"
    if "STAGES" in tile:
        return remedy("beyond_k_ahead", verdict=verdict)
    bound = f"{loop} < K"
    if re.search(rf"\b{loop} \+= 2 \* BK\b", facts.source):
        bound += f", and {loop} + BK < K for the second tile of an iteration"
    return remedy("beyond_k_loop", bound=bound, loop=loop, verdict=verdict)
