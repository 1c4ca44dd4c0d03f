"""Data flow and control flow of machine instructions: registers written and read, and successors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from gemm_lessons.engine.compiler.sass import width_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.operands import Constant, Decoded, MachineRegister, Memory, Operand, Target, Uncountable
from gemm_lessons.engine.sass.textures import FETCHES, filled

LOADS: Mapping[str, str] = {"LDG": "global", "LDS": "shared", "LDL": "local", "LDSM": "shared", "LD": "generic"}
STORES: Mapping[str, str] = {"STG": "global", "STS": "shared", "STL": "local", "STSM": "shared", "ST": "generic"}
ATOMICS: Mapping[str, str] = {"ATOM": "global", "ATOMG": "global", "RED": "global", "REDG": "global", "ATOMS": "shared"}
COPIES: Mapping[str, str] = {"LDGSTS": "shared"}  # cp.async: reads global, writes shared
# Copies by the async proxy, which are not loads or stores: into shared memory, out of it; and related instructions.
BULK_IN, BULK_OUT = frozenset({"UBLKCP", "UTMALDG"}), frozenset({"UBLKCP", "UBLKRED", "UTMASTG", "UTMAREDG"})
BULK = BULK_IN | BULK_OUT | {"UTMACMDFLUSH", "UTMACCTL", "UTMAPF", "UBLKPF"}
# Stores to another block of the cluster that report to an mbarrier there: st.async, red.async.
TO_OTHERS = frozenset({"STAS", "REDAS"})
# Operations on mbarriers: init, arrive, test, invalidate.
_PHASES = "EXCH 64 ARRIVE TRANS64 A1T0 ART0 A0T1 A0TR A0TX RED OPTOUT PHASECHK TRYWAIT CCTL IV".split()
# Operations on mbarriers, copies of boxes, and stores that report to mbarriers of other blocks.
SIGNALS = frozenset({"SYNCS", "UTMALDG", "UTMASTG", *TO_OTHERS})
TEXTURE = "texture"  # global memory, read through the texture unit
MEMORY: Mapping[str, str] = {**LOADS, **STORES, **ATOMICS, **COPIES, **dict.fromkeys(FETCHES, TEXTURE)}
GENERIC = "generic"  # global or shared memory, depending on each lane's address

# These write no register.
SILENT = frozenset(
    "BRA BRX JMP EXIT RET CALL BAR BSSY BSYNC BREAK BPT NOP YIELD WARPSYNC NANOSLEEP MEMBAR ERRBAR CGAERRBAR CCTL "
    "CCTLL DEPBAR LDGDEPBAR ARRIVES PMTRIG KILL FENCE ACQBULK ENDCOLLECTIVE PREEXIT WARPGROUP "
    "UCGABAR_ARV UCGABAR_WAIT".split()
) | {*STORES, *COPIES, *BULK, *TO_OTHERS, "RED", "REDG"}
# These write only predicates, as many as named.
PREDICATES_ONLY: Mapping[str, int] = {
    "ISETP": 2, "FSETP": 2, "DSETP": 2, "HSETP2": 2, "PLOP3": 2, "UISETP": 2, "UPLOP3": 2, "PSETP": 2, "FCHK": 1,
}  # fmt: skip
# After the register, up to this many predicates are written (carries, votes).
CARRIES: Mapping[str, int] = {
    "IADD": 1, "IADD3": 2, "UIADD3": 2, "LEA": 1, "ULEA": 1, "IMAD": 1, "UIMAD": 1, "VOTE": 1, "VOTEU": 1,
    "B2R": 1, "VIMNMX": 2,
}  # fmt: skip
VOTED = "BAR.RED"  # pseudo register: the result of a barrier's vote, read by B2R.RESULT
PAIRS = frozenset("DADD DFMA DMUL".split())  # two registers each, results and sources
# Two registers each with these modifiers, since compute capability 10.
WIDE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("IADD", "UIADD3", "MOV", "UMOV", "SEL", "USEL"), ("64",)),
    **dict.fromkeys(("ISETP", "UISETP", "IMNMX"), ("S64", "U64")),
}  # fmt: skip
# Modifiers of memory instructions that are known not to change what is moved or how often.
_CACHE = "E SYS GPU SM CTA STRONG WEAK PRIVATE MMIO CONSTANT EF EL EU LU NA LTC64B LTC128B LTC256B".split()
_WIDTHS = "U8 S8 U16 S16 64 128".split()
_ATOMIC = (
    "ADD MIN MAX INC DEC AND OR XOR EXCH CAS CAST SPIN POPC 32 64 128 S32 U32 S64 U64 F32 F64 F16x2 BF16x2 F32x2 F32x4 "
    "FTZ RN E SYS GPU SM CTA STRONG".split()
)
MODIFIERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("LDG", "STG", "LDL", "STL", "LD", "ST"), frozenset((*_CACHE, *_WIDTHS))),
    **dict.fromkeys(("LDS", "STS"), frozenset(("U", *_WIDTHS))),
    **dict.fromkeys(("LDSM", "STSM"), frozenset("16 M88 MT88 1 2 4".split())),
    "LDGSTS": frozenset((*_CACHE, *_WIDTHS, "BYPASS", "ACCESS", "ZFILL")),
    **dict.fromkeys(ATOMICS, frozenset(_ATOMIC)),
    "SYNCS": frozenset(_PHASES),
}
ONE = frozenset(
    "MOV UMOV IADD IADD3 UIADD3 VIADD IABS LEA ULEA IMAD UIMAD LOP3 ULOP3 SHF USHF SEL USEL FSEL PRMT UPRMT VIMNMX "
    "IMNMX POPC UPOPC FLO UFLO BREV UBREV BMSK UBMSK SGXT USGXT IDP S2R S2UR R2UR P2R UP2UR VOTE VOTEU SHFL MATCH "
    "REDUX I2I FADD FMUL FFMA FMNMX MUFU HFMA2 HADD2 HMUL2 HMNMX2 HSET2 FSET F2FP I2FP I2IP VABSDIFF VABSDIFF4 "
    "FSWZADD VIADDMNMX VIMNMX3 QSPC MOVM B2R ELECT".split()
)
# Modifiers with which the result, or the sources, take two registers. For F2F, their order decides.
CONVERSIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "F2F": ((), ()), "F2I": (("S64", "U64"), ("F64",)), "I2F": (("F64",), ("S64", "U64")), "FRND": (("F64",), ("F64",)),
}  # fmt: skip
MOST_NODES = 20_000  # instructions; those of functions count once per call
TEXTURES = frozenset("TEX TLD4 TXD TXQ TMML SULD SUST SUATOM SURED SUQ".split())
ROWS_WAVEFRONTS, COLUMNS_OF_A_WAVEFRONT = 4, 16  # 16 rows of 32 bytes; a quarter of as many columns of 32 bytes
WARPGROUP = frozenset("HGMMA IGMMA QGMMA".split())  # products of a warpgroup; each of its warps executes them
MATRIX = frozenset("HMMA IMMA DMMA BMMA QMMA".split()) | WARPGROUP


def results(d: Decoded) -> tuple[tuple[str, ...], int]:
    """Return the registers that ``d`` writes ("" for RZ and PT), and how many of its operands name them.

    The result is cached on ``d``. Raise ``Uncountable`` for an unknown instruction.
    """
    known: tuple[tuple[str, ...], int] | None = d.__dict__.get("_results")
    if known is None:
        known = d.__dict__["_results"] = _results(d)
    return known


def _results(d: Decoded) -> tuple[tuple[str, ...], int]:
    if d.name in MODIFIERS and not MODIFIERS[d.name].issuperset(d.modifiers):
        raise Uncountable(f"unknown instruction {d.text}")
    if d.name in TEXTURES:
        raise Uncountable(f"textures and surfaces are not followed: {d.text}")
    if d.name in FETCHES:
        return filled(d), 2
    if d.name == "BAR" and d.has("RED"):
        return (VOTED,), 0
    if d.name in SILENT or (d.name == "BMOV" and d.text.split()[1:2] == ["RZ,"]):
        return (), 0
    if d.name == "BMOV":  # between a convergence barrier and a register
        target = d.operands[0]
        return (() if isinstance(target, MachineRegister) and target.file == "B" else (_name(target),)), 1
    if d.name == "SYNCS":
        return _of_phase(d)
    if d.name == "USETMAXREG":  # TRY_ALLOC: whether there were enough registers
        return tuple(_name(it) for it in d.operands[:-1]), len(d.operands) - 1
    if d.name == "R2P":
        mask = d.operands[2]
        return tuple(f"P{i}" for i in range(7) if getattr(mask, "bits", 0x7F) >> i & 1), 1
    if d.name in PREDICATES_ONLY:
        count = PREDICATES_ONLY[d.name]
        return tuple(o.shifted(0) for o in d.operands[:count] if isinstance(o, MachineRegister)), count
    if d.name in ("VOTE", "VOTEU") and _is_predicate(d.operands[0]):  # VOTE.ANY P0, P1
        return (_name(d.operands[0]),), 1
    written: list[str] = []
    count = 0
    while count < len(d.operands) and _is_predicate(d.operands[count]):  # LOP3.LUT P0, R1, ...; SHFL.IDX P0, R1, ...
        written.append(_name(d.operands[count]))
        count += 1
    if count == len(d.operands) or not isinstance(d.operands[count], MachineRegister):
        raise Uncountable(f"unknown instruction {d.text}")
    target = d.operands[count]
    assert isinstance(target, MachineRegister)
    written += [target.shifted(i) for i in range(_registers_written(d))]
    count += 1
    extra = CARRIES.get(d.name, 0)
    while extra and count < len(d.operands) and _is_predicate(d.operands[count]):
        written.append(_name(d.operands[count]))
        count += 1
        extra -= 1
    return tuple(written), count


def _of_phase(d: Decoded) -> tuple[tuple[str, ...], int]:
    """Return what an operation on an mbarrier writes: whether the phase has completed, or the state."""
    target = d.operands[0]
    if not isinstance(target, MachineRegister):
        return (), 0
    if target.is_predicate:
        return (target.shifted(0),), 1
    return (target.shifted(0), target.shifted(1)), 1


def _is_predicate(operand: Operand) -> bool:
    return isinstance(operand, MachineRegister) and operand.is_predicate and not operand.negated


def _name(operand: Operand) -> str:
    return operand.shifted(0) if isinstance(operand, MachineRegister) else ""


def _registers_written(d: Decoded) -> int:
    if d.name in ("LD", "LDG", "LDS", "LDL", "LDSM", "LDC", "ULDC", "ATOM", "ATOMG", "ATOMS"):
        return max(1, width_of(d.source.opcode) // 4)
    if d.name == "CS2R":
        return 1 if d.has("32") else 2
    if d.name == "LEPC":
        return 2
    if d.name in PAIRS or d.has(*WIDE.get(d.name, ())) or (d.name in ("IMAD", "UIMAD") and d.has("WIDE")):
        return 2
    if d.name in MATRIX:
        return _registers_of_product(d)
    if d.name in CONVERSIONS:
        wide = d.modifiers[:1] == ("F64",) if d.name == "F2F" else d.has(*CONVERSIONS[d.name][0])
        return 2 if wide else 1
    if d.name in ONE:
        return 1
    raise Uncountable(f"unknown instruction {d.text}")


def tensor_products(d: Decoded) -> int:
    """Return the multiply-adds of a tensor-core instruction per warp, from its name: 16816 or 16x8x16."""
    if d.name in WARPGROUP:
        _, n, k = _sizes(d)
        return 16 * n * k
    shape = d.modifiers[0] if d.name in ("HMMA", "IMMA", "DMMA") and d.modifiers else ""
    match = re.fullmatch(r"(8|16)x?8x?(\d+)", shape)
    return int(match[1]) * 8 * int(match[2]) if match else 0


def tile_wavefronts(d: Decoded) -> int:
    """Return the wavefronts of shared memory that a warp needs for its part of a warpgroup's tiles: its rows of A,
    unless they are in registers, and a quarter of B."""
    if d.name not in WARPGROUP:
        return 0
    n = _sizes(d)[1]
    first = d.text.partition(",")[2].strip()
    return (0 if first.startswith("R") else ROWS_WAVEFRONTS) + -(-n // COLUMNS_OF_A_WAVEFRONT)


def _registers_of_product(d: Decoded) -> int:
    """Return the registers per lane of a result: 8 or 16 rows and 8 columns, or a warp's 16 rows of a warpgroup's."""
    if d.name in WARPGROUP:
        return _sizes(d)[1] // (4 if d.modifiers[1] == "F16" else 2)
    shape = d.modifiers[0] if d.modifiers else ""
    if d.name == "DMMA":
        return 4 if shape in ("8x8x4", "884") else 8
    if d.name == "IMMA" and shape.startswith("88"):
        return 2
    return 2 if d.name == "HMMA" and d.modifiers[1:2] == ("F16",) and shape != "884" else 4


def columns_of(d: Decoded) -> int:
    """Return n of a warpgroup's product."""
    return _sizes(d)[1]


