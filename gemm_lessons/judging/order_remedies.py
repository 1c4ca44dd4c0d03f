"""Advice on order: barriers, buffers of several tiles, copies in flight, mbarriers and their phases.

Each rule returns a remedy for a finding, or None where it does not apply. ``remedies`` has their order.
"""

from __future__ import annotations

import re

from gemm_lessons.course import open_todos
from gemm_lessons.engine import Finding
from gemm_lessons.engine.compiler import Lexed, without_comments
from gemm_lessons.engine.records import AtBarrier, AtMbarrier, Hang, InFlight, MbarrierMisuse
from gemm_lessons.judging.access_remedies import ALIKE, PRODUCT, WORD
from gemm_lessons.judging.advice import advice, remedy
from gemm_lessons.judging.evidence import Evidence

ROLES = re.compile(r"\bgroup_barrier\b|\btma_store\.cuh|\bbar(?:rier)?\.sync\b")
MULTICAST = re.compile(r"\bshare_box\b|\.multicast::cluster\b")


def _conditional_barriers(source: str) -> frozenset[int]:
    """Return the lines of __syncthreads() within an ``if``."""
    lexed, lines = Lexed(source), set()
    for at, token in enumerate(lexed.code):
        if token.text != "if" or lexed.text(at + 1) != "(":
            continue
        begin, end = lexed.after(at + 1), _end(lexed, at)
        lines |= {it.line for it in lexed.code[begin:end] if it.text == "__syncthreads"}
    return frozenset(lines)


def _end(lexed: Lexed, at: int) -> int:
    """Return the last token of the ``if`` or ``for`` at ``at``."""
    end = lexed.after(at + 1)
    if lexed.text(end) == "{":
        return lexed.closing(end)
    while end < len(lexed.code) - 1 and lexed.text(end) != ";":
        end += 1
    return end


def _main_loop_ends(source: str) -> int | None:
    """Return the last line of the last loop over K."""
    lexed = Lexed(source)
    loops = (at for at, token in enumerate(lexed.code) if token.text == "for" and lexed.text(at + 1) == "(")
    over_k = (at for at in loops if any(it.text == "K" for it in lexed.code[at : lexed.after(at + 1)]))
    return max((lexed.code[_end(lexed, at)].line for at in over_k), default=None)


def exited(facts: Evidence, finding: Finding) -> bool:
    """Tell whether threads ended without a barrier because it is within an ``if``."""
    return finding.kind == "exited_before_barrier" and finding.line in _conditional_barriers(facts.source)


def passed_by(facts: Evidence, finding: Finding) -> str | None:
    """Advise on threads that skip a barrier within an ``if`` and end, as if they had returned early."""
    if not exited(facts, finding):
        return None
    return remedy("passed_by")


def in_a_branch(facts: Evidence, finding: Finding) -> str | None:
    """Advise on two barriers, one of them in a branch that some threads do not take."""
    if finding.kind != "divergent_barrier" or finding.line is None or finding.other_line in (None, finding.line):
        return None
    lines = (finding.line, finding.other_line)
    within = [line for line in lines if line in _conditional_barriers(facts.source)]
    which = f"that in line {within[0]}" if len(within) == 1 else f"that in line {lines[0]} or that in line {lines[1]}"
    return remedy("in_a_branch", which=which)


