"""The suite of the comparison with compute-sanitizer: launches, and the defect of each kernel.

Every file of ``kernels/`` holds two kernels: ``broken`` has one defect, ``fixed`` is its twin without. A comment
``// here: KIND`` marks each line that takes part in the defect; ``KIND`` is the kind of the finding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
Severity = Literal["error", "warning", "note"]
_MARK = re.compile(r"// here: (\w+)")
NAN_BITS = 0x7FFFFFFF  # what outputs hold before the launch


@dataclass(frozen=True)
class Floats:
    """A buffer of ``count`` floats. ``state``: filled, an output full of NaN or of zeros, or never given a value."""

    count: int
    state: Literal["in", "out", "zero", "fresh"] = "in"

    def values(self) -> npt.NDArray[np.float32]:
        if self.state == "in":
            return (np.arange(self.count) % 13 - 6 + 0.5).astype(np.float32)
        return np.full(self.count, 0 if self.state == "zero" else NAN_BITS, np.uint32).view(np.float32)


Null = None
Argument = Floats | int | None


@dataclass(frozen=True, eq=False)
class Case:
    """One launch. ``severity`` of the finding that a broken kernel must give; None for its twin."""

    name: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Mapping[str, Argument]
    dynamic_shared: int = 0
    severity: Severity | None = None

    @property
    def file(self) -> Path:
        return KERNELS / f"{self.name.partition('/')[0]}.cu"

    @property
    def kind(self) -> str:
        """The kind of the defect, from the marks ("" for a clean kernel)."""
        return next((kind for kind in _marks(self.file).values()), "") if self.severity else ""

    @property
    def lines(self) -> frozenset[int]:
        """The lines that take part in the defect."""
        return frozenset(_marks(self.file)) if self.severity else frozenset()

    def driver_line(self) -> str:
        """This launch in the words of ``driver.cpp``."""
        words = [self.name, f"{self.file.stem}.cubin", self.entry, *self.grid, *self.block, self.dynamic_shared]
        for argument in self.arguments.values():
            if isinstance(argument, Floats):
                words.append(f"{argument.state}:{argument.count}")
            else:
                words.append("null" if argument is None else f"i:{argument}")
        return " ".join(map(str, words))


def _marks(file: Path) -> dict[int, str]:
    lines = file.read_text().splitlines()
    return {number: mark[1] for number, line in enumerate(lines, 1) if (mark := _MARK.search(line))}


def _three(numbers: int | Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*([numbers] if isinstance(numbers, int) else numbers), 1, 1][:3]
    return x, y, z


def _pair(
    name: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Mapping[str, Argument],
    severity: Severity = "error",
    dynamic_shared: tuple[int, int] = (0, 0),
) -> list[Case]:
    """The broken kernel of a file and its twin; ``dynamic_shared`` bytes of each."""
    shape = _three(grid), _three(block)
    return [
        Case(f"{name}/broken", "broken", *shape, arguments, dynamic_shared[0], severity),
        Case(f"{name}/fixed", "fixed", *shape, arguments, dynamic_shared[1]),
    ]


def _in(count: int) -> Floats:
    return Floats(count)


def _zero(count: int) -> Floats:
    return Floats(count, "zero")


def _out(count: int) -> Floats:
    return Floats(count, "out")


WARNINGS = frozenset("bulk_left_behind bulk_uncommitted bulk_unseen_barrier".split())
# Asynchronous copies, mbarriers and matrix instructions: stages that are read or refilled too early, phases that are
# waited for twice or never armed, lanes that do not take part. All except ``WARNINGS`` are errors.
ASYNC = [
    _pair(name, 1, 64, {"A": _in(2048), "C": _out(64)}, "warning" if name in WARNINGS else "error")
    for name in (
        "async_last_tile async_uncommitted async_filled_again async_wrong_stage async_store_over "
        "async_half_waits async_in_a_warp async_three_stages phase_made_late phase_never_made phase_too_few "
        "phase_too_many phase_wrong_parity phase_not_waited phase_next_round phase_overwritten phase_twice "
        "phase_never_armed phase_too_long phase_nobody_empties phase_refilled bulk_read_early "
        "bulk_one_lane_waits bulk_one_warp_waits bulk_no_proxy_fence bulk_one_fences bulk_store_no_barrier "
        "bulk_overwritten bulk_left_behind bulk_uncommitted bulk_unseen_barrier bulk_misaligned bulk_odd_size "
        "bulk_past_the_end matrix_odd_rows matrix_half_a_warp matrix_no_barrier matrix_past_the_end "
        "matrix_stored_over product_in_a_branch matrix_next_tile "
    ).split()
]
CASES: tuple[Case, ...] = tuple(
    case
    for pair in [
        _pair("first_barrier", 1, 128, {"A": _in(128), "C": _out(128)}),
        _pair("second_barrier", (2, 2), (16, 16), {"A": _in(2048), "B": _in(2048), "C": _out(1024), "N": 32, "K": 64}),
        _pair("reduction", 1, 256, {"A": _in(256), "C": _out(1)}),
        _pair("producer_warp", 1, 64, {"A": _in(32), "C": _out(32)}),
        _pair("same_warp", 1, 64, {"A": _in(64), "C": _out(64)}, "warning"),
        _pair("warp_reduction", 1, 64, {"A": _in(64), "C": _out(8)}, "warning"),
        _pair("write_write", 1, 128, {"A": _in(128), "C": _out(128)}),
        _pair("warp_write_write", 1, 64, {"A": _in(64), "C": _out(64)}),
        _pair("same_value", 1, 128, {"A": _in(128), "C": _out(128)}, "note"),
        _pair("histogram", 1, 128, {"A": _in(128), "C": _out(8)}),
        _pair("bytes", 1, 128, {"A": _in(128), "C": _out(128)}),
        _pair("double_buffer", 1, 128, {"A": _in(512), "C": _out(128), "tiles": 4}),
        _pair("named_barrier", 1, 128, {"A": _in(128), "C": _out(128)}),
        _pair("arrive", 1, 64, {"A": _in(32), "C": _out(32)}),
        _pair("neighbour_array", 1, 32, {"A": _in(256), "C": _out(32), "rows": 9}, "warning"),
        _pair("shared_end", 1, 64, {"A": _in(64), "C": _out(64), "shift": 4}),
        _pair("dynamic_shared", 1, 64, {"A": _in(64), "C": _out(64)}, dynamic_shared=(128, 256)),
        _pair("last_element", 2, 64, {"A": _in(100), "C": _out(100), "n": 100}),
        _pair("unguarded_edge", (2, 2), (16, 16), {"A": _in(400), "C": _out(400), "M": 20, "N": 20}),
        _pair("before_start", 1, 64, {"A": _in(64), "C": _out(64)}),
        _pair("wrong_stride", 1, 256, {"A": _in(256), "C": _out(256)}),
        _pair("null_pointer", 1, 32, {"A": _in(32), "bias": Null, "C": _out(32)}),
        _pair("misaligned", 1, 32, {"A": _in(160), "C": _out(32), "shift": 1}),
        _pair("misaligned_shared", 1, 64, {"A": _in(256), "C": _out(64)}),
        _pair("unwritten_tile", 1, 128, {"A": _in(128), "C": _out(128)}, "warning"),
        _pair("unwritten_padding", 1, 256, {"A": _in(256), "C": _out(256), "width": 16}, "warning"),
        _pair("unwritten_global", 1, 32, {"A": _in(64), "C": Floats(32, "fresh")}),
        _pair("unwritten_local", 1, 32, {"A": _in(32), "C": _out(32), "first": 1}, "warning"),
        _pair("local_end", 1, 32, {"A": _in(32), "C": _out(32), "far": 1 << 20}),
        _pair("divergent_barrier", 1, 64, {"A": _in(64), "C": _out(64)}),
        _pair("barrier_one_warp", 1, 64, {"A": _in(64), "C": _out(64)}, "warning"),
        _pair("early_exit", 1, 64, {"A": _in(64), "C": _out(64), "n": 50}, "warning"),
        _pair("early_exit_warp", 1, 64, {"A": _in(64), "C": _out(64), "n": 32}, "warning"),
        _pair("barrier_each_branch", 1, 64, {"A": _in(64), "C": _out(128)}),
        _pair("barrier_each_warp", 1, 64, {"A": _in(64), "C": _out(128)}),
        _pair("barrier_in_loop", 1, 64, {"A": _in(64), "C": _out(64)}, "warning"),
        _pair("barrier_count", 1, 96, {"A": _in(64), "C": _out(64)}),
        _pair("barrier_count_odd", 1, 64, {"A": _in(64), "C": _out(64), "count": 64}),
        _pair("two_barriers", 1, 64, {"A": _in(64), "C": _out(64)}),
        _pair("warp_mask", 1, 32, {"A": _in(32), "C": _out(32)}, "warning"),
        _pair("half_syncwarp", 1, 32, {"A": _in(32), "C": _out(64)}, "warning"),
        _pair("global_race", 2, 64, {"A": _in(64), "C": _out(128)}),
        _pair("global_in_block", 1, 128, {"A": _in(128), "T": _out(128), "C": _out(128)}),
        _pair("block_order", 4, 64, {"A": _in(256), "C": _out(512)}),
        _pair("last_block", 4, 32, {"A": _in(4), "T": _out(4), "C": _out(1), "ticket": _zero(1)}),
        _pair("split_k", 4, 64, {"A": _in(256), "C": _out(64)}),
        _pair("async_no_wait", 1, 64, {"A": _in(256), "C": _out(64)}),
        _pair("async_no_barrier", 1, 64, {"A": _in(256), "C": _out(64)}),
        _pair("async_pipeline", 1, 64, {"A": _in(2048), "C": _out(64), "tiles": 8}),
        _pair("trap", 1, 64, {"A": _in(64), "C": _out(64), "n": 32}),
        *ASYNC,
    ]
    for case in pair
)
