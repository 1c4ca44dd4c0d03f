"""Translate a lesson's description and a kernel file into the C++ values that the templates use.

    lesson, kernel file  --context-->  names  --folder.export_lesson-->  main.cu, headers, Makefile, README.md

A lesson that cannot become a stand-alone program is refused with the reason.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from gemm_lessons.course import CommandError, LaunchSpec, Lesson, read_source, shown
from gemm_lessons.engine.arguments import Expression
from gemm_lessons.engine.compiler import GlobalFunction, Places, forbidden, included_names, kernels, without_comments
from gemm_lessons.engine.records import Element, dataclass
from gemm_lessons.export import cplusplus
from gemm_lessons.gemm import (
    LAYOUTS,
    PROBABLE,
    SCALARS,
    SIZES,
    BufferSpec,
    Parameter,
    Product,
    Shape,
    astuple,
    leading_name,
    transposed,
)

LARGE, SMALL = Shape(4096, 4096, 4096), Shape(512, 256, 128)  # a program's default size, and one for examples
OTHER = Shape(4096, 2048, 1024)  # example for programs that take large sizes only
TYPE_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
NOT_YET = ("tf32", "float8_e4m3", "float8_e5m2")  # the host has no type with this rounding
FLOAT_SCALARS, INTEGER_SCALARS = ("1.5", "-0.5"), ("2", "-1")  # alpha and beta, if the formula has them
# A kernel parameter may point to one of these instead of the lesson's type, such as float4 for float.
VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|half2|__half2|__nv_bfloat162|void")

# cublasGemmEx: types of both factors, of the answer and of the sums -> compute type, C type of alpha and beta
# (cuBLAS documentation, table of cublasGemmEx). float32 and float64 have calls of their own.
MIXED = {
    ("float16", "float16", "float16"): ("CUBLAS_COMPUTE_16F", "__half"),
    ("float16", "float16", "float32"): ("CUBLAS_COMPUTE_32F", "float"),
    ("float16", "float32", "float32"): ("CUBLAS_COMPUTE_32F", "float"),
    ("bfloat16", "bfloat16", "float32"): ("CUBLAS_COMPUTE_32F", "float"),
    ("bfloat16", "float32", "float32"): ("CUBLAS_COMPUTE_32F", "float"),
    ("int8", "int32", "int32"): ("CUBLAS_COMPUTE_32I", "int"),
}
DATA_TYPES = {"float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF", "float32": "CUDA_R_32F", "int8": "CUDA_R_8I",
              "int32": "CUDA_R_32I"}  # fmt: skip


@dataclass(frozen=True)
class KernelText:
    """The learner's file, with the files that it includes: name in the folder of main.cu -> content."""

    path: Path
    text: str
    headers: tuple[tuple[str, str], ...]

    @property
    def everything(self) -> str:
        """Return the text of kernel and headers without comments."""
        return without_comments("\n".join((self.text, *(content for _, content in self.headers))))


def read_kernel(lesson: Lesson, path: Path) -> KernelText:
    """Read a kernel file and the headers that it includes. Raises ``CommandError``."""
    text = read_source(path)
    found: dict[str, str] = {}
    waiting = [(text, path.parent, Path())]
    while waiting:
        source, folder, place = waiting.pop()
        for name, _ in included_names(source) or ():
            folders = (folder, *lesson.include_dirs)
            header = next((place / name for place in folders if (place / name).is_file()), None)
            if header is None:
                continue  # a header of the CUDA toolkit or the C++ library
            beside = (place / name if header.parent == (folder / name).parent else Path(name)).as_posix()
            if beside.startswith(("/", "..")) or beside in ("main.cu", "Makefile", "README.md"):
                raise CommandError(f"{shown(path)}: cannot be exported: #include of {name}, outside of its folder")
            if beside not in found:
                found[beside] = read_source(header)
                waiting.append((found[beside], header.parent, Path(beside).parent))
    places = Places(os.path.abspath(path), shown(path), lesson.include_dirs, (), (lesson.solution_path,))
    if outside := forbidden(text, places):
        raise CommandError(f"{shown(path)}: cannot be exported: line {outside.line} {outside.message}")
    return KernelText(path, text, tuple(sorted(found.items())))


@dataclass(frozen=True)
class ProgramBuffer:
    """An array of the program: C++ type, element count (as C++), shape in words, source of its initial contents."""

    name: str
    type: str
    count: str
    shape: str
    role: str
    fill: str
    range: tuple[float, float] | None = None  # range of random numbers other than 0.5 to 1 of either sign

    @property
    def copied(self) -> bool:
        """Tell whether the host copies the contents to the device before the launch."""
        return self.role in ("in", "inout")


