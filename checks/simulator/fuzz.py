"""Random small CUDA kernels for differential testing: the same kernel on the simulator and on a GPU, bit for bit.

A kernel is a function of its seed. It mixes 32- and 64-bit integers, float and double arithmetic, intrinsics, data
dependent branches and loops, shuffles, and rounds of shared memory between barriers. Undefined behaviour is kept out by
construction: shift counts are masked, divisors are made positive, indices are reduced, barriers and shuffles stand in
uniform code only, conversions from floating point use the saturating intrinsics.

    python -m checks.simulator.fuzz show 17          # print a kernel
    python -m checks.simulator.fuzz export DIR 0 2000          # compile, for a machine with a GPU
    python -m checks.simulator.fuzz run DIR 0 2000 FILE.npz    # on that machine (needs cupy)
    python -m checks.simulator.fuzz compare FILE.npz 0 2000    # its results against the simulator's
    python -m checks.simulator.fuzz store 0 300 FILE.npz ...   # keep hashes of its results for the tests
    python -m checks.simulator.fuzz stored                     # all of them against the simulator; .ci/run does so
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checks.readings import FOLDER
from checks.usage import help_if_asked
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.compiler.ptxas import shared_arrays
from gemm_lessons.engine.records.launch import Buffer, Grid
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator

BLOCKS = 3
TOGETHER = 16  # kernels compiled as one program
KINDS = ("i", "u", "l", "f", "d")
TYPES = {"i": "int", "u": "unsigned", "l": "long long", "f": "float", "d": "double"}
DTYPES = {"i": np.int32, "u": np.uint32, "l": np.int64, "f": np.float32, "d": np.float64}
# Seeds whose results once differed from an H200's -> why.
REGRESSIONS = {
    125: "a double operation with two NaN operands: which payload survives depends on ptxas' order of factors",
    128: "as 125",
    248: "as 125, through a fused multiply-add",
    1175: "grouped multiply-adds kept the host's NaN",
    1410: "as 1175",
    1497: "as 1175",
    1737: "as 1175",
}
# Seeds that differ for a reason that PTX leaves open.
OPEN = {
    569: "neg.f32 of a NaN: folded into an operand by ptxas it flips the sign; as an instruction it gives 0x7fffffff",
}
CRASHES = {947: "NVRTC 13.5 ends with a segmentation fault on this source"}
STORED = FOLDER / "simulator" / "fuzz.json"

# Expressions by the kind of their result. {i}, {u}, ...: an operand of that kind.
UNARY = {
    "i": ["-{i}", "~{i}", "abs({i} | 1)", "__popc({u})", "__clz({i})", "__ffs({i})", "__float2int_rz({f})",
          "__float2int_rn({f})", "__double2int_rd({d})", "(int){l}", "(short){i}", "(signed char){u}",
          "__float_as_int({f})", "__popcll({l})", "__clzll({l})", "__double2hiint({d})"],
    "u": ["~{u}", "__brev({u})", "__float2uint_rz({f})", "__double2uint_ru({d})", "(unsigned){l}", "(unsigned char){i}",
          "__float_as_uint({f})", "(unsigned short){u}"],
    "l": ["-{l}", "~{l}", "(long long){i}", "(long long){u}", "__brevll({l})", "__float2ll_rz({f})",
          "__double2ll_rn({d})", "__double_as_longlong({d})"],
    "f": ["-{f}", "fabsf({f})", "sqrtf({f})", "__frcp_rn({f})", "truncf({f})", "floorf({f})", "ceilf({f})",
          "rintf({f})",
          "__int2float_rn({i})", "__uint2float_rz({u})", "__ll2float_rn({l})", "__double2float_rn({d})",
          "__double2float_rd({d})", "__int_as_float({i})", "__fsqrt_rz({f})", "__saturatef({f})"],
    "d": ["-{d}", "fabs({d})", "sqrt({d})", "trunc({d})", "floor({d})", "(double){i}", "(double){u}", "(double){f}",
          "__ll2double_rz({l})", "rint({d})", "__hiloint2double({i}, {i})"],
}  # fmt: skip
BINARY = {
    "i": ["{i} + {i}", "{i} - {i}", "{i} * {i}", "{i} & {i}", "{i} | {i}", "{i} ^ {i}", "{i} << ({u} & 31)",
          "{i} >> ({u} & 31)", "{i} / (({i} & 0xffff) + 1)", "{i} % (({i} & 0xff) + 3)", "min({i}, {i})",
          "max({i}, {i})",
          "__mulhi({i}, {i})", "__mul24({i}, {i})", "({i} < {i})", "({f} <= {f})", "({d} != {d})", "({l} > {l})",
          "__hadd({i}, {i})", "__vsubss2({u}, {u})"],
    "u": ["{u} + {u}", "{u} - {u}", "{u} * {u}", "{u} & ~{u}", "{u} << ({i} & 31)", "{u} >> ({i} & 31)",
          "{u} / (({u} & 0xfff) + 1)", "{u} % ({u} | 1)", "min({u}, {u})", "max({u}, {u})", "__umulhi({u}, {u})",
          "__umul24({u}, {u})", "__byte_perm({u}, {u}, {u})", "__funnelshift_l({u}, {u}, {u})",
          "__funnelshift_rc({u}, {u}, {u})", "__sad({i}, {i}, {u})", "__dp4a({u}, {u}, {u})", "__vadd4({u}, {u})"],
    "l": ["{l} + {l}", "{l} - {l}", "{l} * {l}", "{l} ^ {l}", "{l} << ({u} & 63)", "{l} >> ({u} & 63)",
          "{l} / (({l} & 0xffff) + 1)", "{l} % (({l} & 0xffffff) + 5)", "min({l}, {l})", "max({l}, {l})",
          "__mul64hi({l}, {l})", "(long long){i} * {i}"],
    "f": ["{f} + {f}", "{f} - {f}", "{f} * {f}", "{f} / {f}", "fminf({f}, {f})", "fmaxf({f}, {f})",
          "copysignf({f}, {f})",
          "__fadd_rz({f}, {f})", "__fadd_ru({f}, {f})", "__fmul_rd({f}, {f})", "__fmul_rz({f}, {f})",
          "__fdiv_rz({f}, {f})"],
    "d": ["{d} + {d}", "{d} - {d}", "{d} * {d}", "{d} / {d}", "fmin({d}, {d})", "fmax({d}, {d})", "__dadd_rd({d}, {d})",
          "__dmul_ru({d}, {d})"],
}  # fmt: skip
TERNARY = {
    "i": ["({i} > {i} ? {i} : {i})", "__dp4a({i}, {i}, {i})", "{i} * {i} + {i}", "({f} < {f} ? {i} : {i})"],
    "u": ["({u} & 1 ? {u} : {u})", "{u} * {u} + {u}", "(({u} & {u}) | (~{u} & {u}))", "({u} ^ {u} ^ {u})"],
    "l": ["({i} ? {l} : {l})", "(long long){i} * {i} + {l}"],
    "f": ["fmaf({f}, {f}, {f})", "__fmaf_rz({f}, {f}, {f})", "__fmaf_ru({f}, {f}, {f})", "({i} & 1 ? {f} : {f})",
          "fmaf({f}, -{f}, {f})"],
    "d": ["fma({d}, {d}, {d})", "__fma_rd({d}, {d}, {d})", "({i} < 0 ? {d} : {d})"],
}  # fmt: skip
SHARED_KINDS = ("i", "f", "l")


@dataclass(frozen=True)
class Case:
    """One random kernel and its block size. For each kind the input has two values per thread, the output three."""

    seed: int
    source: str
    threads: int
    defines: tuple[str, ...]

    @property
    def lanes(self) -> int:
        return self.threads * BLOCKS

    def inputs(self) -> dict[str, np.ndarray]:
        return {kind: values(self.seed, kind, 2 * self.lanes) for kind in KINDS}

    def outputs(self) -> dict[str, np.ndarray]:
        return {kind: np.zeros(3 * self.lanes, DTYPES[kind]) for kind in KINDS}


def values(seed: int, kind: str, count: int) -> np.ndarray:
    """Random operands: half of them uniform bits, half special or small."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    dtype: np.dtype[Any] = np.dtype(DTYPES[kind])
    bits = rng.integers(0, 256, (count, dtype.itemsize), np.uint8).view(dtype).reshape(-1)
    if dtype.kind == "f":
        info: Any = np.finfo(dtype)
        special = np.array(
            [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, info.tiny, info.smallest_subnormal, -info.smallest_subnormal,
             info.max, info.eps, 0.5, 1.5, 2.5, -2.5, 2.0**23, 2.0**31, -(2.0**31), 1e9, 3.14159], dtype)  # fmt: skip
        small = rng.normal(size=count).astype(dtype)
        bits = np.where(np.isnan(bits), small, bits)  # a signalling NaN may be quieted by loads into wider registers
    else:
        info = np.iinfo(dtype)
        special = np.array([0, 1, 2, 3, 31, 32, 33, 255, info.max, info.min, info.max - 1, info.min + 1], dtype)
        small = rng.integers(0, 100, count).astype(dtype) - (50 if dtype.kind == "i" else 0)
    pick = rng.integers(0, 4, count)
    chosen = np.where(pick == 0, special[rng.integers(0, len(special), count)], np.where(pick == 1, small, bits))
    return chosen.astype(dtype)


