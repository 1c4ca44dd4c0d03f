"""Advice on findings: one remedy for each cause, and none for findings that follow from another cause.

A finding says what happened and where. Its remedy depends on other facts: a race in one line is not a missing barrier
but an index that lacks a term; an access past K needs another loop bound, not a guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gemm_lessons.course.todos import open_todos
from gemm_lessons.engine import Finding
from gemm_lessons.engine.compiler.tokens import Lexed, without_comments
from gemm_lessons.engine.records.facts import (
    AtBarrier,
    AtMbarrier,
    Coordinates,
    Hang,
    InFlight,
    MbarrierMisuse,
    PastAll,
    PastEnd,
    Stopped,
)
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Checked, Evidence
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.strides import wrong_stride, wrong_view
from gemm_lessons.judging.verdict import Faulted, WrongAnswer

WORD = 4  # bytes of a number in the lessons whose arrays are inspected
DESCRIPTOR = (
    "compare the descriptor with the tensor map. The address in shared memory and both distances are divided by 16, "
    "and the swizzle is that of the box."
)
# Advice by the kind of finding; the finding itself says what happened and where.
REMEDIES: Mapping[str, str] = {
    "out_of_bounds": "Guard the access: a thread whose row, column or k is outside the matrix must not touch it. An "
    "existing guard must test the row, column and k of this access, with <, not <=.",
    "misaligned": "A wide access must start at a multiple of its size (two halves: 4 bytes; float2: 8; float4, "
    "double2, int4: 16): check the index, and the line that computes it.",
    "descriptor": f"{DESCRIPTOR[0].upper()}{DESCRIPTOR[1:]}",
    "race": "A __syncthreads() is missing between the write and the other thread's access.",
    "uninitialised": "This element was never written. Does the copy fill every element of the array (all iterations; "
    "every number of a float4 or double2)? Is there a __syncthreads() between copy and read?",
    "unset": "Give the variable a value where it is declared, such as float acc = 0.0f, and = {} for an array.",
    "divergent_barrier": "Every thread of the block must reach the same __syncthreads(): move it out of the if.",
    "block_order": "Blocks run in any order and at the same time: what one writes, another may read in a later launch.",
    "async_in_flight": "Wait for the copy's group, then __syncthreads(), then read.",
    "async_unfinished": "The kernel never waits for this copy: its source and destination must exist until it "
    "completes.",
    "async_proxy": "A bulk copy sees a thread's stores and mbarrier.init only after that thread's fence.proxy.async "
    "and a barrier.",
    "mbarrier": "Initialise an mbarrier once (mbarrier.init, then a barrier for all threads). Each of its phases needs "
    "exactly the arrivals given to mbarrier.init.",
    "out_of_array": "An index runs past the end of its array, into the next one: check the loop's bound and the order "
    "of the indices.",
    "exited_before_barrier": "Threads that have returned copy nothing for the others and do not wait: no return "
    "before a __syncthreads(); guard the loads and stores instead.",
    "shuffle_source": "Every lane that another lane reads from must execute the shuffle too, and be in its mask.",
    "divergent_warp": "The mask of a warp instruction must name exactly the threads that execute it together.",
    "barrier_count": "A named barrier needs one thread count, a multiple of 32, for all threads that meet there.",
    "deadlock": "Some threads wait at a barrier that others never reach: no return and no if around __syncthreads().",
    "cluster_memory": "A barrier of the cluster is missing, for all threads of all its blocks: __syncthreads() waits "
    "only for those of one block.",
    "illegal_access": "The instruction may not access this address: check the pointer, the coordinates, or the rank "
    "of the block, from the thread that the message names.",
    "warp_mask": "Every thread of the warp must execute this instruction together, for wgmma all four warps of the "
    "warpgroup: take it out of the if.",
    "trap": "The kernel stops itself because one of its own checks fails: find out which one, and why.",
    "timeout": "Which loop never ends? Look at how its counter changes and at its condition.",
    "memory": "Every thread has its own copy of a local array: does it need to be so large?",
    "launch_failed": "The lesson sets threads, blocks and dynamic shared memory: make the kernel fit with fewer "
    "registers, smaller shared arrays, or a __launch_bounds__ that allows its threads.",
    "input_overwritten": "Declare A and B as const float *: then the compiler finds the store.",
}
READ_EARLY = (
    "A thread that reads or refills the tile must first see its mbarrier's phase end (mbarrier.try_wait), or "
    "synchronise with a thread that has."
)
ENDLESS_PHASE = (
    "A phase never ends. Do all threads counted in mbarrier.init arrive? Does expect_tx equal the bytes of the copies? "
    "Does the parity that you wait for change each time the mbarrier is used again?"
)
# For patterns that suspect a guard: other sentences for kernels without a guard; "size": where a size is known.
UNOWNED = (
    "those that were are right. No block computes them: which tiles does a block take, and how far is its next one?"
)
# Of NaN, where the simulator has seen no read of memory or of a variable that was not set.
ALL_SET = "{count:elements are} NaN, but no thread read C, shared memory or a variable before it was set."
NAN_OF: Mapping[str, str] = {
    "scratch": f"{ALL_SET} So the sum read{{scratch:scratch}} in an earlier launch. Do both launches agree which "
    "pieces exist, at which k each starts and ends, and where in {scratch:and} it is?",
    "gaps": f"{ALL_SET} So the sum read{{gaps:gaps}} where no number is: is a row, a column or k too "
    "large, or does the index lack a stride?",
    "": f"{ALL_SET} So an operation made it: inf - inf, 0 / 0, or bits of two numbers taken for one, such as a half of "
    "bytes from two halves.",
    "both": f"{ALL_SET} So the sum read{{scratch:scratch}} or{{gaps:gaps}} where no number is. Do both "
    "launches agree which pieces exist, at which k each starts and ends, and where in {scratch:and} it is?",
}
NOT_READ = {
    "size": "{axis}s from {size} = {length} on are 0, as if {factor} had only {length} {axis}s. Are row and column "
    "exchanged where its box is requested? copy_box takes the column first.",
}
PART_OF_TILE = {
    "": "the same part of every block tile is wrong ({where:part}), so blockIdx and k0 are not to blame. Suspect what "
    "depends on the place in the tile: the boxes, a distance in a descriptor, the swizzle, or an index in the store.",
}
UNWRITTEN_PART = {
    "": f"{{count}} of {{total}} elements of C were never written ({{where:part}}); {UNOWNED}",
    "size": f"{{count}} of {{total}} elements of C were never written ({{axis}}s {{length}} to {{last}}); {UNOWNED}",
}
LOOP_HEADER = re.compile(r"\bfor\s*\([^;]*;[^;]*;")
PRODUCT = re.compile(r"\bwgmma")
STEP_OF_K = (
    "A step of k moves both descriptors by the same k: 32 bytes where the k of a row are side by side, the rows of "
    "this step where the tile is transposed. If every step is right, are both tiles of the same stage and the same k0?"
)
BARRIER_OF_ROLE = (
    "A barrier is missing between the write and the other thread's access. __syncthreads() would wait for the other "
    "roles, too: let the threads of this role meet at a numbered barrier (bar.sync number, threads)."
)
OTHER_ARRAY = (
    "This line names {named}, but its index is outside of that array, so {hit} gets the arrival. C's remainder of a "
    "negative number is negative: (-1) % 4 is -1."
)
REFILLED = (
    "A stage may be refilled when its previous tile has arrived and every consumer has read it, in all blocks that the "
    "copy goes to. Does mbarrier.init count all of their arrivals at the empty barrier, and does the producer wait?"
)
UNSET_SUMS = (
    "Products that add need sums with a value: give them 0 where they are declared (= {}), or let the first product "
    "replace them, without adding."
)
ROLES = re.compile(r"\bgroup_barrier\b|\btma_store\.cuh|\bbar(?:rier)?\.sync\b")
ACROSS_ROLES = (
    "__syncthreads() waits for all threads of the block, also for those of other roles, which do not reach it. Let the "
    "threads of one role meet at a numbered barrier: bar.sync number, threads."
)
MULTICAST = re.compile(r"\bshare_box\b|\.multicast::cluster\b")
LEFT_OUT = (
    "A phase never ends because bytes are missing. Does the mask of each multicast name every block that waits for "
    "its bytes? Do the blocks of the cluster together request the whole tile? Does expect_tx equal the bytes of all "
    "copies to this block?"
)
PHASE_OF_STEP = (
    "A phase has the parity of its number: if a stage is step % STAGES, its phase is step / STAGES, and the parity "
    "step / STAGES % 2. Does each role count every step once?"
)
ALL_BYTES = (
    "A phase ends when as many bytes have arrived as expect_tx announces: those of all copies that report to this "
    "mbarrier, in bytes, not in elements."
)
ANNOUNCED = f"{ALL_BYTES} Is each of these copies requested?"
UNANNOUNCED = f"{ALL_BYTES} Does it announce each of these copies, as often as it is requested?"
# Advice by a hang's cause, for causes that no missing step can have.
OF_A_CAUSE: Mapping[str, str] = {
    "cause parity": PHASE_OF_STEP,
    "cause skipped": PHASE_OF_STEP,
    "cause several phases": "As many threads arrive as mbarrier.init counts: one of each warp or role that uses the "
    "stage, in each block. Put the arrival into an if, such as if (thread == 0).",
}
# Advice by a hang's cause, or for its cycle, where a missing step may be the reason.
ENDLESS_OF: Mapping[str, str] = {
    "cause count": "Each thread that executes the line of an arrival makes one arrival. Let mbarrier.init count "
    "exactly those of one phase, or let as many threads arrive as it counts.",
    "cause first wait": "A stage is empty before its first use, so the first wait for it must not block. No phase "
    "has ended yet, and a wait for parity 1 returns at once. From then on, use t of a stage waits for phase t - "
    "1.",
    "cause remote": "A block whose copies go to other blocks may refill a stage only when all of them have read "
    "it. So a thread that releases a stage arrives at the mbarrier of each block that copies to it, its own and "
    "the others'.",
    "cause unawaited": "Some threads let others start by arriving there, but these start without waiting. Which role "
    "must not begin its step before the arrival?",
    "cycle": "Threads of each of these lines wait for an arrival of the others. Start at the phase that misses "
    "all of its arrivals: which line should have made them, before its threads began to wait? Does each use of a "
    "stage end with an arrival, also the last one?",
}
OF_BYTES: Mapping[str, str] = {
    "cause too few bytes": ANNOUNCED,
    "cause no copy": ANNOUNCED,
    "cause too many bytes": UNANNOUNCED,
    "cause no expect_tx": UNANNOUNCED,
}
UNCHANGED = (
    "The loop never ends. What should change from one iteration to the next? If it is a counter, look at what is added "
    "to it: i += step, not i = step."
)
OF_A_COUNT = (
    "A numbered barrier (bar.sync number, threads) waits until that many threads have arrived. Count the threads of "
    "the roles that meet there, and no others, and let each of them arrive equally often."
)
# For a thread's own array, as the debug build names it.
OWN_ARRAYS = tuple(("out_of_array", case) for case in ("own", "own end", "one of several"))
# Advice by (kind, case) or (kind, effects of the accesses), where the kind alone does not decide.
SPECIAL_REMEDIES: Mapping[tuple[str, str], str] = {
    **dict.fromkeys((("descriptor", case) for case in ("apart", "apart later", "again")), STEP_OF_K),
    ("timeout", "in a loop"): "Does this loop end? Look at how its counter changes and at its condition.",
    **dict.fromkeys((("timeout", case) for case in ("same values", "no exit")), UNCHANGED),
    (
        "timeout",
        "starved",
    ): "This says nothing about your kernel. Other programs kept the processor busy: run again when they have ended.",
    ("race", "global store store"): "Two threads write the same element of C. Every element needs one owner: check row "
    "and col, their order, the block's part of them, and the guard of the store.",
    (
        "race",
        "shared store store",
    ): "Two threads write the same element of a shared array. Each element of a tile "
    "needs one owner: check every index of both writes. Only if one write is to replace the other, put a "
    "__syncthreads() between them.",
    ("illegal_access", "copy size"): "A copy reads from 0 to all bytes of its piece, and writes zeros for the rest. It "
    "reads 0 where the whole piece is outside of the matrix: use max and min.",
    ("misaligned", "box"): "A box begins at a multiple of 16 bytes of a row; anywhere else it is an illegal "
    "instruction. Coordinates count elements, the column first: a tile's column is its number times its width.",
    (
        "race",
        "mbarriers",
    ): "One thread initialises an mbarrier: if (threadIdx.x == 0), or the lane that elect.sync picks in one warp.",
    ("async_in_flight", "bulk load"): READ_EARLY,
    ("async_in_flight", "ended before"): "Phase n of an mbarrier has parity n % 2, and each use of a stage is one "
    "phase of it. If the wait names the right phase, the stage was refilled before this thread had read it.",
    ("async_in_flight", "ended without"): "Announce the bytes, not the elements, of all copies that report to this "
    "phase: mbarrier.expect_tx with its last arrival, or before it.",
    ("async_in_flight", "left running"): "A stage may be released, or refilled, only when the group that reads it "
    "is complete. The n newest groups still run after wgmma.wait_group n: with n = 1, release the previous tile's "
    "stage.",
    ("async_in_flight", "not filled"): "Phase n of an mbarrier has parity n % 2. A wait for parity 1 does not wait "
    "while phase 0 runs: only the wait for an empty stage may start with it.",
    ("async_in_flight", "product"): "A tile may be refilled after the products that read it: wgmma.wait_group, then a "
    "barrier or an arrival at the mbarrier of an empty stage. If the products need this very copy, they started too "
    "early: wait for its mbarrier first.",
    ("mbarrier", "arrived"): "More threads arrive than mbarrier.init counts, or one arrives again before the phase has "
    "ended. Only one thread announces a tile, and only after its stage has been released.",
    ("mbarrier", "parity"): "Pass the parity of a phase, not its number: phase n has parity n % 2. C's remainder of a "
    "negative number is negative: (-1) % 2 is -1.",
    ("barrier_count", "roles"): "Give each role a barrier number of its own, 1 to 15.",
    ("async_in_flight", "accumulator"): "Sums of wgmma are complete after wgmma.commit_group and wgmma.wait_group 0.",
    ("async_in_flight", "operand"): "Load the next fragment of A into other registers, or wait for the products first.",
    ("async_proxy", "registers"): "A wgmma.fence orders registers that threads have written before the first wgmma.",
    **dict.fromkeys(
        (("async_proxy", "map release"), ("async_proxy", "map acquire")),
        "The TMA sees a tensor map that the kernel writes only after a release by the block that writes and an acquire "
        "by the block that copies (fence.proxy.tensormap::generic).",
    ),
    ("async_unfinished", "load"): "The block ends without waiting for this copy. Request only tiles that exist, and "
    "wait for each one: shared memory must not be reused before it has arrived.",
    ("async_proxy", "product"): "A wgmma sees a thread's stores only after that thread's fence.proxy.async and a "
    "barrier.",
    ("async_in_flight", "reported load"): READ_EARLY,
    ("async_in_flight", "bulk store"): "The thread that copies must wait for its group (cp.async.bulk.wait_group.read) "
    "before any thread stores there again.",
    ("async_in_flight", "no bulk group"): "The thread that copies must commit its copies to a group "
    "(cp.async.bulk.commit_group), and wait for that before any thread stores there again.",
    ("uninitialised", "own"): "Every element that a product uses must be read from the tile first. Does the loop reach "
    "them all, and does each access read as many as its step (float4_at: four)?",
    **dict.fromkeys(
        OWN_ARRAYS,
        "A thread's own array is too short for this index, or for the four numbers that a float4 reads from there: "
        "check the loop's bound and step.",
    ),
}
# Effects of two writes. If both are in one line, its index is the same in several threads.
ALIKE = ("shared store store", "shared copy copy")
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
    if (stride := wrong_stride(facts)) is not None:
        advice = (
            f"ldm is {stride.passed}, but the rows of {stride.array} are {stride.apart} elements apart. ldm is the "
            f"distance from one row to the next, padding and all: pass {stride.apart}."
        )
        yield 2, f"line {stride.line}: wrong row distance. [{facts.quote(stride.line)}] {advice}"
        return
    if (view := wrong_view(facts)) is not None:
        advice = (
            f"View {view.view} has rows {view.rows} and columns {view.cols} apart. {view.matrix} is row-major with "
            f"{view.apart} elements in a row: its rows are {view.apart} apart and its columns 1."
        )
        yield 2, f"line {view.line}: wrong row distance. [{facts.quote(view.line)}] {advice}"
        return
    said = set()
    findings = [it for it in facts.checked.findings if it.severity != "note" and it.kind in REMEDIES]
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
        special = next((text for rule in RULES if (text := rule(facts, finding))), None)
        known = ((finding.kind, finding.effects), (finding.kind, finding.case))
        special = special or next((SPECIAL_REMEDIES[it] for it in known if it in SPECIAL_REMEDIES), None)
        remedy = special or REMEDIES[finding.kind]
        rank = 2 if finding.severity == "error" else 4 if finding.kind in CAUSES else 5
        yield rank, f"{where}{finding.kind.replace('_', ' ')}.{quote} {remedy}"


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
        skipped = other.kind == "divergent_barrier" or _exited(facts, other)
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
    if _wrong_lane(facts) is not None:
        return next((it for it in findings if it.severity == "error"), findings[0] if findings else None)
    copied_alike = (it for it in findings if it.effects == "shared copy copy" and it.line == it.other_line)
    wrong_place = (it for rule in (_wrong_stage, _wrong_buffer) for it in findings if rule(facts, it))
    shown = _on_screen(facts)
    early = shown is not None and shown.kind == "async_in_flight"
    unwritten = (it for it in findings if it.kind == "uninitialised" and not early and _descriptor(facts, it))
    misread = any(it.kind == "descriptor" for it in findings)
    return next(copied_alike, None) or next(wrong_place, None) or (None if misread else next(unwritten, None))


def restated(facts: Evidence) -> Checked:
    """Return the results with sentences that agree with the remedies: no finding recommends a barrier or wait that its
    remedy calls useless, and the sentence on NaN names only memory that may be the source."""
    checked = facts.checked
    stride = wrong_stride(facts)

    def told(finding: Finding) -> Finding:
        if _exited(facts, finding):
            return replace(finding, case="in an if")
        case = WITHOUT_ADVICE.get((finding.kind, finding.case))
        ran_over = any(_ran_over(other, finding) for other in checked.findings)
        useless = ran_over or stride or any(rule(facts, finding) for rule in (_one_owner, _wrong_stage, _wrong_buffer))
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
    case_of, sentences = RESTATED[pattern.name]
    case = case_of(facts, pattern)
    return pattern if case is None else replace(pattern, sentence=sentences[case])


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


def _of_descriptors(facts: Evidence, _: Pattern) -> str | None:
    return "" if PRODUCT.search(without_comments(facts.source)) else None


# Only a block with a loop over tiles has several, and only boxes are requested.
RESTATED: Mapping[str, tuple[Callable[[Evidence, Pattern], str | None], Mapping[str, str]]] = {
    "nan": (_unset_memory, NAN_OF),
    "partly_written": (_unguarded(re.compile(r"\bgridDim\b|\bfor\s*\([^;]*=\s*blockIdx\.x\s*;")), UNWRITTEN_PART),
    "rows_guard": (_unguarded(re.compile(r"_box\b")), NOT_READ),
    "columns_guard": (_unguarded(re.compile(r"_box\b")), NOT_READ),
    "same_part": (_of_descriptors, PART_OF_TILE),
}


def _shown(place: Coordinates) -> str:
    """Return a thread or block as findings name it."""
    return str(place) if len(place) > 1 else "".join(map(str, place))


# -- threads and their elements -------------------------------------------------------------------------------------


def _wrong_lane(facts: Evidence) -> str | None:
    """Advise on a lane index that is the thread's index in the block."""
    found = re.search(r"\b(\w*lane\w*)\s*=\s*threadIdx\.x\s*;", facts.source)
    if found is None or "WM" not in facts.lesson.tile.defines or facts.checked.right:
        return None
    return f"{found[1]} is threadIdx.x, which keeps counting in the next warp: a lane is 0 to 31, threadIdx.x % 32."


