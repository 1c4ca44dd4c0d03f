"""``gemm-lessons export``: what the device runs is the lesson's kernel, compiled by NVRTC. The host's part is compiled
by g++ against fake headers, and run, with a kernel on the CPU in the place of the GPU's."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from checks.export.kinds import KINDS, lesson_of
from gemm_lessons.course.folder import CommandError, packaged_course, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.tiles import in_layout
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.export import cplusplus
from gemm_lessons.export.folder import HOST, Exported, export_lesson
from gemm_lessons.export.program import LARGE, named_in_pragmas
from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.formula import Formula
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
SPLIT_K = Path(__file__).parents[1] / "course" / "kernels" / "90_split_k"
TEXTURED = COURSE.lessons_dir / COURSE.resolve("two_warps")
MAPPED = [COURSE.lessons_dir / name for name in COURSE.names if COURSE.lesson(name).data.maps]
REFUSED = (TEXTURED, COURSE.lessons_dir / COURSE.resolve("first_kernel"), *MAPPED)
LESSONS = [path for name in COURSE.names if (path := COURSE.lessons_dir / name) not in REFUSED] + [SPLIT_K]
FAKE = Path(__file__).parent / "fake"
COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (g++)")

# Kernels for the CPU. WRONG=product leaves one product out, WRONG=store one element.
PLAIN = """
#include <cstdlib>
#include <cstring>
static bool wrong(const char *how) { return std::getenv("WRONG") && !std::strcmp(std::getenv("WRONG"), how); }
static void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float acc = 0.0f;
            for (int k = 0; k < K - (wrong("product") && i == M - 1 && j == 2); k++)
                acc += A[i * K + k] * B[k * N + j];
            if (!wrong("store") || i != 1 || j != N - 1)
                C[i * N + j] = acc;
        }
}
"""
TURNED = """
static void gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float acc = 0.0f;
            for (int k = 0; k < K; k++)
                acc += A[k * lda + i] * B[k * ldb + j];
            C[i * ldc + j] = acc;
        }
}
"""
SPLIT = """
static void partial_products(const __half *A, const __half *B, float *P, int M, int N, int K, int ldb)
{
    for (int i = 0; i < M * N; i++) {
        P[i] = P[M * N + i] = P[2 * M * N + i] = 0.0f;
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += (float)A[i / N * K + k] * (float)B[i % N * ldb + k];
        P[3 * M * N + i] = sum;
    }
}
static void add_slices(const float *P, const float *bias, float *C, int M, int N)
{
    for (int i = 0; i < M * N; i++) {
        const float sum = P[i] + P[M * N + i] + P[2 * M * N + i] + P[3 * M * N + i] + bias[i % N];
        C[i] = sum > 0.0f ? sum : 0.0f;
    }
}
"""


def exported(lesson: Lesson, folder: Path, kernel: str | None = None) -> Exported:
    path = lesson.solution_path
    if kernel is not None:
        folder.mkdir(exist_ok=True)
        path = folder / "kernel.cu"
        path.write_text(kernel)
    return export_lesson(lesson, path, folder / "out", "sm_90")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every lesson's reference, exported."""
    folder = tmp_path_factory.mktemp("export")
    return {path.name: exported(load_lesson(path), folder / path.name).folder for path in LESSONS}


def instructions(ptx: str) -> list[str]:
    """Instructions of all kernels in PTX, without comments and debug directives."""
    code = ptx.partition(".entry")[2].partition(".section")[0]
    return [line for line in code.splitlines() if not re.match(r"\s*(\.loc|\.file|//|$)", line)]


@pytest.mark.parametrize(
    "path",
    [pytest.param(it, id=it.name, marks=() if n % 3 == 0 else pytest.mark.long) for n, it in enumerate(LESSONS)],
)
def test_the_device_runs_the_lesson_s_kernel(programs: dict[str, Path], path: Path) -> None:
    lesson, main = load_lesson(path), programs[path.name] / "main.cu"
    counted, lesson = lesson.at(lesson.shapes.count), lesson.at(LARGE)
    entries = dict.fromkeys(launch.entry for launch in lesson.launches)
    there = compile_source(main.read_text(), path=str(main), entry=next(iter(entries)), arch="compute_90")  # PTX only
    here = compile_source(
        lesson.solution_path.read_text(),
        path=shown(lesson.solution_path),  # as a run names it: it may have been compiled already
        entry=next(iter(entries)),
        defines=lesson.tile.defines,
        include_dirs=lesson.include_dirs,
        arch="sm_90" if lesson.tile == counted.tile else "compute_90",  # nobody else compiles it for this shape
    )
    assert isinstance(there, Compiled), there.log
    assert isinstance(here, Compiled)
    assert all(f".entry {entry}(" in here.ptx for entry in entries), "one text holds all of its kernels"
    assert instructions(there.ptx) == instructions(here.ptx)


