"""Turn verdict and counters into hints: a table of rules. Each rule reads the facts of a run and gives at most one
hint.

A hint names the line, the number and where to read more. Hints are ranked by urgency: a fault, an open TODO, a missed
gate, then lost time. An open TODO precedes a missing barrier of a cluster. Only the best ``SHOWN`` are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from gemm_lessons.course import open_todos, skipped_todos
from gemm_lessons.engine import Conflict
from gemm_lessons.engine.compiler import Lexed, included_names, kernels, line_of, without_comments
from gemm_lessons.engine.records import METRICS, Grid, dataclass
from gemm_lessons.engine.sass import count_moved_loads
from gemm_lessons.gemm import Shape, astuple
from gemm_lessons.judging.evidence import Evidence
from gemm_lessons.judging.lost_time import time_lost, waits_longer
from gemm_lessons.judging.order_remedies import has_buffers
from gemm_lessons.judging.remedies import remedies
from gemm_lessons.judging.verdict import CompileFailed, GateMissed, GateResult, Passed, WrongAnswer

SHOWN = 3
# Where the course explains a subject: lesson and section heading. A test finds each heading in its text.
COALESCING = ("coalesced", "What a warp asks for")
CONFLICTS = ("bank_conflicts", "Banks")
# Below these thresholds a hint would be noise.
CONFLICT_SHARE = 0.05  # of all shared-memory wavefronts
SECTOR_EXCESS = 2.0  # sectors over the fewest possible for the bytes asked for
SECTOR_SHARE = 0.2  # of all global sectors, those in excess
LOW_OCCUPANCY = 0.25

MORE_INSTRUCTIONS = 1.1  # than the reference, for the same multiply-adds
OF_TWO_DIMENSIONS = re.compile(
    r"threadIdx\s*\.\s*y|(?:(?P<of>(?:threadIdx\s*\.\s*x\s*)?[/%])|\bblockIdx\s*\.\s*(?P<axis>[xyz])\s*\*)"
    r"\s*blockDim\s*\.\s*x"
)
# NVRTC's words for arithmetic on a number of two bytes and one of another type: C++ finds several operators.
AMBIGUOUS = re.compile(r"more than one (?:operator \"\S+\" matches|conversion function from .* to a built-in type)")
# The estimate's limiter, and what to try where no later lesson treats it.
LIMITS: Mapping[str, tuple[str, str]] = {
    "issue": ("instructions", "do more multiply-adds for each load and each index computed"),
    "fp32": ("multiply-adds", "that is the best kind of limit; what remains is overlap and launch overhead"),
    "tensor": ("the tensor cores", "that is the best kind of limit; what remains is overlap and launch overhead"),
    "fp64": ("fp64 multiply-adds", "that is the best kind of limit; what remains is overlap and launch overhead"),
    "shared": ("shared-memory wavefronts", "reuse numbers in registers, use wider loads, remove bank conflicts"),
    "l1": ("global memory requests", "coalesce them, or read each number once into shared memory"),
    "l2": ("traffic to the L2 cache", "larger block tiles read every number less often"),
    "dram": ("DRAM traffic", "larger block tiles, or blocks that run together sharing rows and columns"),
    "latency": (
        "waiting for loads and barriers that nothing overlaps",
        "more warps, more independent work per thread, or fetching the next tile early",
    ),
}


@dataclass(frozen=True)
class Hint:
    """One hint; the smallest ``rank`` is shown first."""

    rank: float
    text: str


def hints_for(facts: Evidence) -> tuple[str, ...]:
    """Return the best ``SHOWN`` hints, most important first."""
    found = sorted((hint for rule in RULES for hint in rule(facts)), key=lambda hint: hint.rank)
    return tuple(hint.text for hint in found[:SHOWN])


def _open_todo(facts: Evidence) -> Iterator[Hint]:
    if isinstance(facts.checked.verdict, Passed):
        return
    todos = open_todos(facts.source, facts.stub)
    texts = {todo.number: todo.hints[0] for todo in facts.lesson.todos}
    lacks = any(finding.kind == "cluster_memory" for finding in facts.checked.findings)
    rank, effect = (1.9, ", which may be the cause") if lacks else (2.5, "")
    for number, line in sorted(todos.items())[:1]:
        more = f" ({len(todos)} are open)" if len(todos) > 1 else ""
        yield Hint(rank, f"TODO({number}) in line {line} is still open{more}{effect}. {texts.get(number, '')}".rstrip())


def _skipped_todo(facts: Evidence) -> Iterator[Hint]:
    """Hint at a TODO without code below it, while a later one has code and none counts as open."""
    if facts.checked.right or isinstance(facts.checked.verdict, CompileFailed):
        return
    for number, line in skipped_todos(facts.source, facts.stub).items():
        yield Hint(4.4, f"TODO({number}) in line {line} is empty. Did you write that step elsewhere?")
        return


def _undefined_tile(facts: Evidence) -> Iterator[Hint]:
    if not isinstance(facts.checked.verdict, CompileFailed):
        return
    tiles = facts.lesson.tile.defines
    for diagnostic in facts.checked.verdict.diagnostics:
        match = re.search(r'identifier "([A-Za-z_]\w*)" is undefined', diagnostic.message)
        if match and (match[1].upper() in tiles or re.fullmatch(r"[BWT][MNK]", match[1])):
            known = ", ".join(f"{name} = {size}" for name, size in tiles.items())
            text = f"line {diagnostic.line}: {match[1]} is not a tile size of this lesson. lesson.toml defines {known}."
            yield Hint(1, text)
            return


def _half_beside_float(facts: Evidence) -> Iterator[Hint]:
    """Hint at arithmetic on a half or bfloat16 and a number of another type."""
    if not isinstance(facts.checked.verdict, CompileFailed):
        return
    for diagnostic in facts.checked.verdict.diagnostics:
        said = AMBIGUOUS.search(diagnostic.message)
        if said and re.search("half|bfloat16", diagnostic.message + without_comments(facts.source)):
            advice = (
                "A half or bfloat16 beside a number of another type fits several operators: convert it by float(x)."
            )
            yield Hint(1, f"line {diagnostic.line}: ambiguous operator. {advice}")
            return


def _missing_include(facts: Evidence) -> Iterator[Hint]:
    """Hint at a missing header of the stub whose names the kernel uses."""
    verdict, here = facts.checked.verdict, included_names(facts.source)
    if not isinstance(verdict, CompileFailed) or here is None:
        return
    if any(re.search(" is undefined| is not a template", it.message) for it in verdict.diagnostics):
        gone = [f'#include "{name}"' for name, _ in included_names(facts.stub.text) or () if name not in dict(here)]
        if gone:
            yield Hint(1, f"the stub begins with {' and '.join(gone)}: without it, its names are undefined.")


def _ends_at_once(facts: Evidence) -> Iterator[Hint]:
    """Hint at ``if (...);`` and ``for (...);``, which skip the statement below them."""
    lexed = Lexed("" if facts.checked.right else facts.source)
    for at, token in enumerate(lexed.code):
        if token.text in ("if", "for") and lexed.text(at + 1) == "(":
            end = lexed.after(at + 1)
            if lexed.text(end) == ";":
                then = {"for": "executed once, after the loop", "if": "always executed"}[token.text]
                head = f"line {lexed.code[end].line}: the semicolon after {token.text} (...) ends it"
                yield Hint(1.5, f"{head}: the statement below is {then}.")
                return


def _flat_block(facts: Evidence) -> Iterator[Hint]:
    """Hint at two-dimensional indices, as in tutorials, although most lessons' blocks have one dimension."""
    if facts.checked.right:
        return
    text = without_comments(facts.source)
    rank = 2.6 if open_todos(facts.source, facts.stub) else 1
    for found in OF_TWO_DIMENSIONS.finditer(text):
        grids = _grids_of(facts, text, found.start())
        if any(grid.block[1:] != (1, 1) or _is_flat_index(facts, grid, found) for grid in grids):
            continue
        threads = f"{max(grid.threads for grid in grids):,}"
        is_y = found["axis"] is None and found["of"] is None
        so = "threadIdx.y is always 0" if is_y else f"blockDim.x is {threads}, not a tile size"
        whose = "this lesson's" if len(grids) == len(facts.lesson.launches) else "this kernel's"
        yield Hint(
            rank,
            f"line {line_of(text, found.start())}: {whose} blocks are one row of {threads} threads, so {so}. "
            "Compute row and column from threadIdx.x.",
        )
        return


