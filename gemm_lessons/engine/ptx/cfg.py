"""Builds the control-flow graph: basic blocks in the order in which diverged threads reconverge.

Divergence rule of the machine: among the threads that can run, those at the block with the smallest number run first.
That reconverges structured code if every block of a loop is numbered before the code after the loop. The compiler's
text order mostly has that property; a weak topological order guarantees it (F. Bourdoncle, "Efficient chaotic iteration
strategies with widenings", 1993): strongly connected components in topological order, and each component ordered the
same way inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from gemm_lessons.engine.ptx.records import CLOCKS, Instruction, Kernel, Symbol, Vector
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass

WARP = 32


@dataclass(frozen=True)
class Block:
    """A basic block: instructions that run one after the other. The last instruction may branch.

    ``fallthrough`` is the block that follows in the text (None at the end); ``targets`` are the blocks that a branch
    may lead to.
    """

    number: int
    instructions: tuple[Instruction, ...]
    fallthrough: int | None
    targets: tuple[int, ...]

    @cached_property
    def terminator(self) -> Instruction | None:
        """Return the last instruction if it ends a basic block, else None."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.row.ends_block else None

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """Return the blocks that may run next: the one that follows in the text, then the targets."""
        return self.targets if self.fallthrough is None else (self.fallthrough, *self.targets)


def is_barrier(instruction: Instruction) -> bool:
    """Return whether an instruction is a barrier of (part of) a block."""
    return instruction.row.effect == "barrier" and not (is_cluster_barrier(instruction) or moves_registers(instruction))


def is_cluster_barrier(instruction: Instruction) -> bool:
    """Return whether an instruction is an arrival or a wait at the barrier of a cluster."""
    return instruction.row.name == "barrier.cluster"


def moves_registers(instruction: Instruction) -> bool:
    """Return whether an instruction changes how many registers a thread has, and may wait for that."""
    return instruction.row.name == "setmaxnreg"


def synchronises_warp(instruction: Instruction) -> bool:
    """Return whether it waits for threads of its warp: then it begins a basic block, unless a product precedes it."""
    return bool(instruction.row.warp)


RESULTS = {"vprintf": 3, "malloc": 2}  # function -> the first operand of its call that is a result


def is_product(instruction: Instruction) -> bool:
    """Return whether an instruction is an ``mma`` without a guard. A product that follows another one does not begin a
    basic block, because the lanes of its warps have already converged."""
    return instruction.opcode == "mma" and instruction.guard is None


def lanes_with_address(instruction: Instruction) -> int:
    """Return how many lanes of a warp, from lane 0 on, supply an address: all, or those that ``ldmatrix`` uses."""
    registers = next((len(o.elements) for o in instruction.operands if isinstance(o, Vector)), 1)
    return instruction.row.lanes * registers or WARP


def writes(instruction: Instruction) -> frozenset[str]:
    """Return the registers that an instruction writes; for an unknown opcode, all that it mentions."""
    return (instruction.__dict__.get("_uses") or _uses(instruction))[1]


def reads(instruction: Instruction) -> frozenset[str]:
    """Return the registers that an instruction reads, including its guard."""
    return (instruction.__dict__.get("_uses") or _uses(instruction))[0]


def read_by(kernel: Kernel) -> frozenset[str]:
    """Return the registers that a kernel reads. Memoised in the kernel."""
    known: frozenset[str] | None = kernel.__dict__.get("_read")
    if known is None:
        known = kernel.__dict__["_read"] = frozenset().union(*map(reads, kernel.instructions))
    return known


def acting(kernel: Kernel) -> tuple[Instruction, ...]:
    """Return the instructions of a kernel that do more than compute, a few of all. Memoised in the kernel."""
    known: tuple[Instruction, ...] | None = kernel.__dict__.get("_acting")
    if known is None:
        known = kernel.__dict__["_acting"] = tuple(i for i in kernel.instructions if not i.row.computes)
    return known


