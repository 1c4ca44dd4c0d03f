"""Text that a kernel prints with device ``printf``, ordered by block and thread and limited in length.

A call passes the address of the format and that of its arguments, which are in local memory with the layout of a C
struct: 4 bytes for ``int`` and ``char``, 8 for ``double``, ``long`` and pointers. A GPU leaves the order of threads
open; here it is by thread number. CUDA C++ Programming Guide, "Formatted Output": flags, width, precision and sizes of
the format are those of C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from gemm_lessons.engine.machine.memory import LOCAL_WINDOW, GlobalMemory
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.records.results import Printed

MAX_KEPT_CALLS = 200  # calls whose text is kept
MAX_COLUMNS = 4096  # columns of one field; more would exhaust memory
MAX_PENDING_CALLS = 1 << 14  # collected calls before those past the limit are dropped
DIRECTIVE = regex(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|z|j|t)?(.)", re.DOTALL)
BITS = {"hh": 8, "h": 16, "": 32}  # size of an integer; 64 for other length modifiers
NULL = "(null)"


@dataclass(frozen=True)
class Call:
    """One execution of a ``printf``: its lanes, format, and argument bytes, uint8 (lanes, size)."""

    lanes: Array
    format: str
    arguments: Array


class Printer:
    """Collects the ``printf`` calls of one launch."""

    def __init__(self, state: State, memory: GlobalMemory) -> None:
        self._state, self._memory = state, memory
        self._calls: list[Call] = []
        self._waiting = 0
        self._before: int | None = None  # only lanes before this one can still be kept
        self._kept: list[str] = []
        self._count = 0

    def call(self, formats: Array, arguments: Array, active: Array | None) -> None:
        """Collect a ``printf`` of the ``active`` lanes (None: all). ``formats``, ``arguments``: addresses per lane."""
        state = self._state
        lanes = np.flatnonzero(state.alive if active is None else active & state.alive)
        self._count += len(lanes)
        if len(self._kept) >= MAX_KEPT_CALLS:
            return
        if self._before is not None:
            lanes = lanes[lanes < self._before]
        addresses = np.broadcast_to(formats, state.lanes)[lanes]
        for address in np.unique(addresses).tolist():
            same = lanes[addresses == address]
            text = self._memory.text_at(address)
            size = sum(8 * (1 + it[0].count("*")) for it in _directives(text))
            self._calls.append(Call(same, text, self._bytes(np.broadcast_to(arguments, state.lanes)[same], same, size)))
        self._waiting += len(lanes)
        if self._waiting > MAX_PENDING_CALLS:
            self._drop_late_calls()

    def _bytes(self, addresses: Array, lanes: Array, size: int) -> Array:
        """Return the arguments (lanes, size) from local memory."""
        if not size:
            return np.zeros((len(lanes), 0), np.uint8)
        start = lanes * self._state.local_stride + (addresses - LOCAL_WINDOW)
        place = start[:, None] + np.arange(size)
        inside = (place >= 0) & (place < self._state.local.size)
        return np.where(inside, self._state.local[np.where(inside, place, 0)], 0).astype(np.uint8)

    def _drop_late_calls(self) -> None:
        lanes = np.sort(np.concatenate([call.lanes for call in self._calls]))
        last = int(lanes[MAX_KEPT_CALLS - len(self._kept) - 1])
        kept = [(call, call.lanes <= last) for call in self._calls]
        self._calls = [
            Call(call.lanes[those], call.format, call.arguments[those]) for call, those in kept if those.any()
        ]
        self._waiting = sum(len(call.lanes) for call in self._calls)
        self._before = last if self._before is None else min(self._before, last)

    def end_batch(self) -> None:
        """Format the calls of a batch in order."""
        found = [
            (int(lane), number, row)
            for number, call in enumerate(self._calls)
            for row, lane in enumerate(call.lanes[:MAX_KEPT_CALLS].tolist())
        ]
        found.sort()
        for _, number, row in found[: MAX_KEPT_CALLS - len(self._kept)]:
            call = self._calls[number]
            self._kept.append(formatted(call.format, call.arguments[row].tobytes(), self._memory.text_at))
        self._calls, self._waiting, self._before = [], 0, None

    def result(self) -> Printed | None:
        """Return the printed text, or None if nothing was printed."""
        return Printed("".join(self._kept), len(self._kept), self._count) if self._count else None


def formatted(text: str, arguments: bytes, text_at: Callable[[int], str]) -> str:
    """Return the format with its arguments filled in. A directive that C does not know is left unchanged."""
    reader = _Reader(arguments)
    return DIRECTIVE.sub(lambda it: _formatted_directive(it, reader, text_at), text)


class _Reader:
    """Reads numbers from a C struct."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def whole(self, bits: int, signed: bool) -> int:
        size = 8 if bits == 64 else 4
        value = int.from_bytes(self._next(size), "little") & ((1 << bits) - 1)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def double(self) -> float:
        return float(np.frombuffer(self._next(8), np.float64)[0])

    def _next(self, size: int) -> bytes:
        start = -(-self._at // size) * size
        self._at = start + size
        return self._data[start : self._at].ljust(size, b"\0")


def _formatted_directive(directive: re.Match[str], reader: _Reader, text_at: Callable[[int], str]) -> str:
    flags, width, precision, size, kind = directive.groups()
    if kind == "%":
        return "%"
    if kind not in "diouxXpeEfFgGaAcs":
        return directive[0]
    wide = reader.whole(32, True) if width == "*" else int(width or 0)
    if wide < 0:
        flags, wide = f"{flags}-", -wide
    wide = min(wide, MAX_COLUMNS)
    digits = reader.whole(32, True) if precision == "*" else int(precision) if precision else 0
    digits = min(digits, MAX_COLUMNS)
    has_precision = "." in directive[0]
    pattern = f"%{flags}{wide or ''}{f'.{max(digits, 0)}' if has_precision else ''}"
    bits = BITS.get(size or "", 64)
    if kind in "eEfFgG":
        return f"{pattern}{kind}" % reader.double()
    if kind in "aA":
        return f"%{flags}{wide or ''}s" % _hexadecimal(reader.double(), kind)
    if kind == "c":
        return f"%{flags}{wide or ''}s" % chr(reader.whole(32, False) & 0xFF)
    if kind == "s":
        address = reader.whole(64, False)
        return f"{pattern}s" % (text_at(address) if address else NULL)
    if kind == "p":
        return f"%{flags}{wide or ''}s" % f"0x{reader.whole(64, False):x}"
    value = reader.whole(bits, kind in "di")
    if kind == "o" and "#" in flags:  # C writes 017 where Python writes 0o17
        return f"%{flags.replace('#', '')}{wide or ''}s" % f"0{value:o}"
    return f"{pattern}{'d' if kind in 'iu' else kind}" % value


def _hexadecimal(value: float, kind: str) -> str:
    text = value.hex()
    if "p" in text:
        mantissa, exponent = text.split("p")
        text = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"
    return text.upper() if kind == "A" else text


def write_counts(result: Array, formats: Array, active: Array, text_at: Callable[[int], str]) -> None:
    """Write what ``printf`` returns to the ``active`` lanes: how many arguments it parsed, or -1 without a format.

    Source: CUDA C++ Programming Guide, "Formatted Output".
    """
    for address in np.unique(formats[active]).tolist():
        count = sum(1 + it[0].count("*") for it in _directives(text_at(address))) if address else -1
        result[active & (formats == address)] = count


def _directives(text: str) -> Iterator[re.Match[str]]:
    return (it for it in DIRECTIVE.finditer(text) if it[5] != "%")
