"""Check that a graded kernel does not read machine-dependent registers.

The simulator returns values that one GPU could return. A kernel that branches on such a value could be judged on a path
that it takes nowhere else.
"""

from __future__ import annotations

import re

from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.findings import Finding

ASKED = re.compile(r"%(n?smid|n?warpid|gridid|clock(64|_hi)?|globaltimer(_lo|_hi)?|envreg\d+)\b")
PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)", re.M)


def asking(compiled: Compiled) -> Finding | None:
    """Return a finding for the first register in a kernel's PTX that identifies the machine, the time or the launch.
    Comments are searched too: only inline assembly has them, and a comment may hide there where another begins."""
    asked = ASKED.search(compiled.ptx)
    if asked is None:
        return None
    places = PLACE.findall(compiled.ptx, 0, asked.start())
    line = int(places[-1]) if places else None
    return Finding("machine_dependent", "error", "", line, file=compiled.path, facts=Misuse(name=asked[0]))