def built(main: Path, kernel: str) -> Path:
    """The program with ``kernel`` instead of its own, compiled by g++ against the fakes."""
    source = main.read_text()
    constants = re.findall(r"^constexpr int .*;\n", source, re.M)
    device, host = source.index("// ---"), source.index(HOST)
    text = "".join((source[:device], *constants, kernel, source[host:]))
    text, launches = re.subn(r"(\w+)<<<(\w+), (\w+)>>>\(", r"(void)\2, (void)\3, \1(", text)
    assert launches
    program = main.with_name("program")
    on_cpu = main.with_name("on_cpu.cpp")
    on_cpu.write_text(text)
    assert COMPILER
    done = subprocess.run(
        [COMPILER, "-std=c++17", "-Wall", "-Werror", "-Wno-sign-compare", f"-I{FAKE}", str(on_cpu), "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def plain(programs: dict[str, Path]) -> Path:
    name = next(name for name in COURSE.names if load_lesson(COURSE.lessons_dir / name).shapes.multiple_of.m > 1)
    return built(programs[name] / "main.cu", PLAIN)


def run_program(program: Path, *sizes: int, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, sizes)], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@needs_compiler
def test_the_host_checks_times_and_cleans_up(plain: Path) -> None:
    done = run_program(plain, 128, 256, 64)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert said[0].endswith("on a fake GPU: M, N, K = 128, 256, 64")
    assert re.fullmatch(
        r"right: 128 of 128 rows compared with the CPU's, off by \S+ at most, 0\.00026 allowed", said[1]
    )
    assert said[2].startswith("right: all rows compared with cuBLAS's")
    assert re.fullmatch(r"lesson \d\d +300\.0000 ms +0\.00 TFLOP/s", said[3])
    assert re.fullmatch(r"cuBLAS +300\.0000 ms +0\.00 TFLOP/s", said[4])
    assert said[5].startswith("100.0% of cuBLAS (medians of 5 launches each")


@needs_compiler
@pytest.mark.parametrize(("how", "where"), [("product", r"C\[127, 2\]"), ("store", r"C\[1, 127\] is -?nan")])
def test_the_host_finds_a_wrong_kernel(plain: Path, how: str, where: str) -> None:
    done = run_program(plain, 128, 128, 64, WRONG=how)
    assert done.returncode == 1
    assert re.search(f"WRONG: {where}", done.stdout), done.stdout
    assert "1 elements are wrong" in done.stdout
    assert "TFLOP" not in done.stdout, "a wrong kernel's time means nothing"


@needs_compiler
def test_the_host_refuses_sizes_and_says_what_fails(plain: Path) -> None:
    for sizes in ((128, 128), (128, 100, 64), (0, 128, 64), (1, 2, 3, 4)):
        done = run_program(plain, *sizes)
        assert done.returncode == 2, sizes
        assert "usage" in done.stderr
        assert "N: a multiple of 128" in done.stderr
    assert "too large" in run_program(plain, 65536, 65536, 64).stderr
    failed = run_program(plain, 128, 128, 64, FAKE_LAUNCH_FAILS="1")
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (3, "launch of gemm: an error")


@needs_compiler
def test_halves_columns_scratch_and_an_epilogue(programs: dict[str, Path]) -> None:
    program = built(programs["90_split_k"] / "main.cu", SPLIT)
    done = run_program(program, 33, 17, 70)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "right: all rows compared with cuBLAS's" in done.stdout


SMOOTH = "C = relu(sqrt(1 + exp(0.1 * (A @ B))) - 1) / (2 + tanh(C)) + max(log(3 + C), 0.25)"
SMOOTH_ON_CPU = """
#include <cmath>
#include <cstdlib>
static void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const char *how = std::getenv("WRONG");
    const int wrong = how ? std::atoi(how) : 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float acc = 0.0f;
            for (int k = 0; k < K - (wrong == 1 && i == 5 && j == 2); k++)
                acc += A[i * K + k] * B[k * N + j];
            const float old = C[i * N + j], e = std::exp(0.1f * acc) * (wrong == 2 ? 1.0001f : 1.0f);
            const float root = std::sqrt(1.0f + e) - 1.0f;
            const float below = wrong == 3 ? old : std::tanh(old);
            C[i * N + j] = std::fmax(root, 0.0f) / (2.0f + below) + std::fmax(std::log(3.0f + old), 0.25f);
        }
}
"""


@needs_compiler
def test_a_formula_with_functions_is_compared_within_its_own_bound(tmp_path: Path) -> None:
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    lesson = replace(lesson, data=DataSpec.plain("ABCMNK", formula=SMOOTH))
    program = built(exported(lesson, tmp_path).folder / "main.cu", SMOOTH_ON_CPU)
    done = run_program(program, 33, 17, 70)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"right: 33 of 33 rows compared with the CPU's, off by \S+ at most\n", done.stdout)
    assert "right: all rows compared with cuBLAS's" in done.stdout
    for how in ("1", "2", "3"):
        assert run_program(program, 33, 17, 70, WRONG=how).returncode == 1, how


