"""Gates over the counters of a right kernel's launches: does it use the lesson's method?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gemm_lessons.course.lesson import Gate
from gemm_lessons.engine.arguments.expression import Number
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.metrics import COUNTED, ON_PTX
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.judging.evidence import Built
from gemm_lessons.judging.verdict import GateResult


@dataclass(frozen=True)
class CountedLaunch:
    """A counted launch: the kernel, its counters, and the sizes and tile of the lesson under test."""

    built: Built
    counters: Counters
    sizes: Mapping[str, Number]


def judge_launches(gates: Sequence[Gate], launches: Sequence[CountedLaunch]) -> tuple[GateResult, ...]:
    """Return the worst result of each gate over these launches.

    The first launch has a known shape. A gate that only another launch misses is marked as missed on a hidden shape.
    """
    known, *hidden = (
        judge_gates(gates, {**counted_names(it.built, it.counters), **it.sizes}, uncounted(it.counters))
        for it in launches
    )
    return tuple(_worst(results) for results in zip(known, *hidden, strict=True))


def _worst(results: Sequence[GateResult]) -> GateResult:
    """Return the worst result of one gate on several shapes; the known shape has precedence."""
    first = next((number for number, result in enumerate(results) if not result.passed), 0)
    return replace(results[first], hidden=True) if first else results[0]


def judge_gates(
    gates: Sequence[Gate], names: Mapping[str, Number], uncounted: Mapping[str, str] | None = None
) -> tuple[GateResult, ...]:
    """Evaluate the lesson's gates over counters, resources, sizes and tile names. A value that is not a number misses
    its gate, and so does a gate on a counter that could not be counted: ``uncounted`` says why."""
    results = []
    for gate in gates:
        value = float(gate.value.value(names))
        note = ""
        if why := next((why for name, why in (uncounted or {}).items() if name in gate.value.names), ""):
            note = f"cannot be counted: {why}"
        elif not math.isfinite(value):
            note = f"{gate.value.text} divides by zero: the kernel never does what this gate counts"
        at_most = gate.at_most is not None
        limit = gate.at_most if gate.at_most is not None else gate.at_least
        assert limit is not None
        results.append(
            GateResult(
                gate.name,
                None if note else value,
                limit,
                at_most,
                not note and gate.holds(value),
                gate.why,
                gate.value.text,
                note,
            )
        )
    return tuple(results)


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
