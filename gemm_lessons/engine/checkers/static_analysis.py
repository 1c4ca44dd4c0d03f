"""Facts that the checkers derive from a kernel's code before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.checkers.global_memory import Protocol
from gemm_lessons.engine.checkers.product_registers import product_registers
from gemm_lessons.engine.events import SharedArray
from gemm_lessons.engine.machine.memory import layout
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.ptx.cfg import reads
from gemm_lessons.engine.ptx.provenance import local_provenance, provenance
from gemm_lessons.engine.ptx.records import SIZES, Immediate, Kernel, Register, Vector
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass

MBARRIER, BULK = 8, 16  # bytes of an mbarrier; bulk copies are multiples of BULK
ORDERED = frozenset({"acquire", "release", "acq_rel"})  # modifiers that order accesses without a separate fence


@dataclass(frozen=True)
class Facts:
    """Facts of a kernel.

    ``granules``: bytes of the narrowest access by space ("shared", "local", "global"), a power of two.
    ``has_phases``: the kernel has mbarriers or bulk copies. ``arrays``: memory instruction -> the one shared array that
    its address derives from; ``own``: the same for the thread's local arrays. ``optimistic``: loads that may race with
    atomics of other threads. ``flags``: accesses by which the threads of a block synchronise in shared memory
    (``synchronising_accesses``). ``products``: findings on registers of asynchronous products. ``unused``: load of a
    vector -> for each of its bytes, whether it goes to a register that nothing reads.
    """

    granules: Mapping[str, int]
    has_async: bool
    has_phases: bool
    protocol: Protocol
    arrays: Mapping[int, str]
    own: Mapping[int, SharedArray]
    optimistic: frozenset[int]
    flags: frozenset[int]
    products: Sequence[Finding]
    unused: Mapping[int, Array]


def facts(kernel: Kernel, shared: frozenset[str]) -> Facts:
    """Return the facts of a kernel with these shared arrays. Memoised in the kernel, which is stored with them."""
    known: Facts | None = kernel.__dict__.get("_facts")
    if known is None:
        known = kernel.__dict__["_facts"] = _facts(kernel, shared)
    return known


def _facts(kernel: Kernel, shared: frozenset[str]) -> Facts:
    granules = {"shared": 16, "local": 16, "global": 16}
    has_async = has_phases = fence = flag = warp_sync = False
    strong = synchronising_accesses.strong(kernel)
    optimistic = synchronising_accesses.optimistic(kernel)
    for instruction in kernel.instructions:
        row, modifiers = instruction.row, instruction.modifiers
        warp_sync |= bool(row.warp)
        if row.effect in ("load", "store", "atomic"):
            space = next((m.partition("__")[0] for m in modifiers if m.partition("__")[0] in (*granules, "param")), "")
            width = 16 if row.lanes else SIZES.get(modifiers[-1], 1)  # of one element: a vector has several granules
            for name in (space,) if space in granules else granules if not space else ():
                granules[name] = min(granules[name], width)
            if space != "shared" and instruction.index in strong:
                flag = True
                fence |= bool(ORDERED & set(modifiers))
        elif row.name in ("st.async", "red.async"):
            granules["shared"] = min(granules["shared"], SIZES.get(modifiers[-1], 1))
            has_phases = True
        elif row.name == "wgmma.mma_async":
            has_phases = True
        elif row.effect == "phase":
            granules["shared"] = min(granules["shared"], MBARRIER)
            has_phases = True
        elif row.effect == "copy" and "bulk" in modifiers:
            has_phases = True
            stores = "bulk_group" in modifiers
            # A clipped box ends at any element.
            end = BULK if "tensor" not in modifiers else 1 if stores else 4
            granules["global"] = min(granules["global"], end)
        elif row.effect == "copy" and len(instruction.operands) > 1:
            has_async = True
            size = instruction.operands[2] if len(instruction.operands) > 2 else None
            granules["shared"] = min(granules["shared"], size.value if isinstance(size, Immediate) else 4)
            granules["global"] = min(granules["global"], 4)
        elif row.effect == "fence":
            fence = True
    observed, block_scoped = synchronising_accesses.observed_reads(kernel), synchronising_accesses.block_scoped(kernel)
    flags = synchronising_accesses.flag_accesses(kernel) if fence else frozenset()
    protocol = Protocol(fence and flag, warp_sync, strong, observed, block_scoped, optimistic)
    return Facts(
        granules, has_async, has_phases, protocol, provenance(kernel, shared), own_arrays(kernel), optimistic, flags,
        product_registers(kernel), unused_bytes(kernel),
    )  # fmt: skip


def unused_bytes(kernel: Kernel) -> Mapping[int, Array]:
    """Return the bytes of vector loads that no instruction uses: compilers load padding with its neighbours."""
    vectors = {
        it.index: it.operands[0].elements
        for it in kernel.instructions
        if it.row.name == "ld" and it.operands and isinstance(it.operands[0], Vector)
    }
    if not vectors:
        return {}
    used = frozenset().union(*map(reads, kernel.instructions))
    found = {}
    for index, elements in vectors.items():
        sinks = [not isinstance(it, Register) or it.name not in used for it in elements]
        if any(sinks):
            found[index] = np.repeat(sinks, SIZES[kernel.instructions[index].modifiers[-1]])
    return found


def own_arrays(kernel: Kernel) -> Mapping[int, SharedArray]:
    """Return the one local array that a memory instruction's address derives from. Memoised like ``facts``."""
    known: Mapping[int, SharedArray] | None = kernel.__dict__.get("_own_arrays")
    if known is None:
        placed, _ = layout([v for v in kernel.variables if v.space == "local"], {})
        arrays, meant = local_provenance(kernel, placed)
        known = {index: SharedArray(name, *arrays[name]) for index, name in meant.items() if name in arrays}
        kernel.__dict__["_own_arrays"] = known
    return known