def _sizes(d: Decoded) -> tuple[int, int, int]:
    """Return m, n, k of a warpgroup's product: ``HGMMA.64x128x16.F32.BF16``."""
    m, n, k = map(int, d.modifiers[0].split("x"))
    return m, n, k


def _registers_read(d: Decoded, position: int) -> int:
    """Return how many registers the source at ``position`` covers if it names a plain register."""
    if d.name in PAIRS or d.name == "DSETP" or d.has(*WIDE.get(d.name, ())):
        return 2
    if d.name in ("IMAD", "UIMAD"):
        return 2 if d.has("WIDE", "HI") and position == 2 else 1
    if d.name in CONVERSIONS:
        wide = "F64" in d.modifiers[1:] if d.name == "F2F" else d.has(*CONVERSIONS[d.name][1])
        return 2 if wide else 1
    return 4 if d.name in MATRIX else 1


def reads(d: Decoded) -> tuple[str, ...]:
    """Return the registers that the value of ``d`` depends on: guard, sources, address; not the data of a store.

    The result is cached on ``d``.
    """
    known: tuple[str, ...] | None = d.__dict__.get("_reads")
    if known is None:
        known = d.__dict__["_reads"] = _reads(d)
    return known


def _reads(d: Decoded) -> tuple[str, ...]:
    skip = results(d)[1]
    names = [d.guard.shifted(0)] if d.guard else []
    if d.name == "B2R":
        names.append(VOTED)
    if d.name == "R2UR" and d.has("OR"):
        names.append(_name(d.operands[0]))
    if d.name == "P2R":
        names += [f"P{i}" for i in range(7)]
    if d.name == "SYNCS":  # the phase test always succeeds here, whatever state or parity it names
        return tuple(names)
    for position, operand in enumerate(d.operands[skip:]):
        if isinstance(operand, Memory):
            is_global = position > 0 if d.name in COPIES else MEMORY.get(d.name) in ("global", GENERIC)
            names += [  # 64 bits of a global address, although compute capability 7.x names only the lower 32
                name
                for register in operand.registers
                for name in operand_registers(register, 2 if is_global and not register.suffix else 1)
            ]
            if d.name in MEMORY and d.name not in COPIES:
                break  # the data follows the address
            continue
        names += operand_registers(operand, _registers_read(d, position))
    return tuple(name for name in names if name)


