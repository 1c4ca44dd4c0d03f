"""PTX of other compilers: run as it is, with the answers, findings and lines that its source would give."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from checks import forks
from checks.compiling import must_compile
from checks.inspect.test_inspect import inspect
from gemm_lessons import simulate
from gemm_lessons.course.documents import PAGES as DOCS
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.compiler.ptx_file import read_ptx
from gemm_lessons.engine.compiler.source import entries

TILE = Path(__file__).parent / "tile.cu"
LAUNCH = ["--grid", "2,3", "--block", "64"]
ARGS = ["--args", "A=f32[M,K],B=f32[K,N],C=out f32[M,N],M=96,N=64,K=40", "--expect", "C = A @ B"]


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """With the line table that NVRTC gives it."""
    return must_compile(TILE.read_text(), path=str(TILE), entry="tile<32, 4>")


@pytest.fixture(scope="module")
def tile(compiled) -> str:
    return compiled.ptx


def without_lines(ptx: str) -> str:
    return re.sub(r"^\s*\.(?:loc|file)\s.*\n", "", ptx, flags=re.M)


def test_it_runs_as_its_source_does(tile, tmp_path):
    file = tmp_path / "tile.ptx"
    file.write_text(tile + "\0")  # as some compilers end it
    done = inspect(str(file), *LAUNCH, *ARGS)
    assert done.returncode == 0, done.stdout + done.stderr
    ours, of_source = (
        json.loads(done.stdout),
        json.loads(inspect(str(TILE), "--entry", "tile<32, 4>", *LAUNCH, *ARGS).stdout),
    )
    assert ours["error"] == of_source["error"]
    exact = [name for name in ours["counters"] if re.search(r"global_(?!bytes_waited)|ffma|barriers", name)]
    assert {name: ours["counters"][name] for name in exact} == {name: of_source["counters"][name] for name in exact}
    assert "counted on PTX" in ours["inexact"]["memory_l1_wavefronts_shared"]
    assert {it["file"] for it in ours["lines"]} == {str(TILE)}


def test_without_a_line_table_its_own_lines_are_shown(tile, tmp_path):
    file = tmp_path / "tile.ptx"
    file.write_text(without_lines(tile).replace("bar.sync", "//bar.sync"))
    done = inspect(str(file), *LAUNCH, *ARGS)
    assert done.returncode == 1
    lines = file.read_text().splitlines()
    found = json.loads(done.stdout)["findings"]
    assert {it["kind"] for it in found} == {"race"}
    for it in found:
        assert it["file"] == str(file)
        for number in re.findall(r"line (\d+)", it["message"]):
            assert re.search(r"\b(ld|st)\.shared", lines[int(number) - 1])
    shown = inspect(str(file), *LAUNCH, *ARGS, json_output=False).stdout
    assert re.search(r"^ +\d+ \| st\.shared\.f32", shown, re.M)
    assert "registers" not in shown, "ptxas alone knows how many"


def test_each_statement_has_the_line_that_it_begins_in():
    text = (
        ".version 8.0\n// for everybody\n\n.target sm_80\n.global .b8 t[4] = {\n1, 2,\n3, 4};\n"
        ".visible .entry k(\n.param .u64 p\n)\n{\n.reg .b64 %a; /* not\nhere */\n.reg .pred %p;\n"
        "ld.param.u64 %a,\n  [p];\nsetp.eq.u64 %p, %a,\n0;\n@%p bra $L;\n"
        "{\n.reg .b32 t;\nmov.u32 t, 1; st.u32 [%a], t;\n}\n$L:\nret;\n}\n"
    )  # fmt: skip
    assert entries(text) == ["k"]
    compiled = read_ptx(text, 'a "b".ptx', "k")
    assert isinstance(compiled, Compiled)
    from gemm_lessons.engine.ptx.parser import parse

    (kernel,) = [parse(compiled.ptx).kernels["k"]]
    where = {i.opcode: (i.source.file, i.source.line) for i in kernel.instructions if i.source}
    assert [line for _, line in where.values()] == [15, 17, 19, 22, 22, 25]
    assert {file for file, _ in where.values()} == {r"a \"b\".ptx"}


def test_it_runs_from_python():
    source = 'extern "C" __global__ void twice(float *x, float by) { x[threadIdx.x] *= by; }'
    compiled = must_compile(source, entry="twice")
    x = np.arange(32, dtype=np.float32)
    launched = simulate(without_lines(compiled.ptx), "twice", 1, 32, [x, 2.5], path="k.ptx")
    assert (x == 2.5 * np.arange(32)).all()
    assert launched.counters["global_load_sectors"] == 4
    with pytest.raises(ValueError, match="takes 2 arguments"):
        simulate(compiled.ptx, "twice", 1, 32, [x])
    with pytest.raises(Exception, match=r"has no kernel twic; its kernels: twice"):
        simulate(compiled.ptx, "twic", 1, 32, [x, 2.5])


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (("", ""), ["--arch", "sm_80"], "t.ptx is PTX, which is already compiled: leave --arch out"),
        (("", ""), ["-D", "A=1", "-I", "."], "leave --define and --include out"),
        (("", ""), ["--std", "c++20"], "leave --std out"),
        ((".entry", ".func"), [], "t.ptx has no .entry: there is no kernel to run"),
        ((".version", ".v"), [], "t.ptx:1: not PTX: a .ptx file begins with .version and .target"),
        (("fma.rn.f32", "fma.rn.f31"), [], "in line {line}: unsupported PTX: fma.rn.f31"),
        (("bar.sync", "tcgen05.fence; bar.sync"), [], "in line {line}: unsupported PTX: tcgen05"),
        (("\n}\n", "\n"), [], "a kernel body is not closed"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_said(tile, tmp_path, change, options, says):
    file = tmp_path / "t.ptx"
    text = without_lines(tile)
    file.write_text(text.replace(*change))
    line = text[: text.index(change[0])].count("\n") + 1
    done = inspect(str(file), *LAUNCH, *ARGS, *options)
    assert done.returncode in (2, 3)
    assert says.format(line=line) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lesson_wants_its_source(tile, tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text(tile)
    done = forks.run(["run", "03", "--file", str(file)])
    assert done.returncode == 1
    assert "gemm-lessons inspect runs PTX" in " ".join(done.stdout.split())


@pytest.mark.parametrize("lines", [True, False])
def test_with_its_machine_code_it_is_counted_and_estimated_as_its_source(compiled, tmp_path, lines):
    (tmp_path / "tile.ptx").write_text(compiled.ptx if lines else without_lines(compiled.ptx))
    (tmp_path / "tile.cubin").write_bytes(compiled.cubin)
    done = inspect(str(tmp_path / "tile.ptx"), *LAUNCH, *ARGS)
    assert done.returncode == 0, done.stdout + done.stderr
    ours = json.loads(done.stdout)
    of_source = json.loads(inspect(str(TILE), "--entry", "tile<32, 4>", *LAUNCH, *ARGS).stdout)
    for it in (*ours["lines"], *of_source["lines"]):
        it["file"] = Path(it["file"]).name
    for what in ("counters", "inexact", "estimate", "error", *(["lines"] if lines else [])):
        assert ours[what] == of_source[what]
    shown = inspect(str(tmp_path / "tile.ptx"), *LAUNCH, *ARGS, json_output=False).stdout
    assert f"{compiled.resources.registers} registers" in shown
    other = inspect(str(tmp_path / "tile.ptx"), *LAUNCH, *ARGS, "--gpu", "a100")
    assert json.loads(other.stdout)["estimate"]["refused"].startswith("its machine code is for sm_90, and A100 needs")


SUM = 'extern "C" __global__ void k(float *x, int n) { x[threadIdx.x] = x[threadIdx.x] + n; }'


@pytest.mark.parametrize(
    ("change", "arch", "says"),
    [
        (("k(", "l("), "sm_90", "the cubin is not of k.ptx: it has no kernel k, only l"),
        (("", ""), "sm_80", "the cubin is not of k.ptx: it is for sm_80, the PTX for sm_90"),
        (("int n", "double n"), "sm_90", "its parameters have 8, 8 bytes, those of the PTX 8, 4"),
        (("= x[threadIdx.x]", "= x[threadIdx.x + 1]"), "sm_90", "k.ptx and its cubin are of different sources: "),
        (None, "", "the file given as cubin is none: it is not a 64-bit ELF file"),
    ],
)
def test_machine_code_of_another_kernel_is_told(tmp_path, monkeypatch, change, arch, says):
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(must_compile(SUM, entry="k").ptx)
    entry = "l" if change == ("k(", "l(") else "k"
    data = b"k" if change is None else must_compile(SUM.replace(*change), entry=entry, arch=arch).cubin
    Path("other.cubin").write_bytes(data)
    launch = ["--grid", "1", "--block", "32", "--args", "x=inout f32[64],n=2"]
    done = inspect("k.ptx", *launch, "--cubin", "other.cubin")
    assert done.returncode == 2, done.stdout
    assert says in " ".join(done.stderr.split())
    Path("k.cu").write_text(SUM)
    assert "leave --cubin out" in inspect("k.cu", *launch, "--cubin", "other.cubin").stderr


HEADER = """
__device__ float turned(float *x, int i) {
    __shared__ float s[64];
    s[i] = x[i];
    return s[63 - i];
}
"""
TESTED = """
#define AT(p) "r"((unsigned)__cvta_generic_to_shared(p))
__device__ int over(unsigned long long *b, unsigned parity) {
    int yes;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
        : "=r"(yes) : AT(b), "r"(parity) : "memory");
    return yes;
}
"""
INIT = 'if (!threadIdx.x) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: AT(&b) : "memory"); __syncthreads();'
BOTH = "extern __shared__ float d[];\n__device__ void put(int i) {\n    d[i] = i;\n}\n"


@pytest.mark.parametrize(
    ("header", "body", "says", "quoted"),
    [
        (HEADER, "x[threadIdx.x] = turned(x, threadIdx.x);", "race in own.cuh: s, byte", []),
        (
            BOTH,
            "put(threadIdx.x); x[threadIdx.x] = d[63 - threadIdx.x];",
            "(line 3 is of own.cuh, line 5 of k.cu)",
            ["5 |"],
        ),
        (
            TESTED,
            f"__shared__ unsigned long long b; {INIT} x[threadIdx.x] = over(&b, 3);",
            "mbarrier in own.cuh: in line 5, the mbarrier b is tested for parity 3",
            [],
        ),
    ],
)
def test_a_finding_in_an_included_file_names_it_and_quotes_no_other(tmp_path, header, body, says, quoted):
    (tmp_path / "own.cuh").write_text(header)
    kernel = tmp_path / "k.cu"
    kernel.write_text(f'#include "own.cuh"\n__global__ void k(float *x) {{\n//\n//\n{body}\n//\n}}\n')
    launch = ["--grid", "1", "--block", "64", "--dynamic-shared", "256", "--args", "x=inout f32[64]"]
    shown = inspect(str(kernel), *launch, json_output=False).stdout
    assert says in " ".join(shown.split())
    assert re.findall(r"\d+ \|", shown) == quoted


def test_tritons_kernel_of_the_page_on_other_languages(tmp_path):
    """The counters are those that the page quotes. Its swizzle leaves no conflict."""
    page = (DOCS / "elsewhere.md").read_text()
    command = page.split("gemm-lessons inspect gemm.ptx ")[1].split("```")[0].replace("\\\n", " ")
    done = inspect(str(TILE.with_name("triton_gemm.ptx")), *shlex.split(command))
    assert done.returncode == 0, done.stdout + done.stderr
    counters = json.loads(done.stdout)["counters"]
    assert counters["memory_l1_wavefronts_shared"] == counters["memory_l1_wavefronts_shared_ideal"]
    assert f"{counters['memory_l1_wavefronts_shared']:,} wavefronts" in page


@pytest.mark.parametrize("row", range(16))
def test_the_swizzle_of_cute_is_that_of_lesson_mma(row):
    """``Swizzle<3, 3, 3>``: of an offset, bits 3 to 5 are xored with bits 6 to 8."""
    for col in range(64):
        offset = 64 * row + col
        assert offset ^ (offset >> 3 & 0b111000) == 64 * row + (col // 8 ^ row % 8) * 8 + col % 8
