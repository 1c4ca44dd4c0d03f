"""The estimate's clock-by-clock timeline, coarsened for drawing: one strip for each warp.

Every figure here is a sum over the spans of a ``Recording``. Only a strip that shows one state for several clocks is
approximate: it shows the state that took most of them.

``trace_file`` writes it as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's Trace Event
Format. There is one process for each block, one thread for each warp. A slice is work at one source line, or a stall
with its reason; loads in flight are separate slices. The format counts in microseconds and viewers show nanoseconds, so
a clock of the multiprocessor is written as a nanosecond.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from gemm_lessons.engine.estimate.recording import NOTHING, Recording, State, StateSpan
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

TICKS = 1500  # of a strip, at most
MOST_STRETCHES = 9_000  # of all strips together: limits the size of a page
WIDE = 400  # equal parts of the time in the curve above the strips

# States of a strip. "run": the warp issues, waits for its previous arithmetic, or competes with other warps of its
# scheduler for an issue slot or an arithmetic unit.
Shown = Literal["run", "queue", "global", "shared", "product", "result", "barrier"]
SHOWN_STATES: tuple[Shown, ...] = get_args(Shown)
SHOWN_AS: Mapping[State, Shown] = {
    "issue": "run",
    "fixed": "run",
    "turn": "run",
    "math": "run",
    "queue": "queue",
    "global": "global",
    "shared": "shared",
    "product": "product",
    "result": "result",
    "barrier": "barrier",
}
NANOSECOND = 1e-3  # in microseconds: one clock
WAITS: Mapping[Shown, tuple[str, str]] = {  # name of a slice, and its colour in viewers that know Chrome's names
    "run": ("", "thread_state_running"),
    "queue": ("load-store queue is full", "thread_state_runnable"),
    "global": ("waits for global memory", "terrible"),
    "shared": ("waits for shared memory", "bad"),
    "product": ("waits for products", "thread_state_uninterruptible"),
    "result": ("waits for a slow instruction", "yellow"),
    "barrier": ("waits at the barrier", "grey"),
}
Event = dict[str, Any]


@dataclass(frozen=True)
class Strip:
    """``ticks`` of a warp's strip in one state, most of them for source line ``line`` (0: of no line)."""

    ticks: int
    state: Shown
    line: int


@dataclass(frozen=True)
class Stalls:
    """Clocks that all warps spent at one source line, by state. ``waited_for``: the same by line of the load."""

    line: int
    clocks: Mapping[State, float]
    waited_for: Mapping[int, float]


@dataclass(frozen=True)
class Timeline:
    """One multiprocessor of ``gpu`` with ``blocks`` resident blocks, from the launch to the last instruction.

    ``strips``: by warp, block by block. ``flights``: by warp, clocks in which loads from global memory are in flight.
    ``issued``: percent of the issue slots used, in ``WIDE`` equal parts of the time.
    """

    gpu: str
    blocks: int
    warps_per_block: int
    schedulers: int
    clocks: float
    loop: float  # clocks until the last barrier: the epilogue follows
    tick: int  # clocks
    strips: tuple[tuple[Strip, ...], ...]
    flights: tuple[tuple[tuple[int, int], ...], ...]
    issued: tuple[int, ...]
    shares: Mapping[State, float]  # of all warps' time
    busy: Mapping[str, float]  # busy fraction of each unit in the main loop, from the estimate
    stalls: tuple[Stalls, ...]


