"""Which PTX instructions the simulator runs: the opcode table that ``gemm-lessons opcodes`` prints.

Names of the instruction set: NVIDIA, "PTX ISA" 9.0, chapter 9; of textures and surfaces what objects need.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.simulator.machine import decode
from gemm_lessons.simulator.semantics import table as semantics

# Opcodes that decode.py, machine.py and barriers.py handle themselves, with the forms that they know.
OWN: Mapping[str, str] = {
    "ld": "param global shared local const generic; .v2 .v4; b8 to b128, f16 f32 f64",
    "ldu": "as ld.global",
    "st": "global shared local generic; .v2 .v4; b8 to b128",
    "atom": "global shared generic; add min max and or xor exch cas inc dec",
    "red": "as atom",
    "cp": "async.ca/cg.shared.global 4 8 16 bytes, with zero fill; commit_group, wait_group, wait_all",
    "mov": "registers, special registers, addresses, packing and unpacking",
    "cvta": "global shared local const param, to and from generic",
    "isspacep": "global shared local",
    "bra": "", "brx": "idx", "ret": "", "exit": "", "trap": "", "brkpt": "",
    "call": "device functions (inlined), vprintf (noted), __assertfail",
    "bar": "sync red arrive; warp.sync", "barrier": "sync red arrive",
    "tex": "1d 2d 3d a1d a2d, level, grad; .v4; of objects with one level",
    "suld": "b.1d 2d 3d a1d a2d; .v2 .v4; trap clamp zero", "sust": "as suld",
    "shfl": "sync up down bfly idx", "vote": "sync all any uni ballot", "match": "sync any all", "activemask": "",
    "redux": "sync add min max and or xor", "elect": "sync",
}  # fmt: skip

INSTRUCTION_SET = (
    "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx"
    " call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2"
    " exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc"
    " mapa match max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc"
    " prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin"
    " slct sqrt st stackrestore stacksave stmatrix sub subc szext tanh tcgen05 tensormap testp trap vabsdiff"
    " vadd vmad vmax vmin vote vset vshl vshr vsub wgmma wmma xor"
).split()


def supported() -> dict[str, str]:
    """Opcode -> which forms of it run."""
    forms: dict[str, list[str]] = {}
    for name in semantics.supported():
        opcode, _, rest = name.partition(".")
        forms.setdefault(opcode, []).append(rest)
    table = {opcode: f"{len(known)} forms" for opcode, known in forms.items()}
    table |= dict.fromkeys(decode.NO_EFFECT, "no effect on one block at a time")
    return dict(sorted({**table, **OWN}.items()))


def unsupported() -> tuple[str, ...]:
    """Opcodes of the instruction set that end a run at decode."""
    return tuple(opcode for opcode in INSTRUCTION_SET if opcode not in supported())
