"""Gates over the counters of a right kernel's launches: does it use the lesson's method?

A gate on a counter that could not be counted is not judged. That is a limit of the kit, not a mistake of the kernel, so
it costs nothing; a graded run tells the teacher. But any kernel can make its machine code uncountable: an address that
is read through a generic pointer does, or an atomic that repeats until it succeeds. So a gate is missed if the counts
on PTX miss it by far. ptxas merges and splits accesses, but hardly changes how many bytes they move. It is also missed
if the counted part alone exceeds an upper limit: of all barriers, for example, those that are not mbarriers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gemm_lessons.course import Gate
from gemm_lessons.engine import Counters
from gemm_lessons.engine.arguments import Number
from gemm_lessons.engine.records import COUNTED, ON_PTX, dataclass
from gemm_lessons.judging.evidence import Built
from gemm_lessons.judging.verdict import GateMissed, GateResult

BY_FAR = 2  # times the limit; no compiler merges or splits as many accesses
CLEARLY = 1.25  # times the limit, or a part of it, of rough counts of work: compilers hardly change them
BY_FAR_IN_BYTES = 1.25  # times the limit of a count of bytes


@dataclass(frozen=True)
class CountedLaunch:
    """A counted launch: the kernel, its counters, and the sizes and tile of the lesson under test."""

    built: Built
    counters: Counters
    sizes: Mapping[str, Number]


def judge_launches(gates: Sequence[Gate], launches: Sequence[CountedLaunch]) -> tuple[GateResult, ...]:
    """Return the worst result of each gate over these launches.

    The first launch has a known shape. A gate that only another launch misses is marked as missed on a hidden shape.
    Missed is worse than not judged, and that is worse than met.
    """
    known, *hidden = (
        judge_gates(
            gates,
            {**counted_names(it.built, it.counters), **it.sizes},
            uncounted(it.counters),
            it.counters.parts,
            it.counters.rough,
        )
        for it in launches
    )
    return tuple(_worst(results) for results in zip(known, *hidden, strict=True))


def _worst(results: Sequence[GateResult]) -> GateResult:
    """Return the worst result of one gate on several shapes; the known shape has precedence."""
    worst = min(results, key=lambda it: (it.passed is not False, it.passed is not None))  # the first of equals
    return worst if worst is results[0] else replace(worst, hidden=True)


def verdict_of(gates: Sequence[GateResult]) -> GateMissed | None:
    """Return the verdict when gates are missed."""
    missed = tuple(gate for gate in gates if gate.missed)
    return GateMissed(missed) if missed else None


def judge_gates(
    gates: Sequence[Gate],
    names: Mapping[str, Number],
    uncounted: Mapping[str, str] | None = None,
    parts: Mapping[str, Number] | None = None,
    rough: Mapping[str, Number] | None = None,
) -> tuple[GateResult, ...]:
    """Evaluate the lesson's gates over counters, resources, sizes and tile names. A value that is not a number misses
    its gate. A gate on a counter that could not be counted is not judged, unless the count on PTX misses it by far, or
    the ``parts`` that were counted miss it, or ``rough`` counts clearly do: ``uncounted`` says why."""
    results = []
    for gate in gates:
        if gate.where is not None and not gate.where.holds(names):
            results.append(_result(gate, None, True, gate.why, "does not judge this shape"))
            continue
        value = float(gate.value.value(names))
        note, reason = "", gate.why
        passed: bool | None = math.isfinite(value) and gate.holds(value)
        if why := next((why for name, why in (uncounted or {}).items() if name in gate.value.names), ""):
            at_best = _at_best(gate, {**names, **(parts or {}), **(rough or {})})
            if _missed_by_far(gate, at_best, names, rough or {}) or _exceeds(
                gate, at_best, parts or {}, uncounted or {}
            ):
                value, passed, reason = at_best, False, f"{gate.why} This count is not exact: {why}."
            else:
                note, passed = f"cannot be counted: {why}", None
        elif not math.isfinite(value):
            note = f"{gate.value.text} divides by zero: the kernel never does what this gate counts"
        results.append(_result(gate, None if note else value, passed, reason, note))
    return tuple(results)


def _result(gate: Gate, value: float | None, passed: bool | None, why: str, note: str) -> GateResult:
    limit = gate.at_most if gate.at_most is not None else gate.at_least
    assert limit is not None
    at_most, text = gate.at_most is not None, gate.value.text
    return GateResult(gate.id, gate.name, value, limit, at_most, passed, why, text, note, integrity=gate.integrity)


def _at_best(gate: Gate, names: Mapping[str, Number]) -> float:
    """Return a gate's value; if it has an upper limit, with 0 for what PTX does not count."""
    if gate.at_most is not None:
        names = {name: 0 if name in COUNTED and not math.isfinite(number) else number for name, number in names.items()}
    return float(gate.value.value(names))


def _exceeds(gate: Gate, value: float, parts: Mapping[str, Number], uncounted: Mapping[str, str]) -> bool:
    """Tell whether the counted parts alone exceed an upper limit."""
    return gate.at_most is not None and value > gate.at_most and gate.value.names & uncounted.keys() <= parts.keys()


def _missed_by_far(gate: Gate, value: float, names: Mapping[str, Number], rough: Mapping[str, Number]) -> bool:
    """Tell whether a value misses the gate even if it is not exact. A value that is not a number does not."""
    if not math.isfinite(value):
        return False
    of_work = gate.value.names & COUNTED.keys() <= rough.keys()
    if gate.at_most is None:
        return gate.at_least is not None and value < gate.at_least / (CLEARLY if of_work else BY_FAR)
    if of_work:
        return value > CLEARLY * gate.at_most > 0
    counters = [name for name in gate.value.names if name in COUNTED and math.isfinite(names[name])]
    in_bytes = bool(counters) and all("bytes" in name for name in counters)
    return value > (BY_FAR_IN_BYTES if in_bytes else BY_FAR) * gate.at_most > 0


def uncounted(counters: Counters) -> dict[str, str]:
    """Return the names of counters that gates must not use, with the reason."""
    if not counters.totals:
        return dict.fromkeys(COUNTED, "the launch was not simulated")
    absent = {short: counters.why_absent(short) for short in COUNTED if short not in counters}
    whole = dict.fromkeys((it for it in COUNTED if it not in ON_PTX), counters.obstacle) if counters.obstacle else {}
    return {**absent, **counters.uncounted, **whole}


def counted_names(built: Built, counters: Counters) -> dict[str, Number]:
    """Return counters and facts about the code, by the names in lesson.toml's expressions. NaN: not counted."""
    resources = built.resources
    return {
        **counters.numbers(),
        "registers": resources.registers,
        "shared_bytes": built.shared_bytes,
        "spill_bytes": resources.spill_bytes,
        "stack_bytes": resources.stack_bytes,
    }