def timeline_of(recording: Recording, gpu: GpuSpec, path: str, busy: Mapping[str, float]) -> Timeline:
    """Make the timeline. ``path``: the file whose lines are shown; instructions of other files count as line 0."""
    lines = lines_of(recording, path)
    warps = _by_warp(recording, lines)
    tick = max(1, math.ceil(_loop(recording) / TICKS))
    while True:
        strips = tuple(_strip(warp, recording.clocks, tick) for warp in warps)
        stretches = sum(map(len, strips))
        if stretches <= MOST_STRETCHES:
            break
        tick = math.ceil(tick * max(1.2, stretches / MOST_STRETCHES))
    spans = [(span.state, span.end - span.start) for span in recording.spans]
    total = sum(clocks for _, clocks in spans)
    shares = {state: sum(clocks for its, clocks in spans if its == state) / total for state in get_args(State)}
    return Timeline(
        gpu=gpu.name,
        blocks=-(-recording.warps // recording.warps_per_block),
        warps_per_block=recording.warps_per_block,
        schedulers=recording.schedulers,
        clocks=recording.clocks,
        loop=_loop(recording),
        tick=tick,
        strips=strips,
        flights=tuple(_flights(recording, warp, tick) for warp in range(recording.warps)),
        issued=_issued(recording),
        shares=shares,
        busy=busy,
        stalls=_stalls(recording.spans, lines),
    )


def lines_of(recording: Recording, path: str) -> list[int]:
    """Return the line of each instruction; 0 for instructions of other files than ``path``."""
    return [d.source.line or 0 if d.source.file == path else 0 for d in recording.code]


def role_strips(recording: Recording, path: str, warps: Sequence[int], tick: int) -> list[tuple[Strip, ...]]:
    """Return the strips of some warps, ``tick`` clocks a part."""
    found = _by_warp(recording, lines_of(recording, path))
    return [_strip(found[warp], recording.clocks, tick) for warp in warps]


def _loop(recording: Recording) -> float:
    """Return the last clock at which a warp waits at a barrier: the epilogue follows. Without barriers, the end."""
    return max((span.end for span in recording.spans if span.state == "barrier"), default=recording.clocks)


@dataclass(frozen=True)
class _Warp:
    """The spans of one warp as arrays. ``kinds``: state and line as one number, by the ``lines`` that occur."""

    starts: Array
    ends: Array
    kinds: Array
    lines: tuple[int, ...]


def _by_warp(recording: Recording, lines: Sequence[int]) -> list[_Warp]:
    spans: list[list[StateSpan]] = [[] for _ in range(recording.warps)]
    for span in recording.spans:
        spans[span.warp].append(span)
    shown = {state: SHOWN_STATES.index(as_) for state, as_ in SHOWN_AS.items()}
    found = []
    for mine in spans:
        there = sorted({lines[span.place] for span in mine})
        column = {line: i for i, line in enumerate(there)}
        kinds = [shown[span.state] * len(there) + column[lines[span.place]] for span in mine]
        starts, ends = (np.array([getattr(span, name) for span in mine]) for name in ("start", "end"))
        found.append(_Warp(starts, ends, np.array(kinds, np.int64), tuple(there)))
    return found


def _strip(warp: _Warp, clocks: float, tick: int) -> tuple[Strip, ...]:
    """Return the state with most clocks of each tick, and the line with most of those; equal neighbours are merged."""
    if not warp.starts.size:
        return ()
    ticks = math.ceil(clocks / tick)
    spent = np.zeros((ticks, len(SHOWN_STATES) * len(warp.lines)))
    starts, ends = warp.starts / tick, warp.ends / tick
    first, last = starts.astype(np.int64), np.minimum(ends.astype(np.int64), ticks - 1)
    within = first == last
    np.add.at(spent, (first[within], warp.kinds[within]), (ends - starts)[within])
    for at in np.flatnonzero(~within).tolist():
        kind = warp.kinds[at]
        spent[first[at], kind] += first[at] + 1 - starts[at]
        spent[first[at] + 1 : last[at], kind] += 1
        spent[last[at], kind] += ends[at] - last[at]
    by_state = spent.reshape(ticks, len(SHOWN_STATES), len(warp.lines))
    states = by_state.sum(2).argmax(1)
    places = by_state[np.arange(ticks), states].argmax(1)
    over = math.ceil(ends[-1])  # the warp has ended
    found: list[Strip] = []
    for state, place in zip(states[:over].tolist(), places[:over].tolist(), strict=True):
        shown, line = SHOWN_STATES[state], warp.lines[place]
        if found and (found[-1].state, found[-1].line) == (shown, line):
            found[-1] = Strip(found[-1].ticks + 1, shown, line)
        else:
            found.append(Strip(1, shown, line))
    return tuple(found)


def _flights(recording: Recording, warp: int, tick: int) -> tuple[tuple[int, int], ...]:
    """Return when at least one load of the warp is in flight; gaps below a tick are closed."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((flight.start, flight.end) for flight in recording.flights if flight.warp == warp):
        begin, finish = int(start), math.ceil(end)
        if merged and begin <= merged[-1][1] + tick:
            merged[-1] = (merged[-1][0], max(merged[-1][1], finish))
        else:
            merged.append((begin, finish))
    return tuple(merged)


def _issued(recording: Recording) -> tuple[int, ...]:
    """Return the percentage of all schedulers' issue slots that are used, in equal parts of the time."""
    part = recording.clocks / WIDE
    used = np.zeros(WIDE)
    for span in recording.spans:
        if span.state == "issue":
            first, last = int(span.start / part), min(int(span.end / part), WIDE - 1)
            for at in range(min(first, WIDE - 1), last + 1):
                used[at] += max(0.0, min(span.end, (at + 1) * part) - max(span.start, at * part))
    return tuple(np.minimum(100, np.rint(100 * used / (part * recording.schedulers))).astype(int).tolist())


def _stalls(spans: Sequence[StateSpan], lines: Sequence[int]) -> tuple[Stalls, ...]:
    clocks: dict[int, dict[State, float]] = {}
    waited_for: dict[int, dict[int, float]] = {}
    for span in spans:
        line, time = lines[span.place], span.end - span.start
        of_line = clocks.setdefault(line, {})
        of_line[span.state] = of_line.get(span.state, 0.0) + time
        if span.cause >= 0:
            loads = waited_for.setdefault(line, {})
            loads[lines[span.cause]] = loads.get(lines[span.cause], 0.0) + time
    return tuple(Stalls(line, clocks[line], waited_for.get(line, {})) for line in sorted(clocks))


def trace_file(recording: Recording, timeline: Timeline, path: str, source: str, label: str, size: str) -> str:
    """Return the file's text. ``path``, ``source``: the kernel's; ``label``: its name; ``size``: its problem's."""
    lines = source.splitlines()

    def text(place: int) -> str:
        instruction = recording.code[place].source
        if instruction.file != path or not instruction.line:
            return instruction.text
        return f"{instruction.line}: {lines[instruction.line - 1].strip()}"

    events = [*_named(recording), *_slices(recording, text), *_loads(recording, text), *_curve(timeline)]
    about = {
        "kernel": f"{label}, {path}",
        "gpu": timeline.gpu,
        "what": f"{timeline.blocks} blocks on one multiprocessor {size}; an estimate, not measured",
        "unit": "1 ns stands for one clock",
    }
    return json.dumps({"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}, separators=(",", ":"))


def _named(recording: Recording) -> Iterator[Event]:
    for warp in range(recording.warps):
        block, number = divmod(warp, recording.warps_per_block)
        where = {"pid": block, "tid": number}
        if number == 0:
            yield {"ph": "M", "name": "process_name", **where, "args": {"name": f"block {block}"}}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": f"warp {number}"}}
        yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": number}}


def _slices(recording: Recording, text: Any) -> Iterator[Event]:
    """Yield slices; work at one source line is one slice until the warp stalls."""
    by_warp: dict[int, list[StateSpan]] = {}
    for span in recording.spans:
        by_warp.setdefault(span.warp, []).append(span)
    for warp, spans in sorted(by_warp.items()):
        block, number = divmod(warp, recording.warps_per_block)
        for group in _grouped(spans, text):
            first, last = group[0], group[-1]
            shown = SHOWN_AS[first.state]
            name, colour = WAITS[shown]
            here = text(first.place)
            arguments: Event = {"line" if shown == "run" else "before": here}
            if first.cause != NOTHING:
                arguments["waits for"] = text(first.cause)
            yield {
                "ph": "X", "name": name or here, "cat": shown, "cname": colour, "pid": block, "tid": number,
                "ts": first.start * NANOSECOND, "dur": (last.end - first.start) * NANOSECOND, "args": arguments,
            }  # fmt: skip


def _grouped(spans: Sequence[StateSpan], text: Any) -> Iterator[list[StateSpan]]:
    group: list[StateSpan] = []
    for span in spans:
        same = group and SHOWN_AS[span.state] == SHOWN_AS[group[-1].state] == "run"
        if same and text(span.place) == text(group[-1].place):
            group.append(span)
            continue
        if group:
            yield group
        group = [span]
    if group:
        yield group


def _loads(recording: Recording, text: Any) -> Iterator[Event]:
    for number, flight in enumerate(recording.flights):
        block, warp = divmod(flight.warp, recording.warps_per_block)
        same: Event = {"name": f"load, warp {warp}", "cat": "load", "id": number, "pid": block, "tid": warp}
        arguments = {"line": text(flight.place)}
        yield {"ph": "b", **same, "ts": flight.start * NANOSECOND, "args": arguments}
        yield {"ph": "e", **same, "ts": flight.end * NANOSECOND}


def _curve(timeline: Timeline) -> Iterator[Event]:
    for part, percent in enumerate(timeline.issued):
        start = part * timeline.clocks / WIDE
        name = "issue slots used, %"
        yield {"ph": "C", "name": name, "pid": 0, "ts": start * NANOSECOND, "args": {"percent": percent}}