def signalled(d: Decoded) -> tuple[str, ...]:
    """Return the registers that identify the mbarrier and the signal.

    For a copy into shared memory: the registers after that of its target, which hold the mbarrier and the box, and
    those of the tensor map and of the mask of blocks. For a copy out of shared memory: those of the tensor map.
    """
    names = [d.guard.shifted(0)] if d.guard else []
    if d.name == "UTMALDG" and isinstance(d.operands[0], Memory):
        names += [register.shifted(i) for register in d.operands[0].registers for i in range(1, 2 + dimensions(d))]
    if d.name in ("UTMALDG", "UTMASTG") and len(d.operands) > 1 and isinstance(d.operands[1], Memory):
        names += [register.shifted(0) for register in d.operands[1].registers]
        names += [name for mask in d.operands[2:] if d.has("MULTICAST") for name in operand_registers(mask)]
    elif d.name == "SYNCS":
        names += [name for operand in d.operands[results(d)[1] :] for name in operand_registers(operand)]
    elif d.name in TO_OTHERS and isinstance(d.operands[0], Memory):
        names += [register.shifted(i) for register in d.operands[0].registers for i in range(2)]
    return tuple(name for name in names if name)


def dimensions(d: Decoded) -> int:
    """Return the number of coordinates of a box: 2 for ``UTMALDG.2D``."""
    return next((int(word[0]) for word in d.modifiers if re.fullmatch(r"[1-5]D", word)), 0)


