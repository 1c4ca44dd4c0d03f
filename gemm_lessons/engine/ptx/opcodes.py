"""The table of opcodes: one row per family of PTX instructions, with every property that other modules rely on.

    row --> operand_check (operands), cfg (registers, basic blocks), schedule, anticipated, provenance,
            synchronising_accesses; machine: decode (the function that binds it), unset (undefined bits), spin_waits;
            checkers, second opinion

A row is found by an opcode and its first modifier (``cp.async``), or by the opcode alone. Most opcodes that only
compute have their functions in ``semantics`` and need a row only for properties that make other modules faster or more
exact. Any other opcode is bound by its function in ``machine/decode.py: BINDERS``. An opcode without a row is
``UNKNOWN``: nothing is moved past it, every register in it counts as read and as written, and a kernel with it is not
run.

Names of the instruction set: NVIDIA, "PTX ISA" 9.0, chapter 9; of textures and surfaces, those for objects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import Literal

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics import table as semantics

Effect = Literal[
    "compute",  # from registers to registers, without other effects
    "load", "store", "atomic", "copy",  # access memory by addresses
    "image",  # accesses texture and surface objects
    "exchange",  # exchanges values between the lanes of a warp
    "meet",  # the threads of a warp wait for each other
    "barrier",  # threads of a block or cluster wait for each other, and the basic block ends
    "fence",  # orders memory; the machine executes memory accesses in order anyway
    "group",  # orders asynchronous products, or changes a tensor map
    "phase",  # an operation on an mbarrier, or a fence for copies by the async proxy
    "pause",  # lets other threads run first
    "hint",  # without effect on results
    "branch", "end", "stop",  # ends the basic block: by a jump, with the thread, with the kernel
    "call",  # printf, assert, malloc and free, which remain after inlining
    "unknown",
]  # fmt: skip
NOTHING_TO_DO = frozenset({"fence", "pause", "hint"})
ENDS_BLOCK = frozenset({"barrier", "branch", "end", "stop"})
# How undefined bits propagate (``machine/undefined.py`` and ``unset.py``).
Undefined = Literal[
    "spread",  # any undefined source bit makes the result undefined; in packed pairs, the same half
    "moved", "upwards", "bitwise", "compared", "chosen",  # bit by bit, by the rule of that name
    "copied", "shuffled", "voted", "multiplied",  # with the value; by lane; by warp; by rows and columns
    "accumulated",  # by rows, where the instruction adds to its first operand
    "used",  # an undefined source bit is a finding; the result is defined
    "untracked",  # its registers are not tracked
    "ignored",
]  # fmt: skip
# What the result is if a source is the address of an array.
Pointer = Literal[
    "lost",
    "kept", "converted",  # the same address; the address in another space
    "added", "joined", "subtracted", "chosen", "last",  # a + b, a | b, a - b, one of the two, a * b + c
    "index",  # the result may be an index, but not an address
    "none",  # a predicate
]  # fmt: skip
# FFMA of machine code: ptxas contracts a multiplication with an addition and adds by multiplying with 1; divisions,
# roots and similar functions become short sequences of instructions.
JOINED, PROGRAM = 1, 24


@dataclass(frozen=True)
class Opcode:
    """A row of the table.

    ``operands``: a regular expression over one letter per operand, r(egister) i(mmediate) s(ymbol) a(ddress) v(ector)
    p(redicate pair); None: the binding function, or the table of semantics, defines them. ``writes``: the first operand
    is the result. ``vector``: the modifier that counts the elements of a vector (``v``: v2, ``x``: x4), or ``cut``: one
    register in pieces, ``any``: checked elsewhere. ``warp``: the instruction is executed together by the whole warp
    (``all``), or by the lanes that the last operand names (``mask``). ``lanes``: how many lanes of a warp supply an
    address for each result register (0: each lane supplies one). ``moved``: positions of the operands whose bits it
    moves. ``adds``: the first operand is also a source. ``ffma``: the largest number of FFMA that ptxas may compile it
    to. ``forms``: the text of ``gemm-lessons opcodes``.
    """

    name: str
    effect: Effect
    operands: str | None = None
    writes: bool = True
    vector: Literal["", "v", "x", "cut", "any"] = ""
    warp: Literal["", "mask", "all"] = ""
    lanes: int = 0
    undefined: Undefined = "used"
    moved: tuple[int, ...] = ()
    pointer: Pointer = "lost"
    ffma: int = 0
    adds: bool = False
    forms: str = ""

    def __reduce__(self) -> tuple[Callable[[str, str], Opcode], tuple[str, str]]:
        """Pickle a row by its name."""
        opcode, _, modifier = self.name.partition(".")
        return row_of, (opcode, modifier)

    @cached_property
    def shape(self) -> re.Pattern[str] | None:
        """Return ``operands``, compiled."""
        return None if self.operands is None else re.compile(self.operands)

    @property
    def computes(self) -> bool:
        """Return whether the instruction computes registers from registers and has no other effect."""
        return self.effect == "compute"

    @property
    def ends_block(self) -> bool:
        """Return whether the instruction ends a basic block."""
        return self.effect in ENDS_BLOCK


UNKNOWN = Opcode("", "unknown")


def _compute(
    name: str, undefined: Undefined = "spread", pointer: Pointer = "lost", *, moved: tuple[int, ...] = (), ffma: int = 0
) -> Opcode:
    """Return the row of an opcode whose functions are in ``semantics``."""
    return Opcode(name, "compute", undefined=undefined, moved=moved, pointer=pointer, ffma=ffma)


def _silent(name: str, effect: Effect, operands: str | None = None, forms: str = "", **more: str | int) -> Opcode:
    """Return the row of an opcode without a result."""
    row = Opcode(name, effect, operands, writes=False, forms=forms)
    return replace(row, **more)  # type: ignore[arg-type]


_BARRIER = "[rip]{0,4}"
_NO_EFFECT = "no effect on one block at a time"
_ROWS = (
    # -- memory
    Opcode("ld", "load", "[rv]ar?", vector="v",
           forms="param global shared local const generic; .v2 .v4; b8 to b128, f16 f32 f64"),
    Opcode("ldu", "load", "[rv]a", vector="v", forms="as ld.global"),
    _silent("st", "store", "a[risv]r?", "global shared local generic; .v2 .v4; b8 to b128", vector="v"),
    Opcode("atom", "atomic", "[rv]a[riv]{1,2}r?", vector="any",
           forms="global shared generic; add min max and or xor exch cas inc dec; .v2 .v4 f32 add on global memory;"
           " b128 exch cas"),
    _silent("red", "atomic", "a[riv]{1,2}r?", "as atom", vector="any"),
    _silent("cp.async", "copy",
            forms="async.ca/cg.shared.global 4 8 16 bytes, with zero fill; commit_group, wait_group, wait_all;"
            " async.mbarrier.arrive; async.bulk and async.bulk.tensor.1d to 5d (tiles) between shared and global"
            " memory, multicast::cluster; async.bulk to another block of the cluster"),
    _silent("cp.reduce", "copy",
            forms="reduce.async.bulk and reduce.async.bulk.tensor to global memory, but of 16-bit floats"),
    _silent("st.async", "copy", "a[risv]a", "async: to shared memory of the cluster, .v2 .v4; b32 to b64, f32 f64",
            vector="v"),
    _silent("red.async", "copy", "a[ri]a", "async, as st.async: add min max and or xor inc dec; u32 s32 u64 b32"),
    *(_silent(f"mbarrier.{what}", "phase", "a[ri]?", what)
      for what in ("init", "inval", "expect_tx", "complete_tx")),
    *(Opcode(f"mbarrier.{what}", "phase", operands, forms=what)
      for what, operands in (("arrive", "[rs]a[ri]?"), ("arrive_drop", "[rs]a[ri]?"), ("test_wait", "ra[ri]"),
                             ("try_wait", "ra[ri][ri]?"), ("pending_count", "r[ri]"))),
    Opcode("ldmatrix", "load", "va", vector="x", warp="all", lanes=8,
           forms="sync.aligned.m8n8.x1/x2/x4.b16, .trans; shared generic"),
    _silent("stmatrix", "store", "a[rv]", "as ldmatrix", vector="x", warp="all", lanes=8),
    Opcode("tex", "image", forms="1d 2d 3d a1d a2d, level, grad; .v4; of objects with one level"),
    Opcode("tld4", "image", forms="r g b a; 2d a2d; .v4; of objects with one level"),
    Opcode("txq", "image", "ra", forms="width height depth"),
    Opcode("suld", "image", forms="b.1d 2d 3d a1d a2d; .v2 .v4; trap clamp zero"),
    _silent("sust", "image", forms="as suld"),
    # -- the lanes of a warp
    Opcode("shfl.sync", "exchange", "[rp][ri]{3,4}", warp="mask", undefined="shuffled",
           forms="sync up down bfly idx"),
    Opcode("vote.sync", "exchange", "r[rip]{1,2}", warp="mask", undefined="voted",
           forms="sync all any uni ballot"),
    Opcode("match", "exchange", "[rp][ri]{1,2}", warp="mask", undefined="voted", forms="sync any all"),
    Opcode("redux.sync", "exchange", "r[ri]{1,2}", warp="mask", undefined="voted",
           forms="sync add min max and or xor; f32 min max"),
    Opcode("elect.sync", "exchange", "[rp][ri]", warp="mask", undefined="voted", forms="sync"),
    Opcode("movmatrix", "exchange", "rr", warp="all", undefined="voted", forms="sync.aligned.m8n8.trans.b16"),
    Opcode("mma", "exchange", "[rv][rv][rv][rv]", vector="any", warp="all", undefined="multiplied",
           forms="sync.aligned.m16n8k4/8/16/32, m8n8k4; f16 bf16 tf32 f64 s8 u8 e4m3 e5m2"),
    Opcode("wgmma.mma_async", "exchange", "v[rv]r[ri]i{0,4}", vector="any", warp="all", undefined="accumulated",
           adds=True,
           forms="mma_async.sync.aligned, m64n8 to m64n256; f16 bf16 tf32 e4m3 e5m2 s8 u8"),
    *(_silent(f"wgmma.{what}", "group", "i?", f"{what}.sync.aligned", warp="all", undefined="ignored")
      for what in ("fence", "commit_group", "wait_group")),
    _silent("setmaxnreg", "barrier", "i", "inc dec", warp="all", undefined="untracked"),
    *(_silent(f"tensormap.{what}", "group", pattern, forms, undefined="ignored")
      for what, pattern, forms in (("replace", "a[ri]{1,2}", "tile, every field"),
                                   ("cp_fenceproxy", "aai", "global.shared::cta.tensormap::generic.release"))),
    # rewritten by ``wmma.py`` before any other use
    Opcode("wmma.load", "load", "[rv]a[ri]?", vector="any", warp="all",
           forms="load store mma; m16n16k16 m32n8k16 m8n32k16, of tf32 m16n16k8, of f64 m8n8k4"),
    _silent("wmma.store", "store", "a[rv][ri]?", vector="any", warp="all"),
    Opcode("wmma.mma", "exchange", "[rv][rv][rv][rv]", vector="any", warp="all"),
    # rewritten by ``expansions.py`` before any other use
    *(Opcode(name, "compute", "r[ri]{2,3}", forms=f"{name[1:]} of selected bytes and halves; .sat; with c" + more)
      for name, more in (("vadd", ""), ("vsub", ""), ("vabsdiff", ""), ("vmin", ""), ("vmax", ""), ("vset", ""),
                         ("vshl", "; clamp wrap"), ("vshr", "; clamp wrap"), ("vmad", "; po shr7 shr15"))),
    Opcode("activemask", "exchange", "r", undefined="voted"),
    # -- barriers of a block, and control flow. ``barriers.py`` writes the result of ``bar.red`` when it completes
    *(_silent(f"{name}.{how}", "barrier", _BARRIER, "" if how == "cta" else how, undefined="untracked")
      for name in ("bar", "barrier") for how in ("sync", "red", "arrive", "cta")),
    _silent("barrier.cluster", "barrier", "", "cluster.arrive, cluster.wait", undefined="untracked"),
    _silent("bar.warp", "meet", _BARRIER, "warp.sync", warp="mask", undefined="untracked"),
    _silent("bra", "branch", "s"),
    _silent("brx", "branch", "rs", "idx"),
    _silent("ret", "end", ""),
    _silent("exit", "end", ""),
    _silent("trap", "stop", ""),
    _silent("brkpt", "stop", ""),
    _silent("call", "call", ".+", "device functions, also through pointers; vprintf, __assertfail, malloc, free",
            vector="any", undefined="untracked"),
    _silent("fence.proxy", "phase", forms="proxy.async, proxy.tensormap::generic; proxy.alias has no effect"),
    _silent("fence.mbarrier_init", "phase", forms="mbarrier_init"),
    *(_silent(name, "fence", forms=_NO_EFFECT, undefined="ignored") for name in ("membar", "fence")),
    _silent("nanosleep", "pause", forms=_NO_EFFECT, undefined="ignored"),
    *(_silent(name, "hint", forms=_NO_EFFECT, undefined="ignored")
      for name in "prefetch prefetchu applypriority griddepcontrol pmevent".split()),
    # -- instructions that the machine implements instead of the table of semantics
    Opcode("mov", "compute", "[rv][risv]", vector="cut", undefined="copied", pointer="kept",
           forms="registers, special registers, addresses, packing and unpacking"),
    Opcode("cvta", "compute", "r[ris]", undefined="spread", pointer="converted",
           forms="global shared local const param, to and from generic"),
    Opcode("isspacep", "compute", "r[ris]", undefined="spread", forms="global shared local"),
    Opcode("mapa", "compute", "r[rs][ri]", undefined="spread", pointer="kept", forms="u32 u64, also shared::cluster"),
    Opcode("getctarank", "compute", "r[rs]", undefined="spread", pointer="none", forms="u32 u64, also shared::cluster"),
    Opcode("createpolicy", "compute", "ri?", undefined="spread", forms="fractional.L2, of a part that is a number"),
    # -- computation with further properties
    _compute("add", "upwards", "added", ffma=JOINED),
    _compute("sub", "upwards", "subtracted", ffma=JOINED),
    _compute("mul", "upwards", "index", ffma=JOINED),
    _compute("mad", "upwards", "last", ffma=JOINED),
    _compute("fma", ffma=JOINED),
    _compute("neg", "upwards"),
    _compute("shl", "moved", "index", moved=(0,)),
    _compute("cvt", "moved", "index", moved=(0,)),
    _compute("cvt.pack"),
    *(_compute(name, "moved", moved=(0,)) for name in ("shr", "bfe", "brev")),
    *(_compute(name, "moved", moved=(0, 1)) for name in ("shf", "bfi", "prmt")),
    _compute("or", "bitwise", "joined"),
    *(_compute(name, "bitwise") for name in ("and", "xor", "not", "lop3")),
    _compute("setp", "compared", "none"),
    _compute("selp", "chosen", "chosen"),
    *(_compute(name, ffma=PROGRAM) for name in "div rem sqrt rsqrt rcp ex2 lg2 sin cos tanh".split()),
)  # fmt: skip
TABLE: Mapping[str, Opcode] = {row.name: row for row in _ROWS}


@cache
def computed() -> frozenset[str]:
    """Return the opcodes in the table of semantics, such as ``cvt``, and ``cvt.pack`` with a row of its own."""
    words = [name.split(".") for name in semantics.supported()]
    return frozenset(first for first, *_ in words) | (TABLE.keys() & {".".join(it[:2]) for it in words})


@cache
def row_of(opcode: str, modifier: str) -> Opcode:
    """Return the row of an opcode with its first modifier (or "")."""
    row = TABLE.get(f"{opcode}.{modifier}") or TABLE.get(opcode)
    if row is None:
        row = _compute(opcode) if opcode in computed() else UNKNOWN
    return row


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
    """Return opcode -> the forms that the machine can run, in words."""
    counted = Counter(name.partition(".")[0] for name in semantics.supported())
    found = {opcode: f"{count} forms" for opcode, count in counted.items()}
    told: dict[str, list[str]] = {}
    for name, row in TABLE.items():
        told.setdefault(name.partition(".")[0], []).extend([row.forms] if row.forms else [])
    found |= {opcode: "; ".join(forms) for opcode, forms in told.items() if forms or opcode not in found}
    return dict(sorted(found.items()))


def unsupported() -> tuple[str, ...]:
    """Return the opcodes of the instruction set that the machine refuses to bind."""
    known = supported()
    return tuple(opcode for opcode in INSTRUCTION_SET if opcode not in known)