def wrong_buffer(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a race between buffers although there is a barrier for each tile."""
    if finding.kind != "race" or not finding.effects.startswith("shared") or not has_buffers(facts):
        return None
    ends = _main_loop_ends(facts.source)
    if ends is not None and max(finding.line or 0, finding.other_line or 0) > ends:
        return None  # a buffer is used for something else after the main loop
    counters, shape = facts.checked.counters, facts.counted
    if counters is None or shape is None:
        return None
    tiles = -(-shape.k // facts.lesson.tile.defines["BK"])
    barriers = counters.get("barriers")
    if barriers is None or barriers < tiles:
        return None
    if finding.effects in ALIKE:
        return remedy("two_stores")
    if "STAGES" in facts.lesson.tile.defines:
        return remedy("wrong_buffer")
    return (
        "There is a barrier for every tile, and one more would only hide it: the buffer is the wrong one. While one is "
        f"multiplied, only the other may be filled{' (1 - now)' if '1 - now' in facts.stub.text else ''}. The two swap "
        "roles after every tile, in each index that reads or writes."
    )


def wrong_stage(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a copy into the wrong stage, which no wait cures: the sums are wrong even if it arrives at once."""
    if "STAGES" not in facts.lesson.tile.defines or finding.kind != "async_in_flight":
        return None
    if finding.case not in ("waited too little", "never waited", "wrong place"):
        return None
    faulted = [it.judgement for it in facts.checked.shapes if finding.kind in {other.kind for other in it.findings}]
    if not any(judgement is not None and not judgement.passed for judgement in faulted):
        return None
    depth = facts.lesson.tile.defines["BK"]
    alone = [it.judgement for it in facts.checked.shapes if it.shape.k <= depth]
    if any(judgement is not None and not judgement.passed for judgement in alone):
        return None  # one K tile has one stage: something else is wrong
    enough = facts.lesson.tile.defines["STAGES"] - 2
    most = finding.facts.most if isinstance(finding.facts, InFlight) else None
    if finding.case == "waited too little" and (most is None or most >= enough):
        return None
    return remedy("wrong_stage")


def has_buffers(facts: Evidence) -> bool:
    """Tell whether the kernel has room for two tiles of A and of B."""
    tile, built = facts.lesson.tile.defines, facts.built
    if built is None or not {"BM", "BN", "BK"} <= tile.keys():
        return False
    return built.shared_bytes >= 2 * (tile["BM"] + tile["BN"]) * tile["BK"] * WORD


def in_flight(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a thread's own copy that has not arrived, in the terms of the kernel's copy mechanism."""
    if finding.kind != "async_in_flight":
        return None
    calls = "__pipeline_" in facts.source
    wait = "__pipeline_wait_prior(n)" if calls else "cp.async.wait_group n"
    commit = "__pipeline_commit()" if calls else "cp.async.commit_group"
    if finding.case == "never waited":
        return remedy("in_flight_wait")
    if finding.case == "no group":
        return remedy("in_flight_group", commit=commit)
    if finding.case == "waited too little":
        return remedy("in_flight_count", wait=wait)
    return None


def endless_phase(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a hang at an mbarrier, which its cause, the next open TODO or the mask of a multicast may explain."""
    waiting = finding.facts.waiting if isinstance(finding.facts, Hang) else ()
    if not any(isinstance(it, AtMbarrier) for it in waiting):
        return None
    cycle = finding.facts.cycle if isinstance(finding.facts, Hang) else ()
    met = {it.line for it in waiting if isinstance(it, AtBarrier) and it.case == "waiting here"
           and it.number == 0 and it.expected is None}  # fmt: skip
    if met and (not cycle or any(link.line in met for link in cycle)):
        return remedy("across_roles")
    cause = finding.facts.cause.case if isinstance(finding.facts, Hang) and finding.facts.cause else ""
    if cause in advice("causes"):
        return advice("causes")[cause]
    open_ = [
        f"TODO({number}) in line {line} is still open"
        for number, line in sorted(open_todos(facts.source, facts.stub).items())[:1]
    ]
    of_bytes, endless = advice("bytes"), advice("ends")
    if cause not in of_bytes:
        text = endless.get("cycle" if cycle and not cause else cause, endless[""])
        return " ".join((*(f"{todo}, and the phase may need that step." for todo in open_), text))
    lacks = cause in ("cause too few bytes", "cause no copy") and MULTICAST.search(without_comments(facts.source))
    text = remedy("left_out") if lacks else of_bytes[cause]
    return " ".join((text, *(f"{todo}." for todo in open_)))


def counted_barrier(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a hang at a barrier whose number of threads the kernel gives."""
    cause = finding.facts.cause.case if isinstance(finding.facts, Hang) and finding.facts.cause else ""
    counted = cause in ("cause never came", "cause came before", "cause barrier count")
    return remedy("of_a_count") if counted else None


def among_roles(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a missing barrier where roles have barriers of their own, or after mbarriers are made."""
    if (finding.kind, finding.case) == ("divergent_barrier", "places") and ROLES.search(without_comments(facts.source)):
        return remedy("several_places")
    if finding.kind != "race" or not finding.effects.startswith("shared") or finding.effects in ALIKE:
        return None
    if finding.array and re.search(rf"\bBarrier\s[^;()]*\b{finding.array}\s*\[", facts.source):
        return remedy("after_init")
    if not ROLES.search(without_comments(facts.source)):
        return None
    if "STAGES" in facts.lesson.tile.defines:
        return remedy("barrier_of_role")
    return None if wrong_buffer(facts, finding) else remedy("barrier_of_branches")


def other_barriers(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an arrival at an mbarrier of another array than the line names."""
    hit = finding.facts.mbarrier.array if isinstance(finding.facts, MbarrierMisuse) else ""
    if isinstance(finding.facts, Hang):
        hit = finding.facts.hit
    named = re.findall(r"\b(\w+)\s*\[", facts.quote(finding.line or 0))
    arrays = [name for name in named if re.search(rf"\bBarrier\s[^;()]*\b{name}\s*\[", facts.source)]
    if not hit or len(arrays) != 1 or arrays == [hit]:
        return None
    return remedy("other_array", named=arrays[0], hit=hit)


def refilled(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a bulk copy into a stage whose previous tile is still needed."""
    cases = ("bulk load", "ended before")
    if finding.kind != "async_in_flight" or finding.case not in cases or not finding.actors:
        return None
    return remedy("refilled") if finding.actors[-1].effect == "copy" else None


def added_to_no_sums(facts: Evidence, finding: Finding) -> str | None:
    """Advise on sums of products that start from registers without a value."""
    unset = finding.kind == "unset" and PRODUCT.search(without_comments(facts.source))
    return remedy("unset_sums") if unset else None