def test_functions_are_written_in_both_ways() -> None:
    formula = Formula("C = tanh(0.1 * (A @ B)) / 2 - max(exp(-C), relu(bias))")
    names = {"C": "<C>", "bias": "<b>"}
    assert cplusplus.element(formula, names, "product") == (
        "std::tanh(0.1 * product) / 2.0 - std::max(std::exp((-<C>)), std::max(<b>, 0.0))"
    )
    assert cplusplus.bounded(formula, names, "product", 2.0**-24) == (
        "tanh(Bounded{0.1, 5.96046e-09} * product) / Bounded{2.0, 0}"
        " - max(exp((-Bounded{<C>, 0.0})), max(Bounded{<b>, 0.0}, Bounded{0.0, 0}))"
    )


def test_a_range_of_a_buffer_is_the_program_s_range(tmp_path: Path) -> None:
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    data = DataSpec.plain("ABCMNK", formula="C = exp(A @ B)")
    ranged = replace(data.by_name["A"], range=(-0.5, 0.25))
    data = DataSpec.plain("ABCMNK", formula="C = exp(A @ B)", buffers=[ranged])
    text = (exported(replace(lesson, data=data), tmp_path).folder / "main.cu").read_text()
    assert "fill_range(host.A, 1, -0.5f, 0.25f);" in text
    assert "fill_random(host.B, 2);" in text
    assert "std::ldexp(roundings, -24) * (K * 0.5);" in text
    assert max(map(len, text.splitlines())) <= 140