class Generator:
    """Writes one kernel. Variables live in ``names[kind]``; every statement assigns one of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.names = {kind: [f"{kind}{n}" for n in range(4)] for kind in KINDS}
        self.lines: list[str] = []
        self.indent = 1
        self.loops = 0

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def leaf(self, kind: str) -> str:
        if self.random.random() < 0.12:
            constants = {"i": ["7", "-3", "0x55aa", "1"], "u": ["5u", "0x80000001u", "17u"], "l": ["9LL", "-1LL"],
                         "f": ["0.5f", "-3.25f", "1e-20f", "7.0f"], "d": ["0.1", "-2.0", "1e300"]}  # fmt: skip
            return self.random.choice(constants[kind])
        return self.random.choice(self.names[kind])

    def expression(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(kind)
        table = self.random.choice((UNARY, BINARY, BINARY, TERNARY))
        text = self.random.choice(table[kind])
        out = ""
        while "{" in text:
            before, _, rest = text.partition("{")
            inner, _, text = rest.partition("}")
            shallower = max(0, depth - 1 - (self.random.random() < 0.3))
            out += f"{before}({TYPES[inner]})({self.expression(inner, shallower)})"
        return f"({out}{text})"

    def assign(self) -> None:
        kind = self.random.choice(KINDS)
        self.emit(
            f"{self.random.choice(self.names[kind])} = {self.expression(kind, self.random.choice((1, 2, 2, 3)))};"
        )

    def condition(self) -> str:
        kind = self.random.choice(KINDS)
        relation = self.random.choice(("<", ">", "<=", "==", "!=", ">="))
        return f"{self.expression(kind, 1)} {relation} {self.expression(kind, 1)}"

    def body(self, size: int, depth: int, inside_loop: bool) -> None:
        for _ in range(size):
            choice = self.random.random()
            if depth > 0 and choice < 0.2:
                self.branch(depth, inside_loop)
            elif depth > 0 and choice < 0.3:
                self.loop(depth)
            elif depth > 0 and choice < 0.35:
                self.switch(depth, inside_loop)
            elif inside_loop and choice < 0.4:
                self.emit(f"if ({self.condition()}) {self.random.choice(('break', 'continue'))};")
            else:
                self.assign()

    def block(self, size: int, depth: int, inside_loop: bool) -> None:
        self.indent += 1
        self.body(size, depth, inside_loop)
        self.indent -= 1

    def branch(self, depth: int, inside_loop: bool) -> None:
        self.emit(f"if ({self.condition()}) {{")
        self.block(self.random.randint(1, 3), depth - 1, inside_loop)
        if self.random.random() < 0.5:
            self.emit("} else {")
            self.block(self.random.randint(1, 3), depth - 1, inside_loop)
        self.emit("}")

    def loop(self, depth: int) -> None:
        self.loops += 1
        bound = self.random.choice(("5", f"(int)({self.leaf('u')} & 7)", f"(int)((unsigned)({self.leaf('i')}) % 6)"))
        name = f"n{self.loops}"
        self.emit(f"for (int {name} = 0; {name} < {bound}; {name}++) {{")
        self.emit(f"    i3 += {name};")  # the counter is read through a copy, never assigned
        self.block(self.random.randint(1, 3), depth - 1, True)
        self.emit("}")

    def switch(self, depth: int, inside_loop: bool) -> None:
        self.emit(f"switch ({self.leaf('u')} & 3) {{")
        for case in range(3):
            self.emit(f"case {case}:")
            self.block(1, depth - 1, False)
            if self.random.random() < 0.7:
                self.emit("    break;")
        self.emit("default:")
        self.block(1, 0, False)
        self.emit("}")

    def shared_round(self, threads: int) -> None:
        """Store to the thread's own element, synchronise, load other elements, synchronise."""
        kind = self.random.choice(SHARED_KINDS)
        shift, factor = self.random.randrange(threads), self.random.choice((1, 3, 5, 7))
        array = f"s_{kind}"
        self.emit(f"{array}[t] = {self.expression(kind, 1)};")
        self.emit("__syncthreads();")
        self.emit(f"{self.random.choice(self.names[kind])} = {array}[(t * {factor} + {shift}) % {threads}];")
        self.emit(
            f"{self.random.choice(self.names[kind])} = {array}[{self.random.choice(self.names['u'])} % {threads}];"
        )
        self.emit("__syncthreads();")

    def warp_round(self) -> None:
        kind = self.random.choice(("i", "f", "u", "l", "d"))
        name = self.random.choice(self.names[kind])
        call = self.random.choice(
            (f"__shfl_xor_sync(~0u, {name}, {self.random.randrange(32)})", f"__shfl_sync(~0u, {name}, t * 5 + 3)",
             f"__shfl_down_sync(~0u, {name}, {self.random.randrange(32)}, 16)",
             f"__shfl_up_sync(~0u, {name}, {self.random.randrange(32)})")
        )  # fmt: skip
        self.emit(f"{name} = {call};")
        if self.random.random() < 0.5:
            self.emit(f"u0 ^= __ballot_sync(~0u, {self.leaf('i')} > {self.leaf('i')});")

    def case(self) -> Case:
        threads = self.random.choice((32, 64, 64, 96, 128))
        for _ in range(self.random.randint(2, 4)):
            self.body(self.random.randint(2, 5), 2, False)
            if self.random.random() < 0.6:
                self.shared_round(threads)
            if self.random.random() < 0.4:
                self.warp_round()
        parameters = ", ".join(f"const {TYPES[k]} *in_{k}, {TYPES[k]} *out_{k}" for k in KINDS)
        head = [f'extern "C" __global__ void __launch_bounds__({threads}) k({parameters})', "{"]
        head += [f"    __shared__ {TYPES[k]} s_{k}[{threads}];" for k in SHARED_KINDS]
        head += ["    const int t = threadIdx.x, g = blockIdx.x * blockDim.x + t;"]
        for kind in KINDS:
            head.append(
                f"    {TYPES[kind]} {kind}0 = in_{kind}[2 * g], {kind}1 = in_{kind}[2 * g + 1],"
                f" {kind}2 = {kind}0, {kind}3 = ({TYPES[kind]})t;"
            )
        tail = [f"    out_{k}[3 * g + {n}] = {k}{n};" for k in KINDS for n in range(3)]
        source = "\n".join([*head, *self.lines, *tail, "}", ""])
        return Case(self.seed, source, threads, ())


