"""Advice on findings: one remedy for each cause, and none for findings that follow from another cause.

A finding says what happened and where. Its remedy depends on other facts: a race in one line is not a missing barrier
but an index that lacks a term; an access past K needs another loop bound, not a guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gemm_lessons.engine import Finding
from gemm_lessons.engine.compiler import without_comments
from gemm_lessons.engine.records import PastEnd
from gemm_lessons.judging import access_remedies as access
from gemm_lessons.judging import order_remedies as order
from gemm_lessons.judging.access_remedies import ALIKE, OWN_ARRAYS, PRODUCT
from gemm_lessons.judging.advice import advice, remedy
from gemm_lessons.judging.evidence import Checked, Evidence
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.strides import wrong_stride, wrong_view
from gemm_lessons.judging.verdict import Faulted, WrongAnswer

LOOP_HEADER = re.compile(r"\bfor\s*\([^;]*;[^;]*;")
CAUSES = frozenset({"exited_before_barrier", "out_of_array", "unset"})  # warnings that cause others
# Findings that follow from a cause and need no advice of their own.
FOLLOWS: Mapping[str, frozenset[str]] = {
    "uninitialised": frozenset({"exited_before_barrier", "out_of_array"}),
    "exited_before_barrier": frozenset({"divergent_barrier"}),
}
# Findings about what a product reads outside of its tile, by a wrong descriptor.
MISREAD = ("async_in_flight", "uninitialised", "out_of_bounds")
# Findings whose sentence recommends a barrier or a wait, and the same sentences without it.
WITHOUT_ADVICE: Mapping[tuple[str, str], str] = {
    ("race", "shared order"): "shared place",
    ("race", "shared next round"): "shared place",
    ("async_in_flight", "waited too little"): "wrong place",
    ("async_in_flight", "never waited"): "wrong place",
}


def remedies(facts: Evidence) -> Iterator[tuple[float, str]]:
    """Yield rank and text of a remedy for each kind of finding, at the first place it was found."""
    for wrong, rule in ((wrong_stride, "stride"), (wrong_view, "view")):
        if (it := wrong(facts)) is not None:
            yield 2, f"line {it.line}: wrong row distance. [{facts.quote(it.line)}] {remedy(rule, it=it)}"
            return
    said = set()
    findings = [it for it in facts.checked.findings if it.severity != "note" and it.kind in advice("kinds")]
    shown = _on_screen(facts)
    findings.sort(key=lambda it: it != shown)  # the screen shows this one beside the first remedy
    if alone := _only_cause(facts, findings):
        findings = [alone]
    causes = {finding.kind for finding in findings if finding.kind in CAUSES or finding.kind == "divergent_barrier"}
    for finding in findings:
        follows = finding.severity == "warning" and not causes.isdisjoint(FOLLOWS.get(finding.kind, ()))
        if finding.kind in said or (finding is not alone and (follows or _follows(facts, finding))):
            continue
        said.add(finding.kind)
        where = f"line {finding.line}: " if finding.line else ""
        quote = f" [{facts.quote(finding.line)}]" if finding.line and facts.quote(finding.line) else ""
        special = next((found for rule in RULES if (found := rule(facts, finding))), None)
        cases, known = advice("cases"), (f"{finding.kind} {it}" for it in (finding.effects, finding.case))
        special = special or next((cases[it] for it in known if it in cases), None)
        text = special or advice("kinds")[finding.kind]
        rank = 2 if finding.severity == "error" else 4 if finding.kind in CAUSES else 5
        yield rank, f"{where}{finding.kind.replace('_', ' ')}.{quote} {text}"


def _on_screen(facts: Evidence) -> Finding | None:
    """Return the finding that the screen shows."""
    verdict = facts.checked.verdict
    return verdict.finding if isinstance(verdict, Faulted) else None


def _follows(facts: Evidence, finding: Finding) -> bool:
    """Tell whether another finding is the cause of this one and has its own advice."""
    for other in facts.checked.findings:
        if other is finding or other.severity == "note":
            continue
        if (other.kind, other.case) in OWN_ARRAYS and finding.line == other.line and finding.kind != other.kind:
            return True
        stored_alike = other.kind == "race" and other.effects in ALIKE and other.line == other.other_line
        if finding.kind == "uninitialised" and stored_alike and finding.array == other.array:
            return True
        skipped = other.kind == "divergent_barrier" or order.exited(facts, other)
        if finding.kind == "race" and finding.effects.startswith("shared") and skipped:
            return True  # the barrier is there, but some threads pass it by
        if other.kind == "descriptor" and finding.kind in MISREAD:
            return True  # what the product reads instead
        if other.kind == "warp_mask" and finding.kind in ("divergent_warp", "async_proxy"):
            return True  # the instruction that only a part of the warp executes
        if _ran_over(other, finding):
            return True
        no_owner = other.kind == "race" and other.effects == "global store store" and other.line == other.other_line
        if finding.kind == "out_of_bounds" and no_owner and finding.line == other.line:
            return True  # the index that names other threads' elements is also out of bounds
        if finding.effects == "shared load copy" and other.case == "never waited":
            return True  # a copy overwrites what is being read
    return False


def _ran_over(cause: Finding, finding: Finding) -> bool:
    """Tell whether one access of a race should have been an access to the preceding array."""
    hit = cause.facts.hit if isinstance(cause.facts, PastEnd) else None
    ran_over = hit is not None and hit.array == finding.array != ""
    return finding.kind == "race" and ran_over and cause.line in (finding.line, finding.other_line)


def _only_cause(facts: Evidence, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding to advise on where all of them have one known cause."""
    if access.wrong_lane(facts) is not None:
        return next((it for it in findings if it.severity == "error"), findings[0] if findings else None)
    copied_alike = (it for it in findings if it.effects == "shared copy copy" and it.line == it.other_line)
    wrong_place = (it for rule in (order.wrong_stage, order.wrong_buffer) for it in findings if rule(facts, it))
    shown = _on_screen(facts)
    early = shown is not None and shown.kind == "async_in_flight"
    unwritten = (it for it in findings if it.kind == "uninitialised" and not early and access.descriptor(facts, it))
    misread = any(it.kind == "descriptor" for it in findings)
    return next(copied_alike, None) or next(wrong_place, None) or (None if misread else next(unwritten, None))


