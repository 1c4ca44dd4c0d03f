"""Runs the whole machine code of small kernels: every instruction is executed, and its stores write memory.

The simulator itself executes only the machine code that addresses and branches depend on. Here all of it is executed,
so that each form of a machine instruction can be compared with the PTX that ptxas made it from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.readings.simulator import record_semantics as recorder
from checks.simulator import semantics_cases as cases
from gemm_lessons.engine.compiler import cubin, elf, sass
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.records.launch import Buffer, Grid
from gemm_lessons.engine.sass.flow import Listing
from gemm_lessons.engine.sass.lanes import Geometry, launch_constants
from gemm_lessons.engine.sass.memory_contents import Store
from gemm_lessons.engine.sass.operands import Decoded, decode
from gemm_lessons.engine.sass.planning import Plan
from gemm_lessons.engine.sass.useful_work import useful_work
from gemm_lessons.engine.sass.walker import Walker

Array = np.ndarray[Any, Any]
Case = tuple[str, int]  # full name of a PTX instruction, number of destinations


class Writing(Store):
    """A store that writes global memory, where the simulator only notes what was written."""

    def _mark(self, d: Decoded, lanes: Any, width: int) -> Any:
        return self._save(d, lanes, "global", width)


@dataclass(frozen=True)
class Cubin:
    """The kernels of one compilation, decoded."""

    compiled: Compiled
    parts: Sequence[elf.Section]
    kernels: Mapping[str, tuple[sass.SassInstruction, ...]]

    @staticmethod
    def of(compiled: Compiled) -> Cubin:
        """Disassemble all kernels of a compilation at once."""
        kernels = {}
        for entry, lines in sass._sections(sass.disassemble(compiled.cubin)).items():
            instructions: list[sass.SassInstruction] = []
            sass._parse_section(lines, instructions, {})
            kernels[entry] = tuple(instructions)
        return Cubin(compiled, elf.sections(compiled.cubin), kernels)

    def run(self, entry: str, grid: Grid, arrays: Sequence[Array], scalars: bytes = b"") -> list[Array]:
        """Launch a kernel on copies of ``arrays``, one pointer each, followed by ``scalars`` as raw bytes. The copies
        afterwards."""
        code = tuple(decode(index, one) for index, one in enumerate(self.kernels[entry]))
        labels = {label: d.index for d in code for label in d.source.labels}
        listing = Listing(code, labels)
        spaces = frozenset(("global", "shared", "local"))
        plan = Plan(listing, (True,) * len(code), spaces, useful_work(listing))
        buffers = [Buffer(str(i), np.array(array), output=True) for i, array in enumerate(arrays)]
        memory = GlobalMemory(buffers, ())
        offset = cubin.parameter_offset(list(self.parts), entry)
        assert offset is not None
        parameters = b"".join(memory.address_of(b).to_bytes(8, "little") for b in buffers) + scalars
        constants = {
            **cubin.constant_banks(list(self.parts), entry),
            **launch_constants(grid, offset, parameters, self.compiled.arch),
        }
        store = Writing(memory, 8192, 1024)
        Walker(plan, Geometry(grid, 0, grid.blocks), constants, Sums(), store).run()
        memory.write_back()
        return [buffer.array for buffer in buffers]

    def forms(self, entry: str) -> set[str]:
        """Opcodes with their modifiers."""
        return {one.opcode for one in self.kernels[entry]}


def kernel(entry: str, name: str, results: int) -> str:
    """The recorder's PTX kernel of a case, as one line of CUDA C++ with its body in inline assembly."""
    text = recorder.kernel(entry, name, results)
    head, _, body = text.partition("{")
    count = head.count(".param")
    body = body.rpartition("ret;")[0].replace("%", "%%")
    for i in reversed(range(count)):
        body = body.replace(f"ld.param.u64 %%a, [p{i}];", f"mov.b64 %%a, %{i};")
    lines = "\\n".join(line.strip() for line in body.strip().splitlines())
    parameters = ", ".join(f"unsigned long long p{i}" for i in range(count))
    inputs = ", ".join(f'"l"(p{i})' for i in range(count))
    body = f'asm volatile("{{{lines}}}" :: {inputs} : "memory");'
    return f'extern "C" __global__ void {entry}({parameters}) {{ {body} }}\n'


def modules(chosen: Sequence[Case], arch: str, size: int = 200) -> Iterator[tuple[Cubin, dict[Case, str]]]:
    """Compilations of up to ``size`` cases, each with case -> entry; without cases that ``arch`` does not support."""
    for start in range(0, len(chosen), size):
        part = list(chosen[start : start + size])
        while part:
            source = "".join(kernel(f"k{i}", *case) for i, case in enumerate(part))
            found = compile_source(source, path="cases.cu", entry="k0", arch=arch)
            if isinstance(found, Compiled):
                yield Cubin.of(found), {case: f"k{i}" for i, case in enumerate(part)}
                break
            refused = {d.line for d in found.diagnostics}
            assert refused, found.log
            part = [case for i, case in enumerate(part) if i + 1 not in refused]


def answer(code: Cubin, entry: str, name: str, results: int) -> list[Array]:
    """The results of a case's machine code on the case's operands: raw rows, as the recorder keeps them."""
    operation = cases.operation_of(name, results)
    rows = cases.operands(name, operation)
    sources = [row for row in rows if row.shape]
    spare = [sources[0]] * (len(rows) - len(sources))
    outs = [np.zeros(cases.LANES, np.dtype(d)) for d in cases.result_dtypes(operation)]
    done = code.run(entry, Grid((1, 1, 1), (cases.LANES, 1, 1)), [*sources, *spare, *outs])
    return [recorder.raw(row) for row in done[-len(outs) :]]