def stored(d: Decoded) -> tuple[str, ...]:
    """Return the registers of the data that a store, reduction or atomic sends to memory."""
    found = False
    names: list[str] = []
    for operand in d.operands:
        if found:
            names += operand_registers(operand, max(1, width_of(d.source.opcode) // 4))
        found = found or isinstance(operand, Memory)
    return tuple(name for name in names if name)


def mask(bits: dict[str, int], names: Iterable[str]) -> int:
    """Return registers as an integer, without empty names. ``bits``: the bit of each register; others get the next."""
    found = 0
    for name in names:
        if name in bits:
            found |= bits[name]
        elif name:
            found |= bits.setdefault(name, 1 << len(bits))
    return found


def operand_registers(operand: Operand, count: int = 1) -> tuple[str, ...]:
    """Return the registers that an operand covers; ``count`` consecutive ones for a plain register.

    The result is cached on the operand, because instructions with equal operands share one object.
    """
    known: dict[int, tuple[str, ...]] = operand.__dict__.setdefault("_registers", {})
    if count not in known:
        known[count] = _operand_registers(operand, count)
    return known[count]


def _operand_registers(operand: Operand, count: int) -> tuple[str, ...]:
    if isinstance(operand, MachineRegister):
        wide = 1 if operand.is_predicate else 2 if operand.suffix == "64" else count
        return tuple(operand.shifted(i) for i in range(wide))
    if isinstance(operand, Memory):
        return tuple(name for register in operand.registers for name in operand_registers(register))
    if isinstance(operand, Constant) and operand.index is not None:
        return (operand.index.shifted(0),)
    return ()


@dataclass(frozen=True)
class Listing:
    """The decoded instructions of one kernel, and the instruction index of every label."""

    code: tuple[Decoded, ...]
    labels: Mapping[str, int]  # label or function -> index of its first instruction

    def target(self, d: Decoded) -> int:
        """Return the target of a branch. Raise ``Uncountable`` if it is computed at run time."""
        for operand in d.operands:
            if isinstance(operand, Target):
                if operand.name in self.labels:
                    return self.labels[operand.name]
                raise Uncountable(f"the kernel calls {operand.name}, which is not part of it")
        raise Uncountable(f"unknown branch {d.text}")

    @cached_property
    def after(self) -> tuple[list[int], ...]:
        """Return the indices that may execute after each instruction. Raise ``Uncountable`` for an unknown branch."""
        return tuple(self._successors(d) for d in self.code)

    @cached_property
    def calls(self) -> tuple[Decoded, ...]:
        """Return the calls of functions that are part of the kernel."""
        return tuple(d for d in self.code if d.name == "CALL" and not calls_outside(d))

    def _successors(self, d: Decoded) -> list[int]:
        after = [d.index + 1] if d.index + 1 < len(self.code) else []
        conditional = d.guard is not None or any(isinstance(o, MachineRegister) for o in d.operands)
        if d.name == "BRA":
            return [self.target(d), *(after if conditional or d.has("DIV", "CONV") else [])]
        if calls_outside(d):
            return after
        if d.name == "CALL":
            return [self.target(d), *(after if d.guard else [])]
        if d.name == "RET":
            return [*(call.index + 1 for call in self.calls), *(after if d.guard else [])]
        if d.name in ("EXIT", "KILL") or (d.name == "BPT" and d.has("TRAP")):
            return after if conditional else []
        if d.name == "BRX":  # one of a table's entries: each of them has a label
            return sorted({*self.labels.values(), *(after if d.guard else [])})
        if d.name in ("JMP", "JMX", "BRXU", "BPT"):
            raise Uncountable(f"unknown branch {d.text}")
        return after


def calls_outside(d: Decoded) -> bool:
    """Return whether ``d`` calls code outside the kernel, through a register, as assert and printf do.

    That code is unknown; a call that is never executed is no obstacle.
    """
    return d.name == "CALL" and d.has("ABS") and not any(isinstance(o, Target) for o in d.operands)


def call_by_call(program: Listing) -> tuple[list[int], list[list[int]]] | None:
    """Return the reachable instructions, those of functions once per call, and the successors of each.

    Return None if functions call functions or are entered in another way. All calls are then treated as one.
    """
    if not program.calls:
        return list(range(len(program.code))), list(program.after)
    following: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (instruction, return address of its function or -1)
    work = [(0, -1)]
    while work:
        node = index, back = work.pop()
        if node in following:
            continue
        d = program.code[index]
        if d.name == "RET" or (d.name == "CALL" and not calls_outside(d)):
            if (back >= 0) == (d.name == "CALL"):
                return None
            past = [(index + 1, back)] if d.guard is not None and index + 1 < len(program.code) else []
            following[node] = [(back, -1) if d.name == "RET" else (program.target(d), index + 1), *past]
        else:
            following[node] = [(successor, back) for successor in program.after[index]]
        if len(following) > MOST_NODES or any(i >= len(program.code) for i, _ in following[node]):
            return None
        work.extend(following[node])
    nodes = sorted(following)
    place = {node: number for number, node in enumerate(nodes)}
    return [index for index, _ in nodes], [[place[after] for after in following[node]] for node in nodes]