def _uses(instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers that an instruction reads and writes. Memoised, since every analysis uses them."""
    row, mentioned = instruction.row, instruction.mentioned
    written = row.writes and row.effect != "unknown"
    guard = () if instruction.guard is None else (instruction.guard.name,)
    read = frozenset(guard).union(*mentioned[1 if written and not row.adds else 0 :])
    if row.effect == "unknown":
        wrote = frozenset().union(*mentioned)
    else:
        wrote = mentioned[0] if row.writes and mentioned else frozenset()
        called = instruction.operands[0] if row.effect == "call" else None
        if isinstance(called, Symbol) and called.name in RESULTS:
            wrote = wrote.union(*mentioned[RESULTS[called.name] :])
    instruction.__dict__["_uses"] = read, wrote
    return read, wrote


def writers(kernel: Kernel) -> dict[str, list[Instruction]]:
    """Return the instructions that write each register; none for a register that is not there."""
    found: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in kernel.instructions:
        for name in writes(instruction):
            found[name].append(instruction)
    return found


def dependents(
    kernel: Kernel, roots: Collection[str], through: Callable[[Instruction], bool] | None = None
) -> set[str]:
    """Return ``roots`` and all registers computed from them; ``through``: by these instructions only."""
    found, before = set(roots), -1
    while len(found) > before:
        before = len(found)
        for it in kernel.instructions:
            if (through is None or through(it)) and not found.isdisjoint(reads(it)):
                found |= writes(it)
    return found


def branch_labels(instruction: Instruction, kernel: Kernel) -> tuple[str, ...]:
    """Return the labels that a branch may lead to."""
    last = instruction.operands[-1]
    if not isinstance(last, Symbol):
        raise UnsupportedKernel(f"branch not understood: {instruction.text}", line_of(instruction))
    if instruction.opcode == "brx":
        if last.name not in kernel.branch_targets:
            raise UnsupportedKernel(f"branch to an unknown table: {instruction.text}", line_of(instruction))
        return kernel.branch_targets[last.name]
    return (last.name,)


def line_of(instruction: Instruction) -> int | None:
    """Return the source line of an instruction, or None if it has none."""
    return instruction.source.line if instruction.source and instruction.source.line else None


def unsupported(instruction: Instruction, why: str = "unsupported PTX") -> UnsupportedKernel:
    """Return the error for an unknown instruction or form."""
    return UnsupportedKernel(f"{why}: {instruction.full_opcode} in `{instruction.text}`", line_of(instruction))


def build(kernel: Kernel) -> tuple[Block, ...]:
    """Return the basic blocks of a kernel. The first one is the entry."""
    count = len(kernel.instructions)
    starts = {0, *(position for position in kernel.labels.values() if position < count)}
    clocks = not CLOCKS.isdisjoint(read_by(kernel))
    converged = False  # whether the warps of the last product also execute the next instruction
    for instruction in kernel.instructions:
        converged = converged and instruction.index not in starts
        waits = synchronises_warp(instruction) and not (converged and is_product(instruction))
        if waits or (clocks and not CLOCKS.isdisjoint(reads(instruction))):  # clocks advance at the end of a block
            starts.add(instruction.index)
        converged = is_product(instruction) or (converged and instruction.row.computes)
        if instruction.row.ends_block and instruction.index + 1 < count:
            starts.add(instruction.index + 1)
    ordered = sorted(starts)
    text_number = {start: number for number, start in enumerate(ordered)}
    bounds = list(zip(ordered, [*ordered[1:], count], strict=True))
    edges: list[tuple[int | None, tuple[int, ...]]] = []
    for number, (_, end) in enumerate(bounds):
        last = kernel.instructions[end - 1] if end else None
        targets: tuple[int, ...] = ()
        falls = number + 1 < len(bounds)
        if last is not None and last.row.effect == "branch":
            targets = tuple(_label_block(kernel, name, text_number, last) for name in branch_labels(last, kernel))
        if last is not None and last.row.effect in ("branch", "end", "stop") and last.guard is None:
            falls = False
        edges.append((number + 1 if falls else None, targets))
    after = {number: [*([f] if f is not None else []), *t] for number, (f, t) in enumerate(edges)}
    order = _weak_topological_order(after)
    rank = {text: number for number, text in enumerate(order)}
    return tuple(
        Block(
            rank[text],
            kernel.instructions[slice(*bounds[text])],
            rank[fall] if (fall := edges[text][0]) is not None else None,
            tuple(rank[target] for target in edges[text][1]),
        )
        for text in order
    )


def _label_block(kernel: Kernel, label: str, text_number: Mapping[int, int], branch: Instruction) -> int:
    position = kernel.labels.get(label)
    if position is None or position not in text_number:
        raise UnsupportedKernel(f"branch to an unknown label: {branch.text}", line_of(branch))
    return text_number[position]


def _weak_topological_order(successors: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the nodes reachable from node 0, with loops contiguous and before the nodes that follow them."""

    def order(entries: Sequence[int], nodes: set[int]) -> list[int]:
        result: list[int] = []
        for component in components(entries, nodes, successors):
            head = component[0]
            result.append(head)
            if len(component) > 1:
                # From all successors of the head at once, so that the join of its branches is numbered after both.
                result.extend(order(successors[head], set(component) - {head}))
        return result

    return order([0], set(range(len(successors))))


def components(
    entries: Iterable[int], nodes: Collection[int], successors: Mapping[int, Iterable[int]]
) -> list[list[int]]:
    """Return the strongly connected components reachable from ``entries`` inside ``nodes``, topologically sorted.

    The first member of each is the node by which the search entered it (Tarjan's algorithm, without recursion).
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    work: list[tuple[int, Iterator[int]]] = []

    def visit(node: int) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        # Larger text positions first: of two independent branches the one earlier in the text is numbered earlier.
        work.append((node, iter(sorted((n for n in successors[node] if n in nodes), reverse=True))))

    def search() -> None:
        while work:
            node, remaining = work[-1]
            for successor in remaining:
                if successor not in index:
                    visit(successor)
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    found.append(component[::-1])

    for entry in sorted((n for n in entries if n in nodes), reverse=True):
        if entry not in index:
            visit(entry)
            search()
    return found[::-1]