@needs_compiler
def test_sizes_that_want_another_kernel_are_refused(tmp_path: Path) -> None:
    """A lesson's host chooses a kernel for each launch; an exported program has one kernel."""
    lesson = in_layout(COURSE.lesson("any_shape"), "TN")
    path = lesson.solution_path
    made = export_lesson(lesson, path, tmp_path / "out", "sm_90", Shape(34, 30, 9, layout="TN"))
    main = (made.folder / "main.cu").read_text()
    chosen = {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", main)}
    assert {name: chosen[name] for name in ("TRANS_A", "TRANS_B", "WIDTH_A", "WIDTH_B", "PREFETCH")} == {
        "TRANS_A": 1, "TRANS_B": 0, "WIDTH_A": 2, "WIDTH_B": 2, "PREFETCH": 1,
    }  # fmt: skip
    program = built(made.folder / "main.cu", TURNED)
    for sizes in ((), (34, 30, 9), (66, 2, 5)):
        done = run_program(program, *sizes)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for sizes, why in (((33, 30, 9), "WIDTH_A is 2; here it should be 1"), ((4098, 4098, 9), "PREFETCH is 1; here")):
        done = run_program(program, *sizes)
        assert done.returncode == 2
        assert why in done.stderr
        assert f"gemm-lessons export {lesson.number:02} --layout TN --shape {','.join(map(str, sizes))}" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_cublas_is_asked_for_the_same(tmp_path: Path, kind: str) -> None:
    """The calls of cuBLAS are those that ``python -m checks.export`` tested on a GPU."""
    text = (exported(lesson_of(kind, tmp_path), tmp_path / "program").folder / "main.cu").read_text()
    call = KINDS[kind].call
    assert re.sub(r"\s+", " ", call) in re.sub(r"\s+", " ", text)
    assert bool(call) == ("#include <cublas_v2.h>" in text)


def test_a_makefile_and_a_text_for_those_who_have_none_of_this(programs: dict[str, Path]) -> None:
    for name, folder in programs.items():
        main, makefile, text = ((folder / file).read_text() for file in ("main.cu", "Makefile", "README.md"))
        names = {path.name for path in folder.iterdir()}
        included = set(re.findall(r'#include "(.+)"', main))
        assert included <= names, name
        assert all(header in makefile and f"`{header}`" in text for header in included)
        [line] = re.findall(r"nvcc .*", main)
        assert line in text
        told = " -Xptxas --opt-level=3,--register-usage-level=5" * name.endswith("beat_cublas")
        assert f"\t$(NVCC) -O3 -std=c++17 -lineinfo{told} -arch=$(ARCH) main.cu -lcublas -o gemm\n" in makefile
        assert max(map(len, main.splitlines())) <= 140
        assert not re.search(r"\{\{ |\{%|None|Undefined", main + makefile + text)


def test_a_tile_size_that_the_preprocessor_asks_for_is_a_macro(tmp_path: Path) -> None:
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    source = lesson.solution_path.read_text()
    asked = exported(lesson, tmp_path, source.replace("extern", "#if BM > 16 && BN > 16\n#endif\nextern", 1))
    assert "#define BM 32\n" in (asked.folder / "main.cu").read_text()
    assert asked.backups == ()
    again = exported(lesson, tmp_path, source)
    assert "constexpr int BM = 32;\n" in (again.folder / "main.cu").read_text()
    assert [path.name for path in again.backups] == ["main.cu.bak-1"], "what was there is kept"
    assert "#define BM 32\n" in again.backups[0].read_text()
    assert exported(lesson, tmp_path, source).backups == (), "nothing changed"


def test_headers_of_the_learner_travel_along(tmp_path: Path) -> None:
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.cuh").write_text('#pragma once\n#include "two.cuh"\n')
    (tmp_path / "parts" / "two.cuh").write_text("#pragma once\n")
    made = exported(lesson, tmp_path, '#include "parts/one.cuh"\n' + lesson.solution_path.read_text())
    names = [path.relative_to(made.folder).as_posix() for path in made.files]
    assert names == ["main.cu", "matrix.cuh", "parts/one.cuh", "parts/two.cuh", "Makefile", "README.md"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gemm(const", "gem(const", "there is no kernel named gemm. The lesson launches extern"),
        (", int K)", ")", "gemm takes 5 parameters"),
        ("extern", "#define M 5\nextern", "gives the name M a meaning"),
        ("extern", "static int median(int x) { return x; }\nextern", "gives the name median a meaning"),
        ("extern", "int main() { return 0; }\nextern", "has a main function"),
        ("extern", "#define BM 64\nextern", "defines BM, which lesson.toml defines"),
        ("extern", '#include "../two.cuh"\nextern', "outside of its folder"),
    ],
)
def test_what_would_not_compile_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "two.cuh").write_text("")
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    with pytest.raises(CommandError, match=re.escape(message)):
        exported(lesson, tmp_path / "work", lesson.solution_path.read_text().replace(old, new, 1))
    assert not (tmp_path / "work" / "out").exists(), "nothing was written"


def test_a_lesson_of_textures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="its kernels read A through a texture"):
        exported(load_lesson(TEXTURED), tmp_path / "work")


def test_pointers_to_vectors_are_cast(tmp_path: Path) -> None:
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    parameters = "const float4 *__restrict__ A, float const *B, float *C, int M, int N, int K"
    kernel = f'extern "C" __global__ void gemm({parameters}) {{}}'
    text = (exported(lesson, tmp_path, kernel).folder / "main.cu").read_text()
    assert "gemm<<<grid, block>>>(reinterpret_cast<const float4 *>(device.A), device.B, device.C, M, N, K);" in text