def restated(facts: Evidence) -> Checked:
    """Return the results with sentences that agree with the remedies: no finding recommends a barrier or wait that its
    remedy calls useless, and the sentence on NaN names only memory that may be the source."""
    checked = facts.checked
    stride = wrong_stride(facts)

    def told(finding: Finding) -> Finding:
        if order.exited(facts, finding):
            return replace(finding, case="in an if")
        case = WITHOUT_ADVICE.get((finding.kind, finding.case))
        ran_over = any(_ran_over(other, finding) for other in checked.findings)
        useless = (
            ran_over
            or stride
            or any(rule(facts, finding) for rule in (access.one_owner, order.wrong_stage, order.wrong_buffer))
        )
        if case is None or not useless:
            return finding
        return replace(finding, case=case, also=())  # "the same barrier is missing" is advice, too

    verdict = checked.verdict
    if isinstance(verdict, Faulted):
        verdict = replace(verdict, finding=told(verdict.finding))
    elif isinstance(verdict, WrongAnswer) and verdict.judgement.pattern is not None:
        pattern = _better_told(facts, verdict.judgement.pattern)
        verdict = replace(verdict, judgement=replace(verdict.judgement, pattern=pattern))
    return replace(checked, verdict=verdict, findings=tuple(map(told, checked.findings)))


def _better_told(facts: Evidence, pattern: Pattern) -> Pattern:
    """Return a pattern with a sentence that fits the other facts about the kernel, or unchanged."""
    if pattern.name not in RESTATED:
        return pattern
    case_of, section = RESTATED[pattern.name]
    case = case_of(facts, pattern)
    return pattern if case is None else replace(pattern, sentence=advice(section)[case])