@dataclass(frozen=True)
class ProgramLaunch:
    """One launch, in C++."""

    entry: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    dynamic_shared: str  # empty for none
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class ProductLoop:
    """The CPU's product loop: sizes, and the elements (i, k) and (k, j) as doubles."""

    rows: str
    cols: str
    depth: str
    left: str
    right: str
    row_by_row: bool  # the elements of row k of the right factor are contiguous


@dataclass(frozen=True)
class Library:
    """The call of cuBLAS that computes the same product."""

    function: str
    shape: str  # operations on the factors, and the sizes
    first: str
    second: str
    third: str
    scalar: str
    one: str
    zero: str
    why: str


class _Description:
    """A lesson's description in C++, part by part. Raises ``CommandError`` for what a program cannot express."""

    def __init__(self, lesson: Lesson, kernel: KernelText, shape: Shape | None) -> None:
        self.lesson = lesson
        rounded = [shape or self.allowed(LARGE), *map(self.allowed, (SMALL, OTHER, Shape(1, 1, 1)))]
        self.default = rounded[0]
        self.lesson = lesson = lesson.at(self.default)
        self.data, self.kernel = lesson.data, kernel
        self.example = next(it for it in (*rounded[1:], self.default) if lesson.at(it) == lesson)
        known = (*rounded, *lesson.shapes.check, lesson.shapes.count)
        self.places = [lesson.choosing(it) for it in known]
        self.product = self._product()

    def refused(self, why: str) -> CommandError:
        return CommandError(f"lesson {self.lesson.name} cannot be exported: {why}")

    def allowed(self, shape: Shape) -> Shape:
        """Return the smallest shape not below this one that the lesson's contract allows."""
        sizes = zip(astuple(shape), astuple(self.lesson.shapes.multiple_of), strict=True)
        whole = (-(-size // multiple) * multiple for size, multiple in sizes)
        return Shape(*whole, layout=self.lesson.shapes.count.layout)

    def choices(self) -> list[tuple[str, str]]:
        """Return the sizes that the host derives from M, N and K: name, C++."""
        names = {name: str(value) for name, value in transposed(self.default.layout).items()}
        names |= {leading_name(spec.name): self.leading(spec) for spec in self.data.buffers}
        found = [
            (name, cplusplus.arithmetic(expression, self.places, names)) for name, expression in self.lesson.choices
        ]
        return [(name, code) for name, code in found if not code.isdigit()]

    def _product(self) -> Product:
        product = self.data.formula.product
        if self.data.formula.goes_along_lines:
            raise self.refused(f"its formula {self.data.formula.text} takes whole rows or columns together")
        if product is None:
            raise self.refused(f"its formula {self.data.formula.text} is not of one product of two matrices")
        for spec in (self.data.by_name[product.left], self.data.by_name[product.right], self.data.answer):
            if len(spec.shape) != 2:
                raise self.refused(f"{spec.name} is not a single matrix")
        for buffer in self.data.buffers:
            if buffer.element.name in NOT_YET:
                raise self.refused(f"{buffer.name} holds {buffer.element.name}, which host code cannot make")
        drawn = [buffer for buffer in self.data.buffers if buffer.role != "scratch"]
        answer = self.data.answer.element
        exact = answer.is_float == self.data.accumulate.is_float and (answer.is_float or answer.size >= 4)
        if len({buffer.element.is_float for buffer in drawn}) > 1 or not exact:
            raise self.refused("it mixes whole numbers with others, or answers in short ones")
        return product

    # Sizes.

    def held(self, expression: Expression) -> str:
        """Return a size as C++, in parentheses unless it is a single name."""
        text = cplusplus.arithmetic(expression, self.places)
        return text if re.fullmatch(r"\w+", text) else f"({text})"

    def leading(self, spec: BufferSpec) -> str:
        """Return the leading dimension in elements; lines are contiguous."""
        return self.held(spec.shape[-1 if spec.order == "row" or len(spec.shape) == 1 else -2])

    def count(self, spec: BufferSpec) -> str:
        return " * ".join(self.held(extent) for extent in spec.shape)

    def at(self, spec: BufferSpec, row: str, col: str) -> str:
        """Return the index of a matrix element in memory, as C++."""
        if len(spec.shape) == 1:
            return col
        first, second = (row, col) if spec.order == "row" else (col, row)
        return f"{first} * {self.leading(spec)} + {second}"

    # The parts of a program.

    def buffers(self) -> tuple[ProgramBuffer, ...]:
        return tuple(
            ProgramBuffer(
                spec.name,
                spec.element.c_name,
                self.count(spec),
                " x ".join(self.held(extent) for extent in spec.shape)
                + (", column by column" if spec.order == "column" else ", row by row" if len(spec.shape) > 1 else ""),
                spec.role,
                spec.fill,
                spec.range,
            )
            for spec in self.data.buffers
        )

    def launches(self) -> tuple[ProgramLaunch, ...]:
        return tuple(self._launch(launch) for launch in self.lesson.launches)

    def _launch(self, launch: LaunchSpec) -> ProgramLaunch:
        function = self._function(launch)
        if launch.cluster:
            raise self.refused("it is launched in clusters")
        arguments = []
        for parameter, declared in zip(self.lesson.parameters(launch), function.parameters, strict=True):
            arguments.append(self._argument(parameter, declared))
        bytes_ = cplusplus.arithmetic(launch.dynamic_shared, self.places)
        grid, block = ([cplusplus.arithmetic(e, self.places) for e in sizes] for sizes in (launch.grid, launch.block))
        return ProgramLaunch(launch.entry, tuple(grid), tuple(block), "" if bytes_ == "0" else bytes_, tuple(arguments))

    def _function(self, launch: LaunchSpec) -> GlobalFunction:
        """Return the kernel function in the learner's text."""
        name, expected = launch.entry.partition("<")[0].strip(), self.lesson.prototype(launch)
        found = [function for function in kernels(self.kernel.everything) if function.name == name]
        where = shown(self.kernel.path)
        if not found:
            raise CommandError(f"{where}: there is no kernel named {name}. The lesson launches {expected}")
        for function in found:
            if len(function.parameters) == len(launch.parameters):
                return function
        count = len(found[0].parameters)
        raise CommandError(f"{where}: {name} takes {count} parameters. The lesson launches {expected}")

    def _argument(self, parameter: Parameter, declared: str) -> str:
        spec = self.data.by_name.get(parameter.source)
        match parameter.kind:
            case "pointer":
                wanted = re.sub(r"\b__restrict__\b|\b__restrict\b|\w+$", "", declared).strip()
                pointer = f"device.{parameter.source}"
                kind = re.sub(r"\bconst\b|[*\s]", "", wanted)
                other = VECTOR.fullmatch(kind) and kind != parameter.type
                return f"reinterpret_cast<{wanted}>({pointer})" if other else pointer
            case "leading" if spec is not None:
                return self.leading(spec)
            case "stride" if spec is not None:
                return " * ".join(self.held(extent) for extent in spec.shape[-2:])
            case "size" | "scalar":
                return parameter.name
        how = "a tensor map" if parameter.kind == "tensor_map" else "a texture"
        raise self.refused(f"its kernels read {parameter.source} through {how}")

    def loop(self) -> ProductLoop:
        left, right = self.data.by_name[self.product.left], self.data.by_name[self.product.right]
        left_transposed, right_transposed = self.product.left_transposed, self.product.right_transposed
        rows, cols = map(self.held, self.data.answer.shape)
        return ProductLoop(
            rows,
            cols,
            self.held(left.shape[0 if left_transposed else 1]),
            self.number(left, *(("k", "i") if left_transposed else ("i", "k"))),
            self.number(right, *(("j", "k") if right_transposed else ("k", "j"))),
            (right.order == "row") != right_transposed,
        )

    def number(self, spec: BufferSpec, row: str, col: str) -> str:
        """Return C++ for an element on the host, as a double."""
        return as_double(spec.element, f"host.{spec.name}[{self.at(spec, row, col)}]")

    def epilogue(self) -> str:
        """Return C++ for an element of the answer from that of the product; empty if the two are equal."""
        formula, answer = self.data.formula, self.data.answer
        names: dict[str, str] = {name: f"(double){name}" for name in SCALARS}
        for spec in self.data.buffers:
            alike = [e.text for e in spec.shape] == [e.text for e in answer.shape[-len(spec.shape) :]]
            if spec.name in formula.names and spec.name not in (self.product.left, self.product.right) and not alike:
                raise self.refused(f"the formula {formula.text} spreads {spec.name} over {answer.name} in its own way")
            if alike:
                names[spec.name] = self.number(spec, "i", "j")
        if formula.has_functions:
            return cplusplus.bounded(formula, names, "product", self.data.accumulate.roundoff)
        made = cplusplus.element(formula, names, "product")
        return "" if made == "product" else made

    def magnitude(self) -> str:
        if self.data.formula.has_functions:  # error of the product alone; the formula propagates it
            factors = (self.data.by_name[it] for it in (self.product.left, self.product.right))
            largest = math.prod(max(map(abs, it.range)) if it.range else 1.0 for it in factors)
            return self.loop().depth if largest == 1 else f"({self.loop().depth} * {largest:g})"
        bounds = {name: f"{abs(float(value)):g}" for name, value in self.scalars().items()}
        bounds |= {spec.name: "1" for spec in self.data.buffers}
        made = cplusplus.magnitude(self.data.formula, bounds, self.loop().depth)
        return made if re.fullmatch(r"\w+", made) else f"({made})"

    def scalars(self) -> dict[str, str]:
        """Return the values of alpha and beta; neutral ones if the formula has none."""
        values = FLOAT_SCALARS if self.data.accumulate.is_float else INTEGER_SCALARS
        used = self.data.formula.names
        neutral = zip(SCALARS, values, ("1", "0"), strict=True)
        return {name: value if name in used else default for name, value, default in neutral}

    def library(self) -> Library | None:
        """Return the call of cuBLAS; None if cuBLAS does not support these types."""
        left, right = self.data.by_name[self.product.left], self.data.by_name[self.product.right]
        answer, sums = self.data.answer, self.data.accumulate.name
        kinds = {left.element.name, right.element.name}
        loop, by_rows = self.loop(), answer.order == "row"
        factors = [(left, self.product.left_transposed), (right, self.product.right_transposed)]
        sizes = [loop.rows, loop.cols]
        if by_rows:
            factors.reverse()
            sizes.reverse()
        as_transpose = [(transposed != by_rows) != (spec.order == "row") for spec, transposed in factors]
        ways = ["CUBLAS_OP_T" if turn else "CUBLAS_OP_N" for turn in as_transpose]
        why = "(A B)^T = B^T A^T, so the factors change places" if by_rows else "The answer has that layout, too"
        why += "; OP_T: read it as its transpose." if any(as_transpose) else "."
        shape = ", ".join((*ways, *sizes, loop.depth))
        pointers = [f"device.{spec.name}" for spec, _ in factors] + ["device.product"]
        steps = [self.leading(spec) for spec, _ in factors] + [self.leading(answer)]
        if kinds == {answer.element.name} == {sums} and sums in ("float32", "float64"):
            name = "cublasSgemm" if sums == "float32" else "cublasDgemm"
            a, b, c = (f"{pointer}, {step}" for pointer, step in zip(pointers, steps, strict=True))
            scalar = self.data.accumulate.c_name
        elif len(kinds) == 1 and (found := MIXED.get((left.element.name, answer.element.name, sums))):
            compute, scalar = found
            types = [DATA_TYPES[spec.element.name] for spec in (*(spec for spec, _ in factors), answer)]
            a, b, c = (", ".join(each) for each in zip(pointers, types, steps, strict=True))
            name, c = "cublasGemmEx", f"{c}, {compute}, CUBLAS_GEMM_DEFAULT"
        else:
            return None
        one, zero = {"int": ("1", "0"), "__half": ("__half(1.0f)", "__half(0.0f)")}.get(scalar, ("1.0", "0.0"))
        return Library(name, shape, a, b, c, scalar, one, zero, why)

    def unit(self) -> int:
        """Return the exponent of the largest relative error of one addition."""
        from gemm_lessons.gemm import unit

        return round(math.log2(unit(self.data))) if self.data.accumulate.is_float else 0

    def macros(self) -> bool:
        """Return whether the preprocessor reads a tile size, which must then be a macro. Raises ``CommandError`` if the
        file redefines one; the file may define a default for one that is not defined."""
        tile = "|".join(self.lesson.tile.defines)
        if not tile:
            return False
        sure = re.sub(rf"^\s*#\s*ifndef\s+({tile})\s+#\s*define\s+\1\b", "", self.kernel.everything, flags=re.M)
        if changed := re.search(rf"^\s*#\s*(?:define|undef)\s+({tile})\b", sure, re.M):
            raise CommandError(
                f"{shown(self.kernel.path)}: defines {changed[1]}, which lesson.toml defines; remove it from the kernel"
            )
        return bool(re.search(rf"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\b(?:{tile})\b", self.kernel.everything, re.M))


def named_in_pragmas(text: str, names: Mapping[str, object]) -> str:
    """Replace macros in pragmas by their numbers, since nvcc does not expand them there: ``#pragma unroll BK``."""
    if not names["macros"]:
        return text
    sizes = {name: str(size) for name, size in cast(Iterable[tuple[str, int]], names["tile"])}
    return re.sub(
        r"^(\s*#\s*pragma\s+unroll\s*\(?\s*)(\w+)\b", lambda it: it[1] + sizes.get(it[2], it[2]), text, flags=re.M
    )


def as_double(element: Element, code: str) -> str:
    """Return C++ that converts a stored number to double."""
    return f"(double)(float){code}" if element.name in TYPE_HEADERS else f"(double){code}"


def context(
    lesson: Lesson, kernel: KernelText, origin: str, architecture: str, shape: Shape | None = None
) -> dict[str, object]:
    """Return all values that the templates use. ``shape`` is the program's default size. Raises ``CommandError``."""
    from gemm_lessons.gemm import DIVISION_ROUNDINGS, EPILOGUE, FUNCTION_ROUNDINGS

    made = _Description(lesson, kernel, shape)
    lesson = made.lesson
    data, loop, library, exponent = lesson.data, made.loop(), made.library(), made.unit()
    answer, narrow = data.answer, data.answer.element.roundoff > data.accumulate.roundoff
    place = made.at(answer, "i", "j")
    multiples = [(name, size) for name, size in zip(SIZES, astuple(lesson.shapes.multiple_of), strict=True) if size > 1]
    flags = "-O3 -std=c++17 -lineinfo" + f" -Xptxas {','.join(lesson.of_ptxas)}" * bool(lesson.ptxas)
    arch = "native" if architecture[-1].isdigit() else architecture  # sm_90a: code for that architecture only
    libraries = "-lcublas " if library else ""
    found: dict[str, object] = {
        "name": lesson.name,
        "title": f"{lesson.number:02} {lesson.title}",
        "label": f"lesson {lesson.number:02}",
        "formula": data.formula.text,
        "origin": origin,
        "compile": f"nvcc {flags} -arch={arch} main.cu {libraries}-o gemm",
        "flags": flags,
        "arch": arch,
        "libraries": libraries,
        "default": astuple(made.default),
        "example": astuple(made.example),
        "choices": made.choices(),
        "again": f"gemm-lessons export {lesson.number:02}"
        + f" --type {lesson.type}" * bool(lesson.type)
        + f" --layout {made.default.layout}" * (made.default.layout != LAYOUTS[0]),
        "multiples": multiples,
        "usage": "".join(f"; {name}: a multiple of {size}" for name, size in multiples),
        "type_headers": sorted({TYPE_HEADERS[b.element.name] for b in data.buffers if b.element.name in TYPE_HEADERS}),
        "headers": [name for name, _ in kernel.headers],
        "tile": lesson.tile.sizes,
        "macros": made.macros(),
        "kernel": kernel.text.strip("\n"),
        "buffers": made.buffers(),
        "launches": made.launches(),
        "product": loop,
        "cublas": library,
        "epilogue": made.epilogue(),
        "answer": {
            "name": answer.name,
            "type": answer.element.c_name,
            "number": as_double(answer.element, f"answer[{place}]"),
            "product": as_double(answer.element, f"product[{place}]"),
        },
        "floats": data.accumulate.is_float,
        "signed": all(b.element.storage.startswith("int") for b in data.buffers),
        "unit": f"2^{exponent}",
        "exponent": exponent,
        "magnitude": made.magnitude(),
        "probable": f"{PROBABLE:g}",
        "extra": EPILOGUE,
        "final": f" + std::ldexp(std::abs(expected), {-answer.element.precision})" if narrow else "",
        "bounded": data.formula.has_functions,
        "smallest": round(math.log2(data.accumulate.least_normal)) if data.accumulate.is_float else 0,
        "divided": DIVISION_ROUNDINGS,
        "functions": FUNCTION_ROUNDINGS,
        "ranges": any(buffer.range for buffer in data.buffers),
        "product_final": f" + std::ldexp(std::abs({as_double(answer.element, f'product[{place}]')}), "
        f"{-answer.element.precision})"
        if narrow
        else "",
        "scalars": [
            (data.accumulate.c_name, name, value)
            for name, value in made.scalars().items()
            if name in data.formula.names or any(name in launch.parameters for launch in lesson.launches)
        ],
    }
    return found | {"kernel": named_in_pragmas(str(found["kernel"]), found)}
