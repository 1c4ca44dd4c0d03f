"""Measure lesson mma in all of its types, and variants of it, beside cuBLAS in the same types: where
``lessons/measured/h200_mma.json`` comes from.

    python -m checks.course.mma compile DIR                  # here: machine code of every kernel
    python -m checks.course.mma run DIR lessons/measured/h200_mma.json    # on a machine with the GPU and cupy

Timed as in ``measure``, cold. Launches that split fp32 into two parts are part of the time. ``products alone`` does
what the kernel does, without copies and loads in its loop: its answer is wrong, its time is what the products take.
``cublas int8 TN`` and ``torch int8 TN`` (``torch._int_mm``, where torch is there) have A as it is and B as its
transpose, which is the layout that the library's fast kernels want.

Of fp32, the lines at one size have errors besides, against float64: ``error`` relative in the Frobenius norm, ``worst``
the largest of any element, in 2**-24 of the magnitudes that it is added up from; ``_positive``: of magnitudes;
``_down_8``: of inputs times 2**-8. What is not there was NaN.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from checks.course.kernel import GPU_ARCH
from checks.course.measure import COLD, ROOT, SPIN, SPIN_CLOCKS, Bench, Call, machine, spread, tensor_maps, write
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.pitfalls import load_pitfalls, resized, with_edits
from gemm_lessons.gemm.shapes import Shape

ROUNDS = {1024: 20, 2048: 15, 4096: 11, 8192: 7}
CHECKS = ((512, 256, 128), (1024, 512, 640))
OF_CUBLAS = {"float16": (2, 0, 68), "bfloat16": (14, 0, 68), "tf32": (0, 0, 77), "int8": (3, 10, 72),
             "float64": (1, 1, 70), "float32": (0, 0, 68)}  # type of A and B, of C, cublasComputeType_t  # fmt: skip
PRECISE = 4096  # M = N = K, where errors are noted
SCALED = {("down", 20): 2.0**-20, ("down", 12): 2.0**-12, ("down", 8): 2.0**-8, ("up", 8): 2.0**8}
ALLOWED = {"float64": 2.0**-50, "int8": 0.0}  # relative, in the Frobenius norm; of others 2**-21 sqrt(K)


@dataclass(frozen=True)
class Variant:
    """Of lesson mma: its type, tile sizes in place of lesson.toml's, and edits of its solution, or a pitfall's."""

    name: str
    type: str = ""
    tile: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[tuple[str, str], ...] = ()
    pitfall: str = ""

    def lesson(self) -> Lesson:
        found = Course(ROOT).lesson("mma")
        return resized(load_lesson(found.directory, self.type), dict(self.tile))

    def source(self, lesson: Lesson) -> str:
        """Raises ``LessonError`` where an edit does not match the solution."""
        source = lesson.solution_path.read_text()
        if self.pitfall:
            source = load_pitfalls(lesson.directory / "pitfalls.toml")[self.pitfall].source(source)
        return with_edits(source, self.edits, self.name)


TORCH = "torch int8 TN"
ALONE = (
    ("                load((step + 1) % 2, now, step + 1);\n", "                ;\n"),
    ("                load(0, next, 0);\n", ""),
    ("    load(0, 0, 0);\n", "    load(0, 0, 0);\n    load(1, 0, 1);\n"),
    ("                    copy(before);\n", "                    ;\n"),
)
STRAIGHT = (
    ("            Of::store(slab, 0, j * Of::COLS, acc[i][j]);\n",
     "            Of::store(c, block_row + warp_row + i * 16, block_col + warp_col + j * Of::COLS, acc[i][j]);\n"),
    ("n < 16 * WIDE;", "n < 0;"),
)  # fmt: skip
SMALL = {"BN": 64, "STAGES": 2, "BLOCKS_PER_SM": 2}
TALL = {"BM": 256, "BN": 64, "STAGES": 2}
VARIANTS = (
    Variant("mma"),
    Variant("mma 3 stages", tile={"STAGES": 3}),
    Variant("mma 128x256", tile={"BM": 128, "BN": 256}),
    Variant("mma 128x128 2 blocks", tile={"BM": 128, "STAGES": 3, "BLOCKS_PER_SM": 2}),
    Variant("mma one set", pitfall="one_set"),
    Variant("mma no swizzle", pitfall="no_swizzle"),
    Variant("mma no bands", tile={"BAND": 1}),
    Variant("mma straight", edits=STRAIGHT),
    Variant("mma products alone", edits=ALONE),
    Variant("mma tma", "tma"),
    Variant("mma bf16", "bf16"),
    Variant("mma tf32", "tf32"),
    Variant("mma tf32 products alone", "tf32", edits=ALONE),
    Variant("mma tf32_tma", "tf32_tma"),
    Variant("mma int8", "int8"),
    Variant("mma int8_tma", "int8_tma"),
    Variant("mma int8 products alone", "int8", edits=ALONE),
    Variant("mma fp64", "fp64"),
    Variant("mma fp64 no bands", "fp64", {"BAND": 1}),
    Variant("mma fp32_by_tf32", "fp32_by_tf32"),
    Variant("mma fp32_by_tf32 128x64 2 blocks", "fp32_by_tf32", SMALL),
    Variant("mma fp32_by_tf32 1 sum 256x64", "fp32_by_tf32", {"SUMS": 1, **TALL}),
    Variant("mma fp32_by_tf32 1 sum 128x64", "fp32_by_tf32", {"SUMS": 1, **SMALL}),
    Variant("mma fp32_by_f16", "fp32_by_f16"),
    Variant("mma fp32_by_f16 128x64 2 blocks", "fp32_by_f16", SMALL),
    Variant("mma fp32_by_f16 1 sum 256x64", "fp32_by_f16", {"SUMS": 1, **TALL}),
    Variant("mma fp32_by_f16 1 sum 128x64", "fp32_by_f16", {"SUMS": 1, **SMALL}),
)


def compile_all(folder: Path, variants: Sequence[Variant] = VARIANTS) -> None:
    from concurrent.futures import ProcessPoolExecutor

    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(partial(compile_one, folder), range(len(variants)), variants))
    (folder / "kernels.json").write_text(json.dumps({"compiler": found[0].pop("compiler"), "kernels": found}))
    compiled(SPIN, "spin.cu", "spin", {}, (), folder / "spin.cubin")


def compile_one(folder: Path, number: int, variant: Variant) -> dict[str, Any]:
    lesson = variant.lesson()
    path = folder / f"{number}.cubin"
    made = compiled(
        variant.source(lesson),
        str(lesson.solution_path),
        lesson.launches[-1].entry,
        lesson.tile.defines,
        lesson.include_dirs,
        path,
    )
    return {"compiler": made.compiler, "registers": made.resources.registers, "spill_bytes": made.resources.spill_bytes}


def compiled(source: str, path: str, entry: str, defines: Mapping[str, int], include: Any, to: Path) -> Any:
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source  # a machine that only measures has none

    made = compile_source(source, path=path, entry=entry, defines=defines, include_dirs=include, arch=GPU_ARCH)
    assert isinstance(made, Compiled), made.log
    to.write_bytes(made.cubin)
    return made


class Types(Bench):
    """A bench whose matrices are of the types of each kernel's lesson."""

    spins: ClassVar[Mapping[str, int]] = {COLD: SPIN_CLOCKS}

    def __init__(self, folder: Path, variants: Sequence[Variant] = VARIANTS) -> None:
        import cupy
        import numpy as np
        from cupy.cuda import cublas

        self.cupy, self.np, self.cublas = cupy, np, cublas
        about = json.loads((folder / "kernels.json").read_text())
        self.compiler = about["compiler"]
        self.variants = {variant.name: variant for variant in variants}
        self.lessons = {variant.name: variant.lesson() for variant in variants}
        self.resources = {
            variant.name: {key: found[key] for key in ("registers", "spill_bytes")}
            for variant, found in zip(variants, about["kernels"], strict=True)
        }
        self.modules = {
            variant.name: cupy.RawModule(path=str(folder / f"{number}.cubin"))
            for number, variant in enumerate(variants)
        }
        self.spin = cupy.RawModule(path=str(folder / "spin.cubin")).get_function("spin")
        self.scratch = cupy.empty(128 << 20, cupy.uint8)
        self.events = [cupy.cuda.Event() for _ in range(2)]
        self.handle = cublas.create()
        self.parts: dict[tuple[str, int], Any] = {}

    def given(self, name: str) -> str:
        """The type of A and B."""
        return self.lessons[name].data.by_name["A"].element.name

    def drawn(self, kind: str, *shape: int) -> Any:
        cupy = self.cupy
        if kind == "int8":
            return cupy.random.randint(-127, 128, shape, dtype=cupy.int32).astype(cupy.int8)
        floats = cupy.random.standard_normal(shape, dtype=cupy.float64 if kind == "float64" else cupy.float32)
        return self.narrowed(kind, floats)

    def narrowed(self, kind: str, floats: Any) -> Any:
        cupy = self.cupy
        if kind == "bfloat16":
            return (floats.view(cupy.uint32) >> 16).astype(cupy.uint16)
        if kind == "tf32":
            return (floats.view(cupy.uint32) & cupy.uint32(0xFFFFE000)).view(cupy.float32)
        return floats.astype(kind)

    def doubles(self, kind: str, stored: Any) -> Any:
        if kind == "bfloat16":
            stored = (stored.astype(self.cupy.uint32) << 16).view(self.cupy.float32)
        return stored.astype(self.cupy.float64)

    def empty(self, kind: str, m: int, n: int) -> Any:
        return self.cupy.empty((m, n), {"int8": "int32", "float64": "float64"}.get(kind, "float32"))

    def library(self, kind: str, a: Any, b: Any, c: Any, layout: str = "NN") -> Call:
        """cuBLAS's product: it counts columns first, C^T = B^T A^T."""
        (m, n), k = c.shape, a.shape[1]
        of, to, compute = OF_CUBLAS[kind]
        one, zero = self.np.ones(1, c.dtype), self.np.zeros(1, c.dtype)
        ways = ("NT".index(layout[1]), "NT".index(layout[0]))
        factors = (one.ctypes.data, b.data.ptr, of, n, a.data.ptr, of, k, zero.ctypes.data)
        call = partial(self.cublas.gemmEx, self.handle, *ways, n, m, k, *factors, c.data.ptr, to, n, compute, -1)
        return lambda held=(one, zero): call()  # type: ignore[misc]  # the scalars live as long as the call

    def torch(self, a: Any, b: Any, c: Any) -> dict[str, Call]:
        """PyTorch's product of int8, where it is installed."""
        try:
            torch = import_module("torch")
        except ImportError:
            return {}
        a, b, c = (torch.from_dlpack(it) for it in (a, b, c))
        return {TORCH: lambda: torch._int_mm(a, b.t(), out=c)}

    def kernel(self, name: str, a: Any, b: Any, c: Any) -> Call:
        """All launches of the lesson, one after the other."""
        (m, n), k = c.shape, a.shape[1]
        lesson, shape = self.lessons[name], Shape(m, n, k)
        known: dict[str, Any] = {"A": a, "B": b, "C": c, **{s: self.np.int32(v) for s, v in shape.names.items()}}
        for spec, layout in ((it, lesson.data.lay_out(shape.names)[it.name]) for it in lesson.data.buffers):
            if spec.role == "scratch":  # all kernels share theirs
                known[spec.name] = self.parts.setdefault(
                    (spec.name, layout.nbytes), self.cupy.empty(layout.nbytes, "u1")
                )
        known |= tensor_maps(lesson, shape, known)
        calls = []
        for launch, grid in zip(lesson.launches, lesson.grids(shape), strict=True):
            function = self.modules[name].get_function(launch.entry)
            if grid.dynamic_shared:
                function.max_dynamic_shared_size_bytes = grid.dynamic_shared
            arguments = tuple(known[parameter] for parameter in launch.parameters)
            calls.append(partial(function, grid.grid, grid.block, arguments, shared_mem=grid.dynamic_shared))

        def start() -> None:
            for call in calls:
                call()

        return start

    def error(self, call: Call, c: Any, reference: Any) -> float:
        c.view("u1").fill(0xFF)
        call()
        norm = self.cupy.linalg.norm
        return float(norm(c - reference) / norm(reference))

    def insist_on_all(self) -> None:
        """Compare every kernel with float64 on a few shapes."""
        for m, n, k in CHECKS:
            for kind in OF_CUBLAS:
                a, b, c = self.drawn(kind, m, k), self.drawn(kind, k, n), self.empty(kind, m, n)
                reference = self.cupy.matmul(self.doubles(kind, a), self.doubles(kind, b))
                for name in self.of(kind):
                    error, most = (
                        self.error(self.kernel(name, a, b, c), c, reference),
                        ALLOWED.get(kind, 2**-21 * k**0.5),
                    )
                    assert error <= most or "alone" in name, f"{name} {m}x{n}x{k}: error {error}, allowed {most}"

    def of(self, kind: str) -> list[str]:
        return [name for name in self.lessons if self.given(name) == kind]

    def size(self, n: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        """The lines at n^3."""
        for kind in OF_CUBLAS:
            a, b, c = self.drawn(kind, n, n), self.drawn(kind, n, n), self.empty(kind, n, n)
            calls = {f"cublas {kind}": self.library(kind, a, b, c)}
            if kind == "int8":
                calls["cublas int8 TN"] = self.library(kind, a, b, c, "NT")
                calls |= self.torch(a, b, c)
            calls |= {name: self.kernel(name, a, b, c) for name in self.of(kind)}
            for call in calls.values():
                call()
            times = self.times(calls, c, (COLD,), dict.fromkeys(calls, ROUNDS[n]))
            base = statistics.median(times[f"cublas {kind}", COLD])
            for name in calls:
                here = spread(times[name, COLD])
                rate = {"tflops": round(2 * n**3 / here["median_us"] / 1e6, 3)}
                rate["percent_of_cublas"] = round(100 * base / here["median_us"], 2)
                yield {"kernel": name, "size": n, "repeats": ROUNDS[n], COLD: {**here, **rate},
                       **self.resources.get(name, {})}  # fmt: skip

    def precision(self, n: int) -> dict[str, dict[str, float]]:
        """By kernel, errors of cuBLAS in float32 and of those that make float32 of two parts; none where C is NaN."""
        cupy = self.cupy
        a, b = (cupy.random.standard_normal((n, n), dtype=cupy.float32) for _ in range(2))
        c = cupy.empty((n, n), cupy.float32)
        names = [name for name in self.of("float32") if name.count(" ") == 1 or "256x64" in name]
        found: dict[str, dict[str, float]] = {name: {} for name in ("cublas float32", *names)}
        cases = {"": (a, b), "_positive": (abs(a), abs(b))}
        cases |= {f"_{way}_{power}": (a * factor, b * factor) for (way, power), factor in SCALED.items()}
        for case, (left, right) in cases.items():
            left, right = left.astype(cupy.float32), right.astype(cupy.float32)
            exact = cupy.matmul(left.astype(cupy.float64), right.astype(cupy.float64))
            sizes = cupy.matmul(abs(left).astype(cupy.float64), abs(right).astype(cupy.float64))
            for name, line in found.items():
                factors = (left, right, c)
                call = self.kernel(name, *factors) if name in self.lessons else self.library("float32", *factors)
                error = self.error(call, c, exact)
                if error == error:
                    line[f"error{case}"] = float(f"{error:.3g}")
                    line[f"worst{case}"] = round(float((abs(c - exact) / sizes).max() * 2**24), 2)
        return found


def run(folder: Path, target: Path) -> None:
    bench = Types(folder)
    bench.insist_on_all()
    rows = []
    for n in ROUNDS:
        found = list(bench.size(n))
        rows += found
        for row in found:
            print(
                f"{n} {row['kernel']:40} {row[COLD]['tflops']:8.1f} {row[COLD]['percent_of_cublas']:7.1f}", flush=True
            )
    errors = bench.precision(PRECISE)
    for row in rows:
        if row["size"] == PRECISE:
            row.update(errors.get(row["kernel"], {}))
    print(json.dumps(errors), flush=True)
    about = {
        "command": "python -m checks.course.mma compile DIR; python -m checks.course.mma run DIR FILE",
        **machine(bench),
        "what": "C = A B, square, in the types of lesson mma; standard normal inputs, int8 from -127 to 127. The"
        " solution, variants of it (checks/course/mma.py) and cuBLAS (gemmEx, the same types), one launch of each a"
        " round, in a new order each time; answers compared with float64 on smaller shapes.",
        "how": "CUDA events around one launch, or around all launches where fp32 is split; median over the repeats;"
        " behind a fill of 128 MiB, so that L2 is cold. percent_of_cublas is against cuBLAS in the same types.",
    }
    write(target, about, rows)


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_all(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
