"""Names of a thread's local arrays, from the debug information of code compiled with ``-G``.

In such code all arrays of a function are in one local variable (``__local_depot0``). The debug information gives their
offsets: DW_OP_addr, the variable, DW_OP_plus_uconst, the offset, then the name.
"""

from __future__ import annotations

import re

PLACE = re.compile(
    r"\.b8 3\n\s*\.b64 (?P<depot>__local_depot\d+)\n\s*\.b8 35\n\s*\.b8 (?P<offset>[\d,]+)\n\s*\.b8 (?P<name>[\d,]+)\n"
)


def local_names(ptx: str) -> dict[tuple[str, int], str]:
    """Return (variable, byte offset in it) -> source name of the array that begins there."""
    found = {}
    for match in PLACE.finditer(ptx):
        offset = sum((int(byte) & 0x7F) << (7 * place) for place, byte in enumerate(match["offset"].split(",")))
        name = bytes(map(int, match["name"].split(","))).decode("utf-8", "replace")
        found[match["depot"], offset] = name
    return found