def _lane(facts: Evidence, finding: Finding) -> str | None:
    return _wrong_lane(facts)


def _one_owner(facts: Evidence, finding: Finding) -> str | None:
    """Advise on threads that store to the same element in one line, which a barrier cannot fix."""
    if finding.kind == "uninitialised":
        alike = (it for it in facts.checked.findings if it.kind == "race" and it.array == finding.array)
        finding = next((it for it in alike if it.effects in ALIKE), finding)
    if finding.effects not in ALIKE or finding.line is None or finding.line != finding.other_line:
        return None
    what = "its index lacks a term that tells them apart"
    if finding.effects == "shared copy copy":
        what += ", or maps two elements to one place, as a swizzle must not"
    one, other = (_shown(actor.thread) for actor in finding.actors)
    return (
        f"Several threads, such as {other} and {one}, store to the same element of {finding.array} in line "
        f"{finding.line}: {what}. A barrier does not fix that."
    )


# -- uninitialised memory ---------------------------------------------------------------------------------------------


def _of_each_thread(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an array that each thread has for itself, and that the block was perhaps to share."""
    if (finding.kind, finding.case) != ("uninitialised", "local"):
        return None
    return (
        "Without __shared__, every thread has its own array, which no other thread fills. If the block shares it, "
        "declare it __shared__. Otherwise set each element before you read it."
    )


def _in_a_fragment(facts: Evidence, finding: Finding) -> str | None:
    """Advise on the memory that a fragment is loaded from: a wrong address or row distance, or an incomplete copy."""
    line = facts.quote(finding.line) if finding.line else ""
    if finding.kind == "unset" and "mma_sync" in line:
        return "Registers hold old values: clear the accumulator fragment with fill_fragment before the loop."
    if finding.kind not in ("uninitialised", "out_of_array") or "load_matrix_sync" not in line:
        return None
    return (
        f"Is the last argument, ldm, the distance from one row of {finding.array or 'the tile'} to the next, padding "
        "and all? Does the address name the row first, then the column? If so: does the copy fill every element, and "
        "is there a __syncthreads() after it?"
    )


def _scratch(facts: Evidence, finding: Finding) -> str | None:
    """Advise on memory that one launch fills and another reads: neither C nor a matrix with partial tiles."""
    layout = facts.lesson.data.by_name.get(name := finding.array)
    if layout is None or layout.role != "scratch":
        return None
    if (finding.kind, finding.effects) == ("race", "global store store"):
        return f"Two threads write the same element of {name}: which term of its index should tell the two apart?"
    if finding.kind == "out_of_bounds":
        return f"{name} has no partial tiles: its index is too large. Look at each term, and at what it counts."
    return None


def _trapped(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a kernel that stops itself without a reason."""
    if (finding.kind, finding.case, finding.facts) != ("trap", "stop", Stopped()):
        return None
    return (
        "The compiler emits a trap where it sees a null pointer: can the pointer in this line be null? Test it before "
        "you read it."
    )


def _added_to_nothing(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a read of C before anything was stored in it."""
    answer = facts.lesson.data.answer.name
    if finding.kind != "uninitialised" or finding.array != answer:
        return None
    if "atomic" in facts.quote(finding.line or 0):
        return f"An atomic adds to what {answer} holds, which is uninitialised: set it to 0 in an earlier launch."
    if facts.lesson.data.answer.role == "inout":
        return f"beta is 0 there, and {answer} is uninitialised: read it only if beta is not 0, because 0 * NaN is NaN."
    return f"{answer} is uninitialised before the kernel: store the sum (=) instead of adding to it (+=)."


def _not_filled_up(facts: Evidence, finding: Finding) -> str | None:
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
    return (
        "Only shapes with partial tiles are wrong: there the copy leaves elements of the tile unchanged. Store 0 for "
        "elements outside the matrix: they add nothing to the sum."
    )


def _is_whole(shape: Shape, sizes: Sequence[int]) -> bool:
    return not (shape.m % sizes[0] or shape.n % sizes[1] or shape.k % sizes[2])


# -- barriers and buffers -------------------------------------------------------------------------------------------


def _conditional_barriers(source: str) -> frozenset[int]:
    """Return the lines of __syncthreads() within an ``if``."""
    lexed, lines = Lexed(source), set()
    for at, token in enumerate(lexed.code):
        if token.text != "if" or lexed.text(at + 1) != "(":
            continue
        begin = end = lexed.after(at + 1)
        if lexed.text(begin) == "{":
            end = lexed.closing(begin)
        else:
            while end < len(lexed.code) and lexed.text(end) != ";":
                end += 1
        lines |= {it.line for it in lexed.code[begin:end] if it.text == "__syncthreads"}
    return frozenset(lines)


def _exited(facts: Evidence, finding: Finding) -> bool:
    """Tell whether threads ended without a barrier because it is within an ``if``."""
    return finding.kind == "exited_before_barrier" and finding.line in _conditional_barriers(facts.source)


def _passed_by(facts: Evidence, finding: Finding) -> str | None:
    """Advise on threads that skip a barrier within an ``if`` and end, as if they had returned early."""
    if not _exited(facts, finding):
        return None
    return (
        "This __syncthreads() is inside an if that some threads skip. Every thread of the block must reach it: move it "
        "out of the if."
    )


def _in_a_branch(facts: Evidence, finding: Finding) -> str | None:
    """Advise on two barriers, one of them in a branch that some threads do not take."""
    if finding.kind != "divergent_barrier" or finding.line is None or finding.other_line in (None, finding.line):
        return None
    lines = (finding.line, finding.other_line)
    within = [line for line in lines if line in _conditional_barriers(facts.source)]
    which = f"that in line {within[0]}" if len(within) == 1 else f"that in line {lines[0]} or that in line {lines[1]}"
    return (
        f"Every thread of the block must reach the same __syncthreads(): {which} is inside an if that some threads "
        "skip. Move it out of the if."
    )


def _wrong_buffer(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a race between buffers although there is a barrier for each tile."""
    if finding.kind != "race" or not finding.effects.startswith("shared") or not has_buffers(facts):
        return None
    counters, shape = facts.checked.counters, facts.counted
    if counters is None or shape is None:
        return None
    tiles = -(-shape.k // facts.lesson.tile.defines["BK"])
    barriers = counters.get("barriers")
    if barriers is None or barriers < tiles:
        return None
    if "STAGES" in facts.lesson.tile.defines:
        return (
            "There is a barrier for every tile, and one more would only hide it: the stage is the wrong one. Read the "
            "tile that was waited for last, and none after the last of K; copy to the stage of the previous tile, "
            "which no thread reads any more."
        )
    return (
        "There is a barrier for every tile, and one more would only hide it: the buffer is the wrong one. While one is "
        f"multiplied, only the other may be filled{' (1 - now)' if '1 - now' in facts.stub.text else ''}. The two swap "
        "roles after every tile, in each index that reads or writes."
    )


def _wrong_stage(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a copy in flight into the wrong stage, which no wait cures: the sums are wrong even if it arrives at
    once."""
    if "STAGES" not in facts.lesson.tile.defines or finding.kind != "async_in_flight":
        return None
    if finding.case not in ("waited too little", "never waited", "wrong place"):
        return None
    faulted = [it.judgement for it in facts.checked.shapes if finding.kind in {other.kind for other in it.findings}]
    if not any(judgement is not None and not judgement.passed for judgement in faulted):
        return None
    enough = facts.lesson.tile.defines["STAGES"] - 2
    most = finding.facts.most if isinstance(finding.facts, InFlight) else None
    if finding.case == "waited too little" and (most is None or most >= enough):
        return None
    return (
        "C is wrong even if all copies arrive at once, so no wait cures this: the stage is the wrong one. An iteration "
        "reads stage now, which advances by 1, and copies to the stage of the previous tile, "
        "(now + STAGES - 1) % STAGES, which is free."
    )


def has_buffers(facts: Evidence) -> bool:
    """Tell whether the kernel has room for two tiles of A and of B."""
    tile, built = facts.lesson.tile.defines, facts.built
    if built is None or not {"BM", "BN", "BK"} <= tile.keys():
        return False
    return built.shared_bytes >= 2 * (tile["BM"] + tile["BN"]) * tile["BK"] * WORD


def _in_flight(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a thread's own copy that has not arrived, in the terms of the kernel's copy mechanism."""
    if finding.kind != "async_in_flight":
        return None
    calls = "__pipeline_" in facts.source
    wait = "__pipeline_wait_prior(n)" if calls else "cp.async.wait_group n"
    commit = "__pipeline_commit()" if calls else "cp.async.commit_group"
    if finding.case == "never waited":
        return (
            "The thread has not waited since it issued this copy. Is the wait missing, or does the copy go to a "
            "place that is still being read: the wrong stage?"
        )
    if finding.case == "no group":
        return (
            f"The copy is in no group, so no wait counts it: end a group ({commit}) after the copies of each tile, in "
            "every iteration."
        )
    if finding.case == "waited too little":
        return (
            f"No wait has covered it: {wait} leaves the n newest groups in flight. Does every iteration wait, is n "
            "small enough, and does every iteration end a group, an empty one where nothing is left to copy?"
        )
    return None


# -- out of bounds --------------------------------------------------------------------------------------------------


def _blocks_part(facts: Evidence, finding: Finding) -> str | None:
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


def _order_of_indices(facts: Evidence, finding: Finding) -> str | None:
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
    first, last = ("k", "then the column") if depth[0] else ("the row", "then k")
    sizes = "".join(f"[{size}]" for size in declared.groups())
    return f"{name}{sizes} has {first} first, {last}. Here the two indices have changed places."


def _descriptor(facts: Evidence, finding: Finding) -> str | None:
    """Advise on products that read bytes that no copy has written: the descriptor names other bytes than the copy."""
    if finding.kind not in ("uninitialised", "out_of_bounds") or not finding.line:
        return None
    if not PRODUCT.search(facts.quote(finding.line)):
        return None
    if finding.kind == "out_of_bounds":
        return f"The descriptor names bytes beyond shared memory: {DESCRIPTOR}"
    return f"The products read bytes that no copy has written. Do the copies fill the whole tile? If so, {DESCRIPTOR}"


def _endless_phase(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a hang at an mbarrier, which its cause, the next open TODO or the mask of a multicast may explain."""
    waiting = finding.facts.waiting if isinstance(finding.facts, Hang) else ()
    if not any(isinstance(it, AtMbarrier) for it in waiting):
        return None
    if any(
        isinstance(it, AtBarrier) and it.case == "waiting here" and it.number == 0 and it.expected is None
        for it in waiting
    ):
        return ACROSS_ROLES
    cause = finding.facts.cause.case if isinstance(finding.facts, Hang) and finding.facts.cause else ""
    if cause in OF_A_CAUSE:
        return OF_A_CAUSE[cause]
    open_ = [
        f"TODO({number}) in line {line} is still open"
        for number, line in sorted(open_todos(facts.source, facts.stub).items())[:1]
    ]
    if cause not in OF_BYTES:
        cycle = not cause and isinstance(finding.facts, Hang) and finding.facts.cycle
        advice = ENDLESS_OF.get("cycle" if cycle else cause, ENDLESS_PHASE)
        return " ".join((*(f"{todo}, and the phase may need that step." for todo in open_), advice))
    lacks = OF_BYTES[cause] == ANNOUNCED and MULTICAST.search(without_comments(facts.source))
    return " ".join((LEFT_OUT if lacks else OF_BYTES[cause], *(f"{todo}." for todo in open_)))


def _counted_barrier(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a hang at a barrier whose number of threads the kernel gives."""
    cause = finding.facts.cause.case if isinstance(finding.facts, Hang) and finding.facts.cause else ""
    return OF_A_COUNT if cause in ("cause never came", "cause came before", "cause barrier count") else None


def _among_roles(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a missing barrier where roles have barriers of their own, and tiles are in stages."""
    if finding.kind != "race" or not finding.effects.startswith("shared") or finding.effects in ALIKE:
        return None
    if "STAGES" not in facts.lesson.tile.defines:
        return None
    return BARRIER_OF_ROLE if ROLES.search(without_comments(facts.source)) else None


def _other_barriers(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an arrival at an mbarrier of another array than the line names."""
    hit = finding.facts.mbarrier.array if isinstance(finding.facts, MbarrierMisuse) else ""
    named = re.findall(r"\b(\w+)\s*\[", facts.quote(finding.line or 0))
    arrays = [name for name in named if re.search(rf"\bBarrier\s[^;()]*\b{name}\s*\[", facts.source)]
    if not hit or len(arrays) != 1 or arrays == [hit]:
        return None
    return OTHER_ARRAY.format(named=arrays[0], hit=hit)


def _refilled(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a bulk copy into a stage whose previous tile is still needed."""
    cases = ("bulk load", "ended before")
    if finding.kind != "async_in_flight" or finding.case not in cases or not finding.actors:
        return None
    return REFILLED if finding.actors[-1].effect == "copy" else None


def _added_to_no_sums(facts: Evidence, finding: Finding) -> str | None:
    """Advise on sums of products that start from registers without a value."""
    unset = finding.kind == "unset" and PRODUCT.search(without_comments(facts.source))
    return UNSET_SUMS if unset else None


def _into_the_next(facts: Evidence, finding: Finding) -> str | None:
    """Advise on an index past the end of its array that hits another one."""
    hit = finding.facts.hit if isinstance(finding.facts, PastEnd) else None
    if finding.kind != "out_of_array" or (finding.kind, finding.case) in OWN_ARRAYS or not finding.actors:
        return None
    if hit is None or not hit.array or not finding.array:
        return None
    does = "reads" if finding.actors[0].effect == "load" else "writes"
    return (
        f"Line {finding.line} {does} past the end of {finding.array}, into {hit.array}: check the loop's bound and "
        "step, and the order of the indices."
    )


def _where_the_tile_starts(facts: Evidence, finding: Finding) -> str | None:
    """Advise on k0, which counts along K, in an index of the tile: As[row][k0 + k], but not As[k0 / BK]."""
    several = finding.facts.candidates if isinstance(finding.facts, PastAll) else ()
    name = finding.array or "".join(several[-1:])
    if not _too_large(finding) or not name or name in facts.lesson.data.by_name:
        return None
    if not re.search(rf"\b{name}(\[[^]]*\])?\[([^]]*\+ *)?k0( *\+[^]]*)?\]", facts.quote(finding.line or 0)):
        return None
    return (
        f"{name} holds one tile at a time: k0 counts along the matrix, k inside the tile. Leave k0 out of this index."
    )


def _outside(facts: Evidence, finding: Finding) -> str | None:
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
        return "The bound of the loop over k causes this, on shapes where it exceeds K: a guard would only hide it."
    if finding.place is not None and finding.place.byte < 0:
        return (
            "The index is below 0 there, so no guard at the far edge helps: look at what is subtracted, and from what."
        )
    if finding.array and finding.array not in facts.lesson.data.by_name:
        return _shared_index(facts, finding)
    if not facts.lesson.data.multiplies:
        return _without_element(facts, finding)
    promised = facts.lesson.shapes.multiple_of
    for size, promise in zip(("BM", "BN", "BK"), (promised.m, promised.n, promised.k), strict=True):
        tile = facts.lesson.tile.defines.get(size, 1)
        if promise > 1 and promise % tile:
            return (
                f"Tiles of {size} = {tile} do not fit a promise of {size[1]} = {promise} (multiple_of in lesson.toml): "
                "the last tile is partial. Change both together."
            )
    if finding.actors and finding.array in ("A", "B") and (beyond := _beyond_k(facts)):
        return beyond
    if min(promised.m, promised.n, promised.k) > 1:
        if finding.array not in ("", "A", "B", "C") and "STAGES" in facts.lesson.tile.defines:
            return (
                "Every tile is whole in this lesson, so no row and no column needs a guard. If this line loads for a "
                "later tile, test that there is one, below K. Otherwise the index itself is too large."
            )
        return "Every tile is whole in this lesson, so no guard is missing: the index itself is too large."
    if facts.quote(finding.line or 0) in {line.strip() for line in facts.stub.text.splitlines()} - {""}:
        return (
            "This line is as the stub has it, so its values are wrong: follow its row, its column and its k back to "
            "your lines. Which of them can lie outside the matrix?"
        )
    return None


def _between_accesses(facts: Evidence, finding: Finding) -> str | None:
    """Advise on a wide access of the stub that starts at an index of the learner's."""
    wide = finding.actors[0].width // WORD if finding.actors else 0
    given = {line.strip() for line in facts.stub.text.splitlines()} - {""}
    if finding.kind != "misaligned" or wide < 2 or facts.quote(finding.line or 0) not in given:
        return None
    advice = (
        f"This line is as the stub has it, so its index is wrong: an access of {wide} elements starts at a multiple of "
        f"{wide}. Do your lines count in steps of {wide}?"
    )
    if any(re.search(r"\bmin *\(", line) for line in facts.source.splitlines() if line.strip() not in given):
        advice += f" A min that clamps the index must stop {wide} before the end, not 1."
    return advice


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
        return f"The launch has {threads:,} threads and {finding.array} {elements:,} elements: the index is too large."
    return (
        f"The launch has {threads:,} threads, {finding.array} {elements:,} elements, numbered from 0. A thread whose "
        "element does not exist must neither read nor write: guard the access, with < and the number of elements."
    )


def _shared_index(facts: Evidence, finding: Finding) -> str:
    name = finding.array
    declared = re.search(rf"__shared__[^;]*\b{name}((?:\s*\[[^\]]+\])+)", facts.source)
    sizes = re.findall(r"\[([^\]]+)\]", declared[1]) if declared else []
    whole = f"{name}{''.join(f'[{size}]' for size in sizes)} is the block's own, so no guard is missing"
    if "BK" in sizes and any(actor.effect == "store" for actor in finding.actors) and len(sizes) > 1:
        return (
            f"{whole}: the index of size BK counts k inside the tile. Does each index of this write count what its "
            "size says, and do the loop's bound and step fit?"
        )
    if "BK" in sizes:
        return f"{whole}: does the loop over k end below BK? Then check the other index against its dimension."
    return f"{name} belongs to the block: check each index against its dimensions, and their order."


def _beyond_k(facts: Evidence) -> str | None:
    """Advise on an index of A or B past the end, at a shape of whole tiles, where no row and no column is partial."""
    verdict, tile = facts.checked.verdict, facts.lesson.tile.defines
    sizes = tuple(tile.get(name, 1) for name in ("BM", "BN", "BK"))
    if not isinstance(verdict, Faulted) or not _is_whole(verdict.shape, sizes):
        return None
    loop = "k0" if sizes[2] > 1 else "k"
    if "STAGES" in tile:
        return (
            f"At {verdict.shape} every tile is whole, so no row and no column is to blame. A copy is issued several "
            "tiles ahead: is there a tile that far ahead, below K? Test this before each copy; then check which rows "
            "a thread copies."
        )
    bound = f"{loop} < K"
    if re.search(rf"\b{loop} \+= 2 \* BK\b", facts.source):
        bound += f", and {loop} + BK < K for the second tile of an iteration"
    return (
        f"At {verdict.shape} every tile is whole, so no guard is missing. Does k stay below K = {verdict.shape.k}? "
        f"Check the bound of the loop over {loop} first ({bound}), then row and column, and the factor of the row: "
        "a row of A has K elements, a row of B has N."
    )


RULES: Sequence[Callable[[Evidence, Finding], str | None]] = (
    _lane,
    _of_each_thread,
    _in_a_fragment,
    _scratch,
    _trapped,
    _added_to_nothing,
    _one_owner,
    _not_filled_up,
    _descriptor,
    _endless_phase,
    _counted_barrier,
    _among_roles,
    _other_barriers,
    _refilled,
    _added_to_no_sums,
    _passed_by,
    _in_a_branch,
    _wrong_stage,
    _wrong_buffer,
    _in_flight,
    _order_of_indices,
    _where_the_tile_starts,
    _blocks_part,
    _into_the_next,
    _between_accesses,
    _outside,
)
