"""Broken submissions, made by a seed: ``python -m checks.grading.broken [COUNT] [--seed N] [--only KIND]``.

Each is judged as in a grading run. None may crash the judge, each must be graded or reported, and none may pass whose C
is wrong by an independent check: a plain launch on a new shape and new inputs, compared with NumPy.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.api import CompileError, simulate
from gemm_lessons.engine.process.bounds import GIB
from gemm_lessons.engine.ptx import opcodes
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.gemm.shapes import Shape, astuple
from gemm_lessons.grading import worker
from gemm_lessons.grading.worker import Limits, Submission, judge_submission

COURSE = packaged_course()
LESSONS = [name for name in COURSE.names if COURSE.lesson(name).solution_path.is_file()]
MOST = Limits(seconds=20, memory_bytes=GIB)
TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
PRINTING = re.compile(r"for [^;]*;[^;]*;[^;]*printf[^;]*;")  # a loop of a million iterations that does not change C
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "latin-1", "cp037", "utf-7")
PIECES = r"""
__syncthreads();
return;
if (threadIdx.x) return;
}
{
(
#if 0
#endif
0x
1e999
/*
"
__shared__ float big[1 << 28];
while (1);
asm volatile("trap;");
C = nullptr;
C[-1] = 0;
K = -K;
__trap();
assert(0);
float x[1000000]; x[K] = 1;
goto end;
template <
using namespace std;
\
""".split("\n")[1:]
FEATURES = """
C[0] = tex2D<float>((cudaTextureObject_t)K, 1, 2);
C[0] = clock64();
free(malloc(K));
C[0] = (float)(size_t)malloc(8);
C[0] = __nv_isGlobal;
auto f = [] (int i) { return i; }; C[f(0)] = 1;
C[0] = __shfl_sync(0, 1.f, 99);
asm("exit;");
__nanosleep(1 << 30);
C[0] = __ldg((const float *)8);
*(volatile int *)nullptr = 1;
surf2Dwrite(1.f, (cudaSurfaceObject_t)M, 0, 0);
struct V { virtual int f() { return 1; } } v; C[0] = v.f();
void (*g)(int) = (void (*)(int))C; g(1);
extern __shared__ float e[]; e[1 << 20] = 1;
__brkpt();
C[0] = __int128(1) << K;
throw 1;
cudaDeviceSynchronize();
new float[K];
C[0] = atomicAdd((float *)A, 1.f);
C[0] = __half2float(__float2half(1.f));
static float s; s += 1; C[0] = s;
thread_local int t;
__prof_trigger(9);
""".strip().split("\n")
ASSEMBLY = r"""
.section .bss
.pragma \"nounroll\";
.loc 1 1 1
.reg .b128 q;
.local .b8 z[99999999];
@p bra L;
L: bra L;
.file 9 \"/etc/passwd\"
tex.2d.v4.f32.s32 {%0,%0,%0,%0}, [%2, {%1,%1}];
}
{
""".strip().split("\n")
OPERANDS = "%0 %0 %1 %1 %tid.x %clock 0 -1 0f3F800000 [%2] [%1] {%0,%1} %laneid a|b".split()
TYPES = "b32 b32 u32 s32 f32 f32 u64 f64 b16 pred v2.f32 b8".split()
LOOPS = r"""
for (int i = 0; i < 100000000; i++) C[0] += i;
float a[100000]; for (int i = 0; i < 100000; i++) a[i] = i;
_Pragma("unroll 100000") for (int i = 0; i < 100000; i++) C[i % 7] += i;
__shared__ float s[1 << 24]; s[0] = 1;
for (volatile int i = 0; ; i++);
for (int i = 0; i < 1 << 20; i++) printf("%1000000d %s\n", i, "x");
""".strip().split("\n")
Make = Callable[[random.Random, Lesson, str], bytes]


@dataclass(frozen=True)
class Broken:
    """One submission: its number, the kind of damage, the lesson, and the damaged source."""

    number: int
    kind: str
    lesson: str
    source: bytes


def _cut(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    return text.encode()[: draw.randrange(len(text))]


def _bytes(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 7, 300, 5000)))


def _tokens(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    """Remove, copy, swap or replace a few tokens; if the result compiles, it is a kernel with a mistake."""
    start = text.index("__global__")
    tokens = TOKEN.findall(text[start:])
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        at, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        what = draw.randrange(5)
        if what == 0:
            del tokens[at]
        elif what == 1:
            tokens.insert(at, tokens[other])
        elif what == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif what == 3:
            tokens[at] = tokens[other]
        else:
            tokens.insert(at, draw.choice(PIECES))
    return (text[:start] + "".join(tokens)).encode()


def _flipped(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(draw.choice((1, 3, 30))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _swapped(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    """Another lesson's kernel, or another file of the course."""
    other = COURSE.lesson(draw.choice(LESSONS))
    files = (other.solution_path, other.stub_path, other.text_path, other.directory / "lesson.toml")
    return draw.choice(files).read_bytes()


def _encoded(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    if draw.random() < 0.3:
        return text.replace("\n", draw.choice(("\r", "\r\n", "\u2028", "\v"))).encode()
    return text.replace("float", "float /* \u00e9 */", 1).encode(draw.choice(ENCODINGS), errors="replace")


def _zeros(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    at = draw.randrange(len(text))
    return text[:at].encode() + b"\0" * draw.choice((1, 100)) + text[at:].encode()


def _large(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    size = draw.choice((999_000, 10 << 20))
    return text.encode() + draw.choice((b"/" * 2, b"x", b" ", b"\n", b";", b"int a;")) * (size // 8)


def _nested(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    depth = draw.choice((100, 2000, 50_000))
    start, end = draw.choice((("(", ")"), ("{", "}"), ("[", "]"), ("-", ""), ("!", ""), ("sizeof ", ""), ("*&", "")))
    inside = f"float acc = {start * depth}1{end * depth};" if start != "{" else "{" * depth + "}" * depth
    if draw.random() < 0.3:
        return ("#if 1\n" * depth + text + "#endif\n" * depth).encode()
    return re.sub(r"float acc\w*(\[\w*\])* = [^;]*;", inside, text, count=1).replace("{\n", "{\n" + inside, 1).encode()


def _bombs(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    """Code that never ends or never fits into memory, in the compiler or in the kernel."""
    levels = draw.choice((5, 30, 200))
    doubling = "".join(f"#define M{n} M{n - 1} M{n - 1}\n" for n in range(1, levels))
    bombs = (
        f"#define M0 x\n{doubling}int bomb = M{levels - 1};\n",
        f"template <int N> struct S {{ static constexpr int v = S<N - 1>::v + S<N - 2>::v; }};\n"
        f"template <> struct S<0> {{ static constexpr int v = 1; }};\nconstexpr int bomb = S<{levels * 100}>::v;\n",
        "constexpr int f(int n) { return n ? f(n - 1) + f(n - 2) : 1; }\nconstexpr int bomb = f(60);\n",
        '#include "kernel.cu"\n', "#include __FILE__\n", "template <class T> struct S : S<S<T>> {}; S<int> bomb;\n",
        f"__device__ float bomb[{levels} << 24];\n", f"__constant__ float bomb[{levels} << 12];\n",
    )  # fmt: skip
    if draw.random() < 0.6:
        return (draw.choice(bombs) + text).encode()
    return _in_front(text, draw.choice(LOOPS))


def _assembly(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    """Random inline PTX: opcodes with operands that may not fit, directives, junk."""
    names = [*opcodes.supported(), *opcodes.unsupported()]
    lines = []
    for _ in range(draw.choice((1, 1, 3))):
        if draw.random() < 0.25:
            lines.append(draw.choice(ASSEMBLY))
        else:
            wanted = ", ".join(draw.choice(OPERANDS) for _ in range(draw.randrange(5)))
            lines.append(f"{draw.choice(names)}.{draw.choice(TYPES)} {wanted};")
    code = " ".join(lines)
    operands = f'asm volatile("{code}" : "+f"(y_), "+r"(z_) : "l"(C));'
    return _in_front(text, f"float y_ = 1; int z_ = 3; {operands} C[0] = y_ + z_;")


def _features(draw: random.Random, lesson: Lesson, text: str) -> bytes:
    """Features of CUDA that no lesson uses."""
    return _in_front(text, draw.choice(FEATURES))


def _in_front(text: str, statement: str) -> bytes:
    at = text.index("{", text.index("__global__")) + 1
    return f"#include <cstdio>\n{text[:at]} {statement}\n{text[at:]}".encode()


KINDS: dict[str, Make] = {
    "tokens": _tokens,
    "assembly": _assembly,
    "truncated": _cut,
    "bytes": _bytes,
    "flipped": _flipped,
    "swapped": _swapped,
    "encoded": _encoded,
    "zeros": _zeros,
    "large": _large,
    "nested": _nested,
    "bombs": _bombs,
    "features": _features,
}
OFTEN = ("tokens", "tokens", "tokens", "assembly", "assembly", "features")  # more of these: their results vary most


def generated(count: int, seed: int = 1, only: Sequence[str] = ()) -> Iterator[Broken]:
    """Yield broken submissions. The seed decides them; ``count`` only how many there are."""
    kinds = [*KINDS, *OFTEN]
    for number in range(count * (1 if not only else len(kinds))):
        kind = kinds[number % len(kinds)]
        if only and kind not in only:
            continue
        draw = random.Random(f"{seed}:{number}")
        lesson = COURSE.lesson(draw.choice(LESSONS))
        text = lesson.solution_path.read_text(encoding="utf-8")
        yield Broken(number, kind, lesson.name, KINDS[kind](draw, lesson, text))


def judged(broken: Broken, folder: Path) -> tuple[str, str]:
    """The verdict of one submission, and why; one in capital letters is a failure of the grader."""
    place = folder / str(broken.number)
    place.mkdir()
    path = place / "kernel.cu"
    path.write_bytes(broken.source)
    try:
        outcome: Any = judge_submission(Submission(COURSE.root, broken.lesson, path, seed=broken.number), MOST)
    except UnsupportedKernel as error:
        return "unsupported", str(error)
    except (CommandError, KitError) as error:
        return "NOT GRADED", f"{type(error).__name__}: {error}"
    findings = [it["message"] for it in outcome["findings"] if it["severity"] == "error"]
    why = str((findings or [it["message"] for it in outcome["compile"]["diagnostics"]] or [""])[0])
    if any(it["kind"] == "crash" for it in outcome["findings"]):
        return "CRASHED", why
    if outcome["verdict"] in ("passed", "gate_missed"):
        wrong = wrong_answer(COURSE.lesson(broken.lesson), broken.source.decode("utf-8-sig"), broken.number)
        if wrong and outcome["verdict"] == "passed":
            return "WRONGLY PASSED", wrong
    return outcome["verdict"], why


def wrong_answer(lesson: Lesson, source: str, seed: int) -> str:
    """How a kernel's C differs from NumPy's on a new shape and new inputs; "" if it does not, or if the lesson is not
    the plain product of A and B in one launch."""
    if lesson.data.formula.text != "C = A @ B" or len(lesson.launches) > 1 or lesson.data.maps:
        return ""
    draw = np.random.default_rng(seed)
    multiple = astuple(lesson.shapes.multiple_of)
    m, n, k = (step * int(draw.integers(1, 4 + 60 // step)) for step in multiple)
    lesson = lesson.at(Shape(m, n, k))
    kinds = {name: np.dtype(lesson.data.by_name[name].element.storage) for name in "ABC"}
    whole = kinds["C"].kind == "i"
    a, b = (
        (draw.integers(-128, 128, size) if whole else draw.standard_normal(size)).astype(kinds[name])
        for name, size in (("A", (m, k)), ("B", (k, n)))
    )
    c = np.full((m, n), 0x7EADBEEF if whole else np.nan, kinds["C"])
    (grid,) = lesson.grids(Shape(m, n, k))
    (launch,) = lesson.launches
    values: dict[str, Any] = {"A": a, "B": b, "C": c, "M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n}
    quiet = PRINTING.sub(";", source)
    try:
        launched = simulate(
            quiet, launch.entry, grid.grid, grid.block, [values[name] for name in launch.parameters],
            defines=lesson.tile.defines, include_dirs=lesson.include_dirs, dynamic_shared=grid.dynamic_shared,
        )  # fmt: skip
    except (CompileError, ValueError) as error:
        return str(error)
    if launched.fault is not None:
        return launched.fault.message
    exact = a.astype(np.float64) @ b.astype(np.float64)
    step = 0.0 if whole else 8 * np.finfo(kinds["C"]).eps * (k + 1)
    bound = step * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))) + 1e-30
    bad = ~(np.abs(c - exact) <= bound)
    return f"{int(bad.sum())} of {bad.size} elements are wrong at {m}x{n}x{k}" if bad.any() else ""


def judge_all(ones: Sequence[Broken], processes: int) -> list[tuple[Broken, str, str]]:
    """All of them, in order."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        results = pool.map(partial(judged, folder=Path(folder)), ones)
        return [(one, *result) for one, result in zip(ones, results, strict=True)]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], choices=list(KINDS))
    parser.add_argument("--verbose", action="store_true", help="Say what became of each.")
    asked = parser.parse_args()
    began = time.monotonic()
    results = judge_all([*generated(asked.count, asked.seed, asked.only)], asked.processes)
    worker.close()
    table: dict[str, Counter[str]] = {}
    failures = 0
    for one, became, why in results:
        table.setdefault(one.kind, Counter())[became] += 1
        failures += became.isupper()
        if asked.verbose or became.isupper():
            print(f"{one.number:4} {one.kind:10} {one.lesson:18} {became}: {why[:300]}")
    for kind, counts in sorted(table.items()):
        print(f"{kind:10} {sum(counts.values()):4}  {', '.join(f'{n} {name}' for name, n in counts.most_common())}")
    print(f"{len(results)} broken submissions, {failures} failures of the grader, {time.monotonic() - began:.0f} s")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