def _grids_of(facts: Evidence, text: str, position: int) -> Sequence[Grid]:
    """Return the launches of the kernel at ``position``; all launches outside of a launched kernel."""
    grids = facts.lesson.grids(facts.lesson.shapes.count)
    above = [kernel.name for kernel in kernels(text) if kernel.line <= line_of(text, position)]
    entries = [launch.entry.partition("<")[0] for launch in facts.lesson.launches]
    mine = [grid for grid, entry in zip(grids, entries, strict=True) if above[-1:] == [entry]]
    return mine or grids


def _is_flat_index(facts: Evidence, grid: Grid, found: re.Match[str]) -> bool:
    """Tell whether blockDim.x is the right step between blocks: they form one row, or cover a side of a matrix."""
    if found["axis"] is None:
        return found["of"] is not None and "threadIdx" not in found["of"] and grid.grid[1:] == (1, 1)
    across = grid.grid["xyz".index(found["axis"])]
    return grid.grid[1:] == (1, 1) or across in [
        -(-size // grid.block[0]) for size in astuple(facts.lesson.shapes.count)
    ]


def _fault(facts: Evidence) -> Iterator[Hint]:
    for rank, text in remedies(facts):
        yield Hint(rank, text)


def _same_tile(facts: Evidence) -> Iterator[Hint]:
    """Hint at iterations that all read the same K tile."""
    verdict = facts.checked.verdict
    pattern = verdict.judgement.pattern if isinstance(verdict, WrongAnswer) else None
    if pattern is None or pattern.name != "same_k_tile":
        return
    if has_buffers(facts) and pattern.facts["of"] == ("A", "B"):
        yield Hint(
            4.5,
            "the kernel has two buffers: is the one being multiplied the one that was filled last? They swap roles "
            "after every tile, including the last.",
        )
    else:
        yield Hint(
            4.5, "the load that fills the tile reads the same k each time: its index lacks k0, or k0 stays the same."
        )


def _wrong_tile(facts: Evidence) -> Iterator[Hint]:
    """Hint at a wrong answer without another explanation: does one block with one K tile get it right?"""
    verdict, tile = facts.checked.verdict, facts.lesson.tile.defines
    found = any(finding.severity != "note" for finding in facts.checked.findings)
    suspects = found or open_todos(facts.source, facts.stub)
    if not isinstance(verdict, WrongAnswer) or not verdict.is_vague or facts.checked.unfinished:
        return
    whole = Shape(tile.get("BM", 0), tile.get("BN", 0), tile.get("BK", 0))
    right = {result.shape: result.kind == "passed" for result in facts.checked.shapes}
    if facts.checked.contents and not right.get(whole):
        told = " ".join(it.text for it in facts.checked.contents)
        moved = right.get(whole) is False and facts.checked.contents[-1].name == "right_sums"
        ask = "So only their places in C are wrong." if moved else "Is that what should be there?"
        yield Hint(4.5, f"after one block and one K tile, in memory: {told} {ask}")
        return
    if verdict.judgement.pattern or suspects:
        return
    if not facts.lesson.data.multiplies:
        wrong = "no known mistake gives exactly this C."
        yield Hint(7, f"{wrong} Follow one wrong element: which thread computes it, and from which inputs?")
        return
    follow = (
        "Follow one product from the copy through shared memory to C: do row, col and k stay the same at each step?"
    )
    if right.get(whole) is False and "wgmma" in facts.source:
        follow = (
            "Suspect the descriptors first: the address, both distances, the swizzle, and how far a step of k moves "
            "the address in A and in B."
        )
    scratch = [buffer.name for buffer in facts.lesson.data.buffers if buffer.role == "scratch"]
    if whole not in right and scratch:
        text = (
            f"one launch writes {' and '.join(scratch)}, and another one reads it: does each number have a "
            "place of its own, and is it read from there? If they are partial sums, are all of them added (+=), each "
            "once?"
        )
    elif whole not in right:
        text = f"no known mistake gives exactly this C. {follow}"
    elif right[whole]:
        text = (
            f"one block with one K tile ({whole}) is right, but more of them are not: look at what blockIdx and k0 do. "
            "Which tile does each iteration copy, and where in C does the block's part start?"
        )
    else:
        text = f"one block with one K tile ({whole}) is already wrong, so neither blockIdx nor k0 is to blame. {follow}"
    yield Hint(7, text)


def _gates(facts: Evidence) -> Iterator[Hint]:
    if not isinstance(facts.checked.verdict, GateMissed):
        return
    for number, gate in enumerate(facts.checked.verdict.missed):
        value = gate.note or gate.shown
        limit = f"at most {gate.limit:g}" if gate.at_most else f"at least {gate.limit:g}"
        where = " on a shape that is not the lesson's own" if gate.hidden else ""
        why = _moved_loads(facts, gate) or f"{gate.why}{_most_wasteful(facts, gate)}"
        yield Hint(3 + number / 100, f"{gate.name} is {value}{where}; this lesson requires {limit}. {why}")


def _moved_loads(facts: Evidence, gate: GateResult) -> str:
    """Return what to do about loads that are late only because the compiler has moved them, or an empty string."""
    if "global_bytes_waited_for" not in gate.expression or facts.built is None:
        return ""
    line = next(filter(None, map(count_moved_loads, facts.built.code.counted)), None)
    if line is None:
        return ""
    return (
        f"Your code loads early enough in line {line} [{facts.quote(line)}], but the compiler has moved these loads "
        "past the products. Write __syncwarp(); after the loads: no load moves down past it."
    )


def _most_wasteful(facts: Evidence, gate: GateResult) -> str:
    """Return the line that takes the most wavefronts more than ideal, for a gate on them, or an empty string."""
    counters = facts.checked.counters
    if counters is None or "shared_wavefronts_ideal" not in gate.expression:
        return ""
    metric = METRICS["shared_wavefronts"]
    lost = [
        (it.value - it.ideal, it)
        for it in counters.lines
        if it.metric == metric and it.ideal is not None and it.value > it.ideal and not it.file
    ]
    if not lost:
        return ""
    _, worst = max(lost, key=lambda it: it[0])
    return (
        f" Most is lost in line {worst.line} [{facts.quote(worst.line)}]: {worst.value:,} wavefronts, where "
        f"{worst.ideal:,} would be ideal."
    )


def _not_unrolled(facts: Evidence) -> Iterator[Hint]:
    """Hint at a pragma that keeps a loop from unrolling, where a gate is missed."""
    if not isinstance(facts.checked.verdict, GateMissed):
        return
    found = re.search(r"^[ \t]*#pragma\s+(?:unroll\s+1|nounroll)\b.*$", without_comments(facts.source), re.M)
    if found is None or found[0].strip() in facts.stub.text:
        return
    line = line_of(facts.source, found.start())
    yield Hint(
        2.9,
        f"line {line}: {found[0].strip()} keeps the loop below from unrolling. Its counter is then not a constant, so "
        "an array that it indexes cannot stay in registers. Remove the pragma.",
    )


def _spills(facts: Evidence) -> Iterator[Hint]:
    resources = facts.built.resources if facts.built else None
    if not facts.checked.right or resources is None or not resources.spill_bytes:
        return
    yield Hint(
        6,
        f"{resources.spill_bytes} bytes per thread are spilled: the kernel ran out of registers ({resources.registers} "
        "used), so the compiler keeps values in slow local memory. Use smaller thread tiles, check that every "
        "index into a per-thread array is a constant after unrolling, or compute addresses in fewer steps.",
    )


def _conflicts(facts: Evidence) -> Iterator[Hint]:
    if not facts.checked.right or facts.checked.counters is None:
        return
    total = facts.checked.counters.get("shared_wavefronts")
    for conflict in facts.checked.counters.conflicts:
        share = conflict.excess_wavefronts / total if total else 0.0
        if share >= CONFLICT_SHARE and conflict.ways > 1:
            yield Hint(8 - share, _conflict_text(facts, conflict, share))


def _conflict_text(facts: Evidence, conflict: Conflict, share: float) -> str:
    lesson, section = CONFLICTS
    verb = "writes" if conflict.store else "reads"
    array = f" {conflict.array}" if conflict.array else ""
    lanes = " and ".join(map(str, conflict.lanes[:2]))
    if len(conflict.lanes) > 2:
        lanes = f"{', '.join(map(str, conflict.lanes[:4]))}{', ...' if len(conflict.lanes) > 4 else ''}"
    offsets = ", ".join(map(str, conflict.addresses[:2]))
    article = "an" if conflict.ways in (8, 11, 18) else "a"
    return (
        f"line {conflict.line} {verb}{array} with {article} {conflict.ways}-way bank conflict: lanes {lanes} want "
        f"different words of bank {conflict.bank} (bytes {offsets}, ...). It costs {share:.0%} of the shared-memory "
        f"wavefronts. [{facts.quote(conflict.line)}] See '{section}': gemm-lessons read {lesson}."
    )


def _uncoalesced(facts: Evidence) -> Iterator[Hint]:
    if not facts.checked.right or facts.checked.counters is None:
        return
    lesson, section = COALESCING
    get = facts.checked.counters.get
    missed = facts.checked.verdict.missed if isinstance(facts.checked.verdict, GateMissed) else ()
    # Loads grow with K and stores do not, so a short counting shape overstates the cost of stores.
    longer = facts.shape.k / facts.counted.k if facts.shape and facts.counted else 1.0
    loaded, stored = get("global_load_sectors"), get("global_store_sectors")
    if loaded is None or stored is None:
        return
    total = longer * loaded + stored
    for kind, verb, weight in (("load", "reads", longer), ("store", "writes", 1.0)):
        sectors, requests = METRICS[f"global_{kind}_sectors"], METRICS[f"global_{kind}_requests"]
        per_line = {count.line: count.value for count in facts.checked.counters.lines if count.metric == requests}
        for count in facts.checked.counters.lines:
            if count.metric != sectors or not count.ideal or not per_line.get(count.line):
                continue
            excess = weight * (count.value - count.ideal) / total
            if count.value / count.ideal < SECTOR_EXCESS or excess < SECTOR_SHARE:
                continue
            asked, fewest = count.value / per_line[count.line], count.ideal / per_line[count.line]
            # The hint of a missed gate gives its limit and where to read more; this one adds the line.
            named = f"global_sectors_{'read' if kind == 'load' else 'written'}"
            told = any(named in gate.expression for gate in missed)
            more = "" if told else f" See '{section}': gemm-lessons read {lesson}."
            yield Hint(
                8 - excess,
                f"line {count.line} {verb} {asked:.3g} sectors per request where {fewest:.3g} would do: the lanes of a "
                f"warp are far apart in memory. [{facts.quote(count.line)}]{more}",
            )


def _instructions(facts: Evidence) -> Iterator[Hint]:
    mine = facts.checked.instructions_per_fma
    best = facts.reference.instructions_per_fma if facts.reference is not None else None
    if facts.checked.right and mine is not None and best is not None and mine > MORE_INSTRUCTIONS * best:
        yield Hint(
            8.5,
            f"its machine code executes {mine:.2f} instructions per multiply-add, the reference {best:.2f}. Apart from "
            "loads and stores, these are index arithmetic and loops: move arithmetic that does not change out of the "
            "loop over k0, and give every loop a constant number of iterations, so that the compiler can unroll it.",
        )


def _small_grid(facts: Evidence) -> Iterator[Hint]:
    if facts.checked.right and 0 < facts.blocks < facts.sms:
        count = f"{facts.blocks} block{'s' * (facts.blocks > 1)}"
        yield Hint(
            9,
            f"at {facts.shape} the grid has {count} and an {facts.gpu} has {facts.sms} SMs: {facts.sms - facts.blocks} "
            "of them idle. Larger tiles make this worse; larger matrices avoid it.",
        )


def _limiter(facts: Evidence) -> Iterator[Hint]:
    if not isinstance(facts.checked.verdict, Passed) or facts.speed.estimate is None:
        return
    if facts.speed.estimate.limiter in LIMITS:
        what, advice = LIMITS[facts.speed.estimate.limiter]
        more = f"Lesson {facts.attacker} attacks it" if facts.attacker else f"Next: {advice}"
        yield Hint(10, f"estimated bottleneck on {facts.gpu} at {facts.shape}: {what}. {more}.")


def _lost_time(facts: Evidence) -> Iterator[Hint]:
    if not isinstance(facts.checked.verdict, Passed):
        return
    waited = waits_longer(facts.checked.counters, facts.reference.counters if facts.reference else None)
    if lost := time_lost(facts.speed, facts.solution, waited):
        yield Hint(9, lost)


def _occupancy(facts: Evidence) -> Iterator[Hint]:
    it = facts.built.occupancy if facts.built else None
    if it is None or not 0 < it.fraction <= LOW_OCCUPANCY or not isinstance(facts.checked.verdict, Passed):
        return
    estimate = facts.speed.estimate
    if estimate is None:
        what = "That is fine as long as each thread has enough independent work."
    elif estimate.limiter == "latency":
        what = "The estimate shows stalls: more warps, or more independent work per thread, would hide them."
    else:
        what = "That is fine here: by the estimate, latency is not the bottleneck."
    yield Hint(11, f"occupancy is {it.fraction:.3g} ({it.warps} warps on an SM), limited by {it.limiter}. {what}")


RULES: Sequence[Callable[[Evidence], Iterator[Hint]]] = (
    _open_todo,
    _skipped_todo,
    _undefined_tile,
    _half_beside_float,
    _missing_include,
    _ends_at_once,
    _flat_block,
    _fault,
    _same_tile,
    _wrong_tile,
    _not_unrolled,
    _gates,
    _spills,
    _conflicts,
    _uncoalesced,
    _instructions,
    _small_grid,
    _lost_time,
    _limiter,
    _occupancy,
)