def other(**data: object) -> Lesson:
    """A lesson like 01 with other data."""
    lesson = load_lesson(COURSE.lessons_dir / COURSE.resolve("naive"))
    return replace(lesson, data=replace(lesson.data, **data))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lesson", "message"),
    [
        (other(formula=Formula("C = A + B")), "is not of one product of two matrices"),
        (other(formula=Formula("C = A @ B + transpose(C)")), "transpose(C)"),
        (other(formula=Formula("C = exp(A @ B - max(C, axis=1))")), "takes whole rows or columns together"),
        (load_lesson(SPLIT_K.with_name("92_row_softmax")), "takes whole rows or columns together"),
        (replace(other(), data=DataSpec.plain("ABCMNK", a="tf32", b="tf32")), "A holds tf32"),
        (replace(other(), data=DataSpec.plain("ABCMNK", a="int8", b="int8", c="float32", accumulate="int32")), "mixes"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_named(tmp_path: Path, lesson: Lesson, message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)):
        exported(lesson, tmp_path)
    assert not list(tmp_path.iterdir())


def test_arithmetic_is_the_same_in_both_languages() -> None:
    places = [{"M": 64, "N": 32, "K": 16, "BM": 16}, {"M": 128, "N": 32, "K": 48, "BM": 16}]

    def code(text: str) -> str:
        return cplusplus.arithmetic(Expression.parse(text, places[0]), places)

    assert code("ceil_div(M, BM)") == "(M + BM - 1) / BM"
    assert code("ceil_div(M + N, BM * 2) - 1") == "(M + N + BM * 2 - 1) / (BM * 2) - 1"
    assert code("M / BM * (N // 8 % 3)") == "M / BM * (N / 8 % 3)"
    assert code("max(M, N, K) - (N - K)") == "std::max(std::max(M, N), K) - (N - K)"
    for wrong in ("M / 48", "(K - 32) // 8", "M * 0.5", "K % (M - 64)"):
        with pytest.raises(CommandError, match="cannot be exported"):
            code(wrong)


def test_formulas_and_their_magnitudes() -> None:
    formula = Formula("C = relu(alpha * (A @ B) - beta * C) - -2")
    names = {name: f"<{name}>" for name in ("alpha", "beta", "C")}
    assert cplusplus.element(formula, names, "product") == "std::max(<alpha> * product - <beta> * <C>, 0.0) - (-2.0)"
    assert cplusplus.magnitude(formula, names, "K") == "<alpha> * K + <beta> * <C> + 2.0"


def test_pragmas_name_numbers_where_sizes_are_macros() -> None:
    """nvcc does not look for macros there; a constant it finds."""
    text, sizes = "#pragma unroll BK\n #pragma unroll (AHEAD)\n#pragma unroll 4\n", [("BK", 8)]
    assert named_in_pragmas(text, {"macros": True, "tile": sizes}) == text.replace("BK", "8")
    assert named_in_pragmas(text, {"macros": False, "tile": sizes}) == text


def test_other_types(tmp_path: Path) -> None:
    """The program is of that type, and says so where it asks for another one; what it cannot show is refused."""
    split, mma, precision = (COURSE.lessons_dir / COURSE.resolve(name) for name in ("split_k", "mma", "precision"))
    lesson = load_lesson(split, "atomics")
    export_lesson(lesson, lesson.solution_path, tmp_path / "atomics", COURSE.architecture)
    text = (tmp_path / "atomics" / "main.cu").read_text()
    assert f"gemm-lessons export {lesson.number} --type atomics --shape" in text
    assert "clear<<<" in text
    halves = load_lesson(precision)
    export_lesson(halves, halves.solution_path, tmp_path / "halves", COURSE.architecture)
    assert "#define SCALE 64" in (tmp_path / "halves" / "main.cu").read_text()
    for folder, type_, why in ((mma, "tma", "tensor map"), (precision, "tf32", "tf32")):
        lesson = load_lesson(folder, type_)
        with pytest.raises(CommandError, match=why):
            export_lesson(lesson, lesson.solution_path, tmp_path / type_, COURSE.architecture)
        assert not (tmp_path / type_).exists()
