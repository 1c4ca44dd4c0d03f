"""The timeline as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's Trace Event Format.

There is one process for each block, one thread for each warp. A slice is work at one source line, or a stall with
its reason; loads in flight are separate slices. The format counts in microseconds and viewers show
nanoseconds, so a clock of the multiprocessor is written as a nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemm_lessons.engine.estimate.recording import NOTHING, Recording, StateSpan
from gemm_lessons.engine.pictures.timeline import SHOWN_AS, WIDE, Shown, Timeline

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


def trace_file(recording: Recording, timeline: Timeline, path: str, source: str, label: str, size: str) -> str:
    """Return the file's text. ``path`` and ``source`` are the kernel's; ``label`` is its name; ``size`` is that of
    its problem."""
    lines = source.splitlines()

    def text(place: int) -> str:
        instruction = recording.code[place].source
        if instruction.file != path or not instruction.line:
            return instruction.text
        return f"{instruction.line}: {lines[instruction.line - 1].strip()}"

    events = [*_names(recording), *_slices(recording, text), *_flights(recording, text), *_curve(timeline)]
    about = {
        "kernel": f"{label}, {path}",
        "gpu": timeline.gpu,
        "what": f"{timeline.blocks} blocks on one multiprocessor at {size}; an estimate, not measured",
        "unit": "1 ns stands for one clock",
    }
    return json.dumps({"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}, separators=(",", ":"))


def _names(recording: Recording) -> Iterator[Event]:
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


def _flights(recording: Recording, text: Any) -> Iterator[Event]:
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
