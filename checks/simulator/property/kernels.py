"""Random CUDA kernels, compiled: with and without the machine's optimisations, with counters from their machine code.

The kernels are those of ``checks.simulator.fuzz``, whose results are compared with a GPU's; here whole launches are
compared, findings and counters included, with blocks in batches of several sizes.
"""

from __future__ import annotations

import numpy as np

from checks.simulator import fuzz
from checks.simulator.fuzz import Case
from checks.simulator.property.comparison import Outcome, difference, tricks_off
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid
from gemm_lessons.engine.simulator import Setting, Simulator


def generate(seed: int) -> Case:
    """The kernel of a seed; another seed's if the compiler crashes on it."""
    return fuzz.generate(seed if seed not in fuzz.CRASHES else seed + 1_000_000)


def launch(compiled: Compiled, case: Case, block_limit: int) -> Outcome:
    """One launch on fresh buffers."""
    outputs = case.outputs()
    arguments: list[Argument] = []
    for kind, data in case.inputs().items():
        arguments += [Buffer(f"in_{kind}", data), Buffer(f"out_{kind}", outputs[kind], True)]
    launched = Simulator(Setting(block_limit)).launch(
        compiled, Grid((fuzz.BLOCKS, 1, 1), (case.threads, 1, 1)), arguments
    )
    return Outcome(tuple(np.ascontiguousarray(a).tobytes() for a in outputs.values()), launched)


def check(seed: int) -> str:
    """ "" or the difference between the launches with and without optimisations."""
    case = generate(seed)
    compiled = fuzz.compiled(case)
    ours = launch(compiled, case, 1 + seed % fuzz.BLOCKS)
    with tricks_off():
        theirs = launch(compiled, case, 1)
    return difference(ours, theirs, exact=seed % fuzz.BLOCKS == 0)