def generate(seed: int) -> Case:
    return Generator(seed).case()


def compiled(case: Case) -> Compiled:
    """Compile without contraction: ptxas may fuse products and sums that PTX, which the simulator runs, separates."""
    result = compile_source(case.source, path=f"fuzz_{case.seed}.cu", entry="k", options=("-fmad=false",))
    if isinstance(result, NotCompiled):
        raise AssertionError(f"seed {case.seed} does not compile:\n{result.log}\n{case.source}")
    return result


def compiled_together(cases: Sequence[Case]) -> Iterator[Compiled]:
    """Compile kernels as one program, without machine code: a quarter of the time, for a simulator that counts nothing.

    The PTX of each is the same as alone.
    """
    names = [f"k{case.seed}" for case in cases]
    source = "\n".join(case.source.replace(" k(", f" {name}(", 1) for name, case in zip(names, cases, strict=True))
    made = compile_source(source, path="fuzz.cu", entry=names[0], options=("-fmad=false",), assembled=False)
    if isinstance(made, NotCompiled):
        raise AssertionError(f"seeds {[case.seed for case in cases]} do not compile:\n{made.log}")
    for name in names:
        yield replace(made, entry=name, shared_layout=shared_arrays(made.ptx, name))


def simulated(case: Case, code: Compiled | None = None) -> tuple[dict[str, np.ndarray], Launched]:
    """Launch a kernel on the simulator; compile it unless ``code`` is given. Outputs by kind, and the launch."""
    outputs = case.outputs()
    arguments = []
    for kind, data in case.inputs().items():
        arguments += [Buffer(f"in_{kind}", data), Buffer(f"out_{kind}", outputs[kind], True)]
    launched = Simulator(Setting(counting=False)).launch(
        code or compiled(case), Grid((BLOCKS, 1, 1), (case.threads, 1, 1)), arguments
    )
    assert launched.fault is None, (case.seed, launched.fault)
    return outputs, launched