def _unset_memory(facts: Evidence, _: Pattern) -> str | None:
    """Return which memory remains as the source of NaN, where the simulator saw all memory set that it watches."""
    checked = facts.checked
    if checked.counters is None or {it.kind for it in checked.findings} & {"uninitialised", "unset"}:
        return None
    judged = (it.judgement.pattern for it in checked.shapes if it.judgement is not None)
    of_nan = [it.facts for it in judged if it is not None and it.name == "nan"]
    scratch = all(facts["scratch"] for facts in of_nan)
    gaps = all(facts["gaps"] for facts in of_nan)
    return "both" if scratch and gaps else "scratch" if scratch else "gaps" if gaps else ""


def _unguarded(needs: re.Pattern[str]) -> Callable[[Evidence, Pattern], str | None]:
    """Return a function that gives the case of a pattern: "size" or "" for a kernel that compares nothing with the size
    and whose source matches ``needs``, a word of the other mistake; else None."""

    def case_of(facts: Evidence, pattern: Pattern) -> str | None:
        sizes = str(pattern.facts.get("size", "[MN]"))
        source = without_comments(facts.source)
        guarded = re.search(rf"[<>]=?\s*{sizes}\b|\b{sizes}\s*[<>]", LOOP_HEADER.sub("", source))
        return None if guarded or not needs.search(source) else "size" if "size" in pattern.facts else ""

    return case_of


def _unowned(facts: Evidence, pattern: Pattern) -> str | None:
    """Return the case of unwritten elements: as ``_unguarded``, or "shared" where several threads wrote others."""
    case = _unguarded(re.compile(r"\bgridDim\b|\bfor\s*\([^;]*=\s*blockIdx\.x\s*;"))(facts, pattern)
    if case is not None or "where" not in pattern.facts:
        return case
    answer = facts.lesson.data.answer.name
    stored = any((it.effects, it.array) == ("global store store", answer) for it in facts.checked.findings)
    return "shared" if stored else None


def _of_descriptors(facts: Evidence, _: Pattern) -> str | None:
    return "" if PRODUCT.search(without_comments(facts.source)) else None


def _zeros_outside(facts: Evidence, _: Pattern) -> str | None:
    return "" if re.search(r"\w_box\b|\btex1Dfetch\b", without_comments(facts.source)) else None


# A pattern of a wrong answer -> which case of it a kernel is, and the section of ``advice.toml`` with its sentences.
# Only a block with a loop over tiles has several, and only boxes are requested.
RESTATED: Mapping[str, tuple[Callable[[Evidence, Pattern], str | None], str]] = {
    "nan": (_unset_memory, "nan"),
    "partly_written": (_unowned, "partly_written"),
    "rows_guard": (_unguarded(re.compile(r"_box\b")), "rows_guard"),
    "columns_guard": (_unguarded(re.compile(r"_box\b")), "rows_guard"),
    "first_k_tile": (_zeros_outside, "first_k_tile"),
    "wrong_bound": (_zeros_outside, "wrong_bound"),
    "same_part": (_of_descriptors, "same_part"),
}
RULES: Sequence[Callable[[Evidence, Finding], str | None]] = (
    access.lane,
    access.of_each_thread,
    access.in_a_fragment,
    access.scratch,
    access.trapped,
    access.added_to_nothing,
    access.one_owner,
    access.not_filled_up,
    access.descriptor,
    order.other_barriers,
    order.endless_phase,
    order.counted_barrier,
    order.among_roles,
    order.refilled,
    order.added_to_no_sums,
    order.passed_by,
    order.in_a_branch,
    order.wrong_stage,
    order.wrong_buffer,
    order.in_flight,
    access.order_of_indices,
    access.where_the_tile_starts,
    access.blocks_part,
    access.into_the_next,
    access.between_accesses,
    access.outside,
)
