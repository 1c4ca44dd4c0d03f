"""Parse ptxas' report (registers, spills, shared bytes), and compute the layout of a kernel's shared arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemm_lessons.engine.hardware.occupancy import Resources
from gemm_lessons.engine.records.regex import regex

DRIVER_STACK = 1024  # bytes of a thread, unless the host asks for more


def read_resources(log: str, entry: str) -> Resources:
    """Return registers per thread and bytes per block or thread from the ``ptxas -v`` part of the log.

    Device functions that were not inlined have stack frames of their own. Their spills count, since the kernel pays
    them. Where a function calls itself, ptxas cannot tell how deep the stack gets: the driver's stack counts.
    """
    entries = set(re.findall(r"Compiling entry function '(\S+)'", log))
    registers = shared = spills = stack = 0
    for function, stack_bytes, stores, loads in re.findall(
        r"Function properties for (\S+)\s*\n\D*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill",
        log,
    ):
        if function == entry or function not in entries:
            stack = max(stack, int(stack_bytes))
            spills += int(stores) + int(loads)
    if own := re.search(rf"Compiling entry function '{re.escape(entry)}'.*?Used (\d+) registers([^\n]*)", log, re.S):
        registers = int(own[1])
        if smem := re.search(r"(\d+) bytes smem", own[2]):
            shared = int(smem[1])
    if f"Stack size for entry function '{entry}' cannot be statically determined" in log:
        stack += DRIVER_STACK
    return Resources(registers, shared, spills, stack)


_SHARED = regex(
    r"^\s*(?:\.(?:visible|weak|common)\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+([\w$]+)(?:\[(\d+)\])?;",
    re.M,
)


_ENTRY = regex(r"\.entry\s")


def read_shared_layout(ptx: str, entry: str, shared_bytes: int) -> tuple[tuple[str, int, int], ...]:
    """Return the layout of a kernel's static shared arrays: (PTX name, offset, bytes).

    A cubin has no symbols for them. ptxas keeps the order of the PTX text, puts what several kernels use last, and
    aligns each array (checked against the addresses in the machine code of random kernels,
    ``checks/compiler/test_shared_layout.py``). If the total differs from the one that ptxas reports, the result is
    empty.
    """
    layout = shared_arrays(ptx, entry)
    end = max((offset + size for _, offset, size in layout), default=0)
    totals = {end}
    # Dynamic shared memory follows the static arrays.
    for align in re.findall(r"\.extern\s+\.shared\s+\.align\s+(\d+)", ptx):
        unit = max(int(align), 16)
        totals.add(-(-end // unit) * unit)
    return layout if shared_bytes in totals else ()


def shared_arrays(ptx: str, entry: str) -> tuple[tuple[str, int, int], ...]:
    """Return the same layout without machine code: by the rule of ``read_shared_layout`` alone."""
    start = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(", ptx)
    if not start:
        return ()
    body = ptx[start.start() : ptx.find("\n}", start.start())]
    outside = re.sub(r"^\{.*?^\}", "", ptx, flags=re.S | re.M)  # of all functions
    kernels = _ENTRY.split(ptx)[1:]

    def users(name: str, texts: Sequence[str]) -> int:
        whole = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
        return sum(bool(whole.search(text)) for text in texts)

    used = [m for m in _SHARED.finditer(outside) if users(m[3], [body])]
    several = [m for m in used if len(kernels) > 1 and users(m[3], kernels) > 1]
    own = [m for m in used if m not in several]
    layout: list[tuple[str, int, int]] = []
    end = 0
    for match in (*own, *_SHARED.finditer(body), *several):
        size = int(match[2]) // 8 * int(match[4] or 1)
        align = int(match[1] or int(match[2]) // 8)
        offset = -(-end // align) * align
        layout.append((match[3], offset, size))
        end = offset + size
    return tuple(layout)