def comparable(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results as unsigned bits, with every double NaN replaced by the same one.

    A double operation with two NaN operands passes on the payload of one of them; which one depends on the order in
    which ptxas put the factors of a DFMA or DMUL, and PTX does not say (seeds 125, 128 and 248 show it).
    """
    bits = {kind: data.view(f"u{data.itemsize}").copy() for kind, data in outputs.items()}
    bits["d"][np.isnan(outputs["d"])] = 0x7FF8000000000000
    return bits


def digest(outputs: dict[str, np.ndarray]) -> str:
    """One hash of all results."""
    bits = comparable(outputs)
    return hashlib.sha256(b"".join(bits[kind].tobytes() for kind in KINDS)).hexdigest()[:16]


def export(folder: Path, seeds: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / f"{seed}.cubin").write_bytes(compiled(generate(seed)).cubin)


def run_on_gpu(folder: Path, seeds: range, target: Path) -> None:
    """Launch the exported kernels with cupy and keep all their results in one file."""
    import cupy

    results: dict[str, np.ndarray] = {}
    for seed in seeds:
        case = generate(seed)
        kernel = cupy.RawModule(path=str(folder / f"{seed}.cubin")).get_function("k")
        inputs = {kind: cupy.asarray(data) for kind, data in case.inputs().items()}
        outputs = {kind: cupy.asarray(data) for kind, data in case.outputs().items()}
        kernel((BLOCKS,), (case.threads,), tuple(x for kind in KINDS for x in (inputs[kind], outputs[kind])))
        results.update({f"{seed}_{kind}": cupy.asnumpy(outputs[kind]) for kind in KINDS})
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    np.savez_compressed(target, gpu=properties["name"].decode(), **results)  # type: ignore[arg-type]


def difference(seed: int, expected: dict[str, np.ndarray]) -> str:
    """ "" if the simulator gives the same bits, else the first difference."""
    outputs, _ = simulated(generate(seed))
    all_ours, all_theirs = comparable(outputs), comparable(expected)
    for kind in KINDS:
        ours, theirs = all_ours[kind], all_theirs[kind]
        wrong = np.flatnonzero(ours != theirs)
        if wrong.size:
            at = int(wrong[0])
            return (
                f"seed {seed}: {wrong.size} of {ours.size} {TYPES[kind]} differ, first thread {at // 3} {kind}{at % 3}:"
                f" {outputs[kind][at]!r} (0x{int(ours[at]):x}), GPU {expected[kind][at]!r} (0x{int(theirs[at]):x})"
            )
    return ""


def store(seeds: range, files: Sequence[Path]) -> None:
    """Store hashes of a GPU's results for ``seeds`` and for ``REGRESSIONS``."""
    hashes = {}
    gpu = ""
    for file in files:
        results = np.load(file)
        gpu = str(results["gpu"])
        for seed in (*seeds, *REGRESSIONS):
            if f"{seed}_i" in results:
                hashes[str(seed)] = digest({kind: results[f"{seed}_{kind}"] for kind in KINDS})
    STORED.parent.mkdir(exist_ok=True)
    ordered = dict(sorted(hashes.items(), key=lambda item: int(item[0])))
    STORED.write_text(json.dumps({"gpu": gpu, "hashes": ordered}, indent=0) + "\n")


def stored() -> dict[int, str]:
    """The stored hash of a GPU's results, by seed."""
    hashes = json.loads(STORED.read_text())["hashes"]
    return {int(seed): hashes[seed] for seed in hashes}


def unlike_stored(seeds: Iterable[int]) -> list[int]:
    """The seeds whose results on the simulator differ from the GPU's."""
    known, wrong, left = stored(), [], [*seeds]
    while left:
        chosen, left = [generate(seed) for seed in left[:TOGETHER]], left[TOGETHER:]
        for case, code in zip(chosen, compiled_together(chosen), strict=True):
            if digest(simulated(case, code)[0]) != known[case.seed]:
                wrong.append(case.seed)
    return wrong


def main(arguments: list[str]) -> int:
    command, *rest = arguments
    if command == "stored":
        wrong = unlike_stored(stored())
        print(f"{len(stored())} kernels with stored results; wrong: {wrong or 'none'}")
        return bool(wrong)
    if command == "show":
        print(generate(int(rest[0])).source)
        return 0
    if command == "store":
        store(range(int(rest[0]), int(rest[1])), [Path(file) for file in rest[2:]])
        return 0
    seeds = range(int(rest[1]), int(rest[2]))
    if command == "export":
        export(Path(rest[0]), seeds)
    elif command == "run":
        run_on_gpu(Path(rest[0]), seeds, Path(rest[3]))
    elif command == "compare":
        return compare(Path(rest[0]), seeds)
    return 0


def compare(file: Path, seeds: range) -> int:
    """Print every seed whose results differ from the GPU's, and how many agree."""
    results = np.load(file)
    wrong = [text for seed in seeds if (text := difference(seed, {kind: results[f"{seed}_{kind}"] for kind in KINDS}))]
    print("\n".join(wrong))
    print(f"{len(seeds) - len(wrong)} of {len(seeds)} kernels bit-equal")
    return bool(wrong)


if __name__ == "__main__":
    help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
