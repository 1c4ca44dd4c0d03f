"""Does a kernel ask what only the machine that runs it can answer? A graded one may not.

The simulator answers as one GPU could. A kernel that goes another way where the answer is another one would be judged
by a way that it takes nowhere else.
"""

from __future__ import annotations

import re

from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.findings import Finding

ASKED = re.compile(r"%(n?smid|n?warpid|gridid|clock(64|_hi)?|globaltimer(_lo|_hi)?|envreg\d+)\b")
PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)", re.M)


def asking(compiled: Compiled) -> Finding | None:
    """The first register in a kernel's PTX that tells the machine, the time or the launch apart from others. Comments
    are searched, too: only inline assembly has any, and there one may hide where another begins."""
    asked = ASKED.search(compiled.ptx)
    if asked is None:
        return None
    places = PLACE.findall(compiled.ptx, 0, asked.start())
    line = int(places[-1]) if places else None
    return Finding("machine_dependent", "error", "", line, file=compiled.path, facts=Misuse(name=asked[0]))
