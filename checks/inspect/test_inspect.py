"""``gemm-lessons inspect`` from the command line, on kernels that the course does not know."""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from checks import forks
from checks.compiling import must_compile
from checks.simulator.phase_cases import BOX
from gemm_lessons.course.documents import PAGES
from gemm_lessons.engine.arguments.parameters import declared
from gemm_lessons.engine.arguments.text import ArgumentError, build
from gemm_lessons.engine.simulator import Simulator

TILE = Path(__file__).parent / "tile.cu"
VIEWS = Path(__file__).parent / "views.cu"
GEMM = ["--entry", "tile<32, 4>", "--grid", "2,3", "--block", "64"]
ARGS = "A=f32[M,K],B=f32[K,N],C=out f32[M,N],M=96,N=64,K=40"


def inspect(*arguments: str, json_output: bool = True) -> subprocess.CompletedProcess[str]:
    return forks.run(["inspect", *arguments, *(["--json"] if json_output else [])])


def test_a_template_with_any_signature_runs_and_is_right():
    done = inspect(str(TILE), *GEMM, "--args", ARGS, "--expect", "C = A @ B")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["clean"]
    assert 0 <= result["error"] <= result["tolerance"]
    assert result["counters"]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 96 * 64 * 40
    assert {line["line"] for line in result["lines"]} <= set(range(1, 40))


def test_a_kernel_that_was_stopped_has_no_empty_table():
    far = ARGS.replace("A=f32[M,K]", "A=f32[K]")
    done = inspect(str(TILE), *GEMM, "--args", far, json_output=False)
    assert done.returncode == 1
    assert "FAULT" in done.stdout
    assert "Nsight Compute's name" not in done.stdout


def test_counters_that_may_be_otherwise_say_why():
    where = [str(TILE), *GEMM, "--args", ARGS, "--arch", "sm_110"]
    shown = " ".join(inspect(*where, json_output=False).stdout.split())
    assert (
        "Nsight Compute may count differently: counted on PTX: the constant bank of sm_110 is not known (all" in shown
    )
    assert "smsp__inst_executed.sum" in json.loads(inspect(*where).stdout)["inexact"]


def test_the_object_is_what_the_page_says():
    text = (PAGES / "json.md").read_text()
    said = text[text.index('{"schema": "gemm-lessons/inspect/1"') :].partition("```")[0]
    result = json.loads(inspect(str(TILE), *GEMM, "--args", ARGS).stdout)
    assert re.findall(r'"(\w+)":', said) == list(result)
    (lines,) = re.findall(r'"lines": \[{(.*?)}\]', said)
    assert re.findall(r'"(\w+)"', lines) == list(result["lines"][0])


def test_numbers_that_numpy_lacks_are_expected_as_numbers(tmp_path):
    """The relative error was 1: raw bits were taken as integers."""
    kernel = tmp_path / "k.cu"
    kernel.write_text("""
#include <cuda_bf16.h>
extern "C" __global__ void k(const __nv_bfloat16 *A, const __nv_bfloat16 *B, __nv_bfloat16 *C, int K)
{
    float sum = 0;
    for (int k = 0; k < K; k++)
        sum += float(A[threadIdx.y * K + k]) * float(B[threadIdx.x * K + k]);
    C[threadIdx.y * 16 + threadIdx.x] = __float2bfloat16(sum);
}
""")
    launch = ["--grid", "1", "--block", "16,16", "--args", "A=bf16[16,K],B=bf16[16,K],C=out bf16[16,16],K=40"]
    done = inspect(str(kernel), *launch, "--expect", "C = A @ B.T")
    assert done.returncode == 0, done.stdout
    assert 0 < json.loads(done.stdout)["error"] < 0.01
    assert inspect(str(kernel), *launch, "--expect", "C = A @ B.T + A @ B.T").returncode == 1


def test_a_wrong_expectation_fails():
    done = inspect(str(TILE), *GEMM, "--args", ARGS, "--expect", "C = 2 * A @ B")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["error"] == pytest.approx(0.5, rel=1e-3)


def test_warnings_are_findings_for_the_headline_too(tmp_path):
    kernel = tmp_path / "k.cu"
    kernel.write_text(
        "__global__ void k(float *x) { __shared__ float s[32]; if (threadIdx.x) s[threadIdx.x] = 1; __syncthreads();"
        " x[threadIdx.x] = s[threadIdx.x ^ 1] > 0; }\n"
    )
    where = [str(kernel), "--entry", "k", "--grid", "1", "--block", "32", "--args", "x=out f32[32]"]
    shown = inspect(*where, json_output=False).stdout
    assert "uninitialised" in shown
    assert "ran, but see the findings" in shown
    (finding,) = json.loads(inspect(*where).stdout)["findings"]
    assert finding["severity"] == "warning"


ONE = "__global__ void one(float *x, int) { x[threadIdx.x] = 1; }"


def test_the_compilers_warnings_are_shown(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *x)\n{\n    x[threadIdx.x] = pow(x[threadIdx.x], 2);\n}\n")
    launch = ["--grid", "1", "--block", "32", "--args", "x=inout f32[32]", "--no-estimate"]
    shown = " ".join(inspect(str(tmp_path / "k.cu"), *launch, json_output=False).stdout.split())
    assert "Compiler warnings line 3: pow(float, int) is in float here" in shown


def test_structs_by_value_scalars_and_inout():
    done = inspect(
        str(VIEWS), "--entry", "scaled", "--grid", "3", "--block", "32,8",
        "--args", "a=view.T f32[M,K],b=view f32[K,N],C=inout f64[M,N],alpha=1.5,beta=0.25,M:=20,N:=24,K:=7",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["unwritten"] == {}


def test_unwritten_elements_are_counted():
    done = inspect(str(TILE), "--entry", "tile<32, 4>", "--grid", "1,3", "--block", "64", "--args", ARGS)
    assert json.loads(done.stdout)["unwritten"] == {"C": 96 * 32}


# Bodies that write 32 elements, and how many they miss. What is stored may be what was there: all ones is -1, and NaN.
STORED = [
    ("int", "i32[32]", "y[t] = -1;", 0),
    ("int", "i32[32]", "if (t < 31) y[t] = -1;", 1),
    ("int", "i32[32]", "if (t & 1) y[t] = -1; else y[t] = 0;", 0),
    ("int", "i32[32]", "if (t < 16) y[t] = -1; else if (t < 20) y[t] = 3;", 12),
    ("int", "i32[32]", "if (t < 8) ((int4 *)y)[t] = make_int4(-1, -1, -1, -1);", 0),
    ("int", "i32[32]", "if (t < 7) ((int4 *)y)[t] = make_int4(-1, 0, -1, -1);", 4),
    ("int", "i32[32]", "if (t < 9) atomicOr(y + t, 7);", 23),
    ("signed char", "i8[32]", "y[t] = -1;", 0),
    ("signed char", "i8[32]", "if (t < 5) ((int *)y)[t] = -1;", 12),
    ("double", "f64[32]", "((int2 *)y)[t] = make_int2(-1, -1);", 0),
    ("double", "f64[32]", "if (t < 40 / 2) ((int *)y)[t] = -1;", 22),
    ("float", "f32[32]", "if (t != 3) y[t] = __int_as_float(-1);", 1),
    ("int", "inout i32[32]", "if (t < 31) y[t] = -1;", 0),
]


# All in one program, which is compiled and disassembled once.
STORING = "".join(
    f'extern "C" __global__ void k{number}({kind} *y) {{ const int t = threadIdx.x; {body} }}\n'
    for number, (kind, _, body, _) in enumerate(STORED)
)


@pytest.mark.parametrize("number", range(len(STORED)), ids=[body for _, _, body, _ in STORED])
def test_what_was_stored_counts_whatever_it_is(tmp_path, number):
    _, array, _, missing = STORED[number]
    kernel = tmp_path / "k.cu"
    kernel.write_text(STORING)
    given = array if "inout" in array else f"out {array}"
    launch = [str(kernel), "--entry", f"k{number}", "--grid", "1", "--block", "32", "--args", f"y={given}"]
    done = inspect(*launch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["unwritten"] == ({"y": missing} if missing else {})
    shown = inspect(*launch, json_output=False).stdout
    assert (f"{missing} elements of y were never written" in shown) == bool(missing)


def test_what_is_stored_through_a_pointer_into_an_array_or_a_struct_counts(tmp_path):
    kernel = tmp_path / "k.cu"
    launch = [str(kernel), "--grid", "1", "--block", "32", "--args"]
    kernel.write_text("__global__ void k(int *x, int *y) { y[threadIdx.x] = -1; }\n")
    assert json.loads(inspect(*launch, "x=out i32[64],y=x+32").stdout)["unwritten"] == {"x": 32}
    view = "struct Matrix { float *data; int rows, cols, row_stride, col_stride; };\n"
    kernel.write_text(view + "__global__ void k(Matrix y) { y.data[threadIdx.x] = __int_as_float(-1); }\n")
    assert json.loads(inspect(*launch, "y=out view f32[4,8]").stdout)["unwritten"] == {}
    assert json.loads(inspect(*launch, "y=out view f32[5,8]").stdout)["unwritten"] == {"y": 8}


def test_a_fault_is_shown_with_its_line_and_source():
    done = inspect(
        str(TILE), "--entry", "tile<32, 4>", "--grid", "3,3", "--block", "64", "--args", ARGS, json_output=False
    )
    assert done.returncode == 1
    assert "FAULT" in done.stdout
    assert "past its end" in done.stdout
    assert "Bs[" in done.stdout


def test_what_a_kernel_prints_is_shown_and_how_much_was_cut(tmp_path):
    kernel = tmp_path / "speaks.cu"
    kernel.write_text(
        'extern "C" __global__ void k(float *x) { printf("%d: \\x1b%g\\n", threadIdx.x, x[threadIdx.x]); }'
    )
    done = inspect(
        str(kernel), "--entry", "k", "--grid", "3", "--block", "96", "--args", "x=f32[96]", json_output=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.split("Printed by the kernel\n")[1].splitlines()
    assert lines[0].startswith("  0: ?")
    assert lines[199].startswith("  7: ?"), "block 2 begins after 192"
    assert "The first 200 of 288 calls of printf, by block and thread." in done.stdout


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (f"{ONE} {ONE.replace('one', 'two')}", "k.cu has 2 kernels (one, two): choose, like --entry one"),
        (f"template <int N> {ONE}", "k.cu:1: template <int N> one(float *x, int) is a template: name an instance"),
        ("int f();", "k.cu has no __global__ function"),
        ("\n", "k.cu is empty\n"),
        (ONE, "takes 2 parameters (float *x, int), --args gives 1"),
    ],
)
def test_the_only_kernel_of_a_file_needs_no_name(tmp_path, source, says):
    file = tmp_path / "k.cu"
    launch = [str(file), "--grid", "1", "--block", "32"]
    file.write_text(ONE)
    assert inspect(*launch, "--args", "x=out f32[32],i=0").returncode == 0
    file.write_text(source)
    done = inspect(*launch, "--args", "x=out f32[32]")
    assert done.returncode == 2
    assert says in done.stderr


BAD = {
    "too few": (ARGS.replace(",K=40", ",K:=40"), "takes 6 parameters (const float *A"),
    "no value": (ARGS + ",x", '"x" is not understood'),
    "unknown size": (ARGS.replace("[M,K]", "[M,Q]"), "Q"),
    "unknown word": (ARGS.replace("out f32", "output f32"), "output"),
    "zero size": (ARGS.replace("K=40", "K=0"), "at least 1"),
    "twice": (ARGS.replace("N=64", "M=64"), "given twice"),
    "scalar for a pointer": (ARGS.replace("C=out f32[M,N]", "C=1.5").replace("M=96", "M=f32[4]"), "M"),
    "huge": (ARGS.replace("M=96", "M=96000000"), "at most"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_with_exit_code_2(name):
    arguments, words = BAD[name]
    done = inspect(str(TILE), *GEMM, "--args", arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "option", [["--grid", "0"], ["--grid", "a,b"], ["--block", "2048"], ["--expect", "D = A @ B"],
               ["--expect", "C = A @ A"], ["--expect", "C = open(A)"], ["--expect", "C = A @"], ["--arch", "hopper"],
               ["--arch", "sm_999"], ["--include", "no/such/folder"]],
)  # fmt: skip
def test_bad_options_are_refused(option):
    done = inspect(str(TILE), *GEMM, "--args", ARGS, *option)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_does_not_compile_and_one_that_is_not_there(tmp_path):
    broken = tmp_path / "broken.cu"
    broken.write_text("__global__ void k(float *x) { x[0] = ; }\n")
    done = inspect(str(broken), "--entry", "k", "--grid", "1", "--block", "1", "--args", "x=out f32[1]")
    assert done.returncode == 1
    assert json.loads(done.stdout)["compile_errors"][0]["line"] == 1
    missing = inspect(str(tmp_path / "no.cu"), "--entry", "k", "--grid", "1", "--block", "1", "--args", "x=out f32[1]")
    assert missing.returncode == 2
    assert "no.cu" in missing.stderr


@pytest.mark.parametrize(
    ("include", "header", "advice"),
    [
        ("sizes.h", "include/sizes.h", "-I {}/../include"),
        ("../common/sizes.h", "common/sizes.h", "-I {}/../common"),
        ("sizes.h", "other/sizes.h", "-I FOLDER"),
        ("sizes.h", "kernels/sizes.h", ""),
    ],
)
def test_the_folder_of_a_header_that_was_not_read_is_named(tmp_path, include, header, advice):
    """It is searched for beside the file's folder and those above; a file that compiles needs no advice."""
    (tmp_path / header).parent.mkdir(exist_ok=True)
    (tmp_path / header).write_text("#define SIZE 8\n")
    kernel = tmp_path / "kernels/k.cu"
    kernel.parent.mkdir(exist_ok=True)
    kernel.write_text(f'#include "{include}"\n__global__ void k(int *x) {{ x[0] = SIZE; }}\n')
    launch = ["inspect", str(kernel), "--grid", "1", "--block", "1", "--args", "x=out i32[1]", "--no-estimate"]
    done = forks.run(launch)
    said = done.stdout.replace("\n", "")
    assert done.returncode == (1 if advice else 0), done.stdout + done.stderr
    assert advice.format(kernel.parent) in said
    assert ("-I names a folder of headers" in said) == bool(advice)
    if "/" in advice:
        assert forks.run([*launch, "-I", advice.format(kernel.parent).removeprefix("-I ")]).returncode == 0


def test_the_opcode_table_lists_what_runs_and_what_does_not():
    done = forks.run(["opcodes", "--json"])
    assert done.returncode == 0
    table = json.loads(done.stdout)
    assert "fma.rn.f32" in table["forms"]
    assert {"ld", "bar", "shfl", "cp"} <= table["supported"].keys()
    assert "tcgen05" in table["unsupported"]
    assert not set(table["unsupported"]) & table["supported"].keys()


@pytest.mark.parametrize("opcode", ["tcgen05", "nonsense"])
def test_an_unsupported_opcode_is_said_to_be_so(opcode):
    done = forks.run(["opcodes", opcode])
    assert done.returncode == 2
    assert "not supported" in done.stderr


BLUR = Path(__file__).parent / "blur.cu"
LAUNCH = [str(BLUR), "--entry", "blur", "--grid", "8", "--block", "128"]
BLURRED = "x=ones f32[1026],y=out f32[1024],middle=x+1"
VARIABLES = ["--symbol", "weights=ones f32[3]", "--symbol", "ns::scale=1.5", "--symbol", "total=out i32[1]"]


def test_pointers_into_arrays_and_variables_by_name():
    done = inspect(*LAUNCH, "--args", BLURRED, *VARIABLES, "--expect", "y = 4.5", json_output=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "total = 1124" in done.stdout
    done = inspect(*LAUNCH, "--args", "x=inout f32[1026],y=x,middle=x+W,W:=1", "--symbol", "seen=inout i32[2]")
    result = json.loads(done.stdout)
    assert "race" in {finding["kind"] for finding in result["findings"]}, "y is x, and its neighbours are read"
    assert result["variables"]["seen"][1] == 7
    wrong = inspect(*LAUNCH, "--args", BLURRED, "--symbol", "weight=f32[3]")
    assert wrong.returncode == 2
    assert "__constant__ weights" in wrong.stderr


@pytest.fixture(scope="module")
def blur():
    """Builds what ``blur`` gets from text, as ``inspect`` does."""
    compiled = must_compile(BLUR.read_text(), path=str(BLUR), entry="blur")
    variable = partial(Simulator().variable, compiled)
    return partial(build, kernel=Simulator().kernel(compiled), variable=variable, seed=0)


def test_what_pointers_and_variables_are(blur):
    given = blur("x=index f32[8,2],y=x,middle=x+2*N,N:=3", ["total=7, seen=out i32[2]"])
    first, second, third = given.arguments
    assert (second.offset, third.offset) == (0, 24)
    assert first.array is second.buffer.array is third.buffer.array
    assert given.arrays["middle"].tolist() == list(range(6, 16))
    total, seen = given.symbols
    assert (total.array.tobytes(), total.given) == (b"\7\0\0\0", True)
    assert (seen.array.shape, seen.given) == ((2,), False)


@pytest.mark.parametrize(
    ("arguments", "symbols", "words"),
    [
        ("x=f32[8],y=out f32[1024],middle=x+9", [], "x has 8 elements, x\\+9 is past its end"),
        ("x=f32[8],y=out f32[1024],middle=x+0-1", [], "at least 0"),
        ("x=f32[8],y=out f32[1024],middle=x+", [], "not arithmetic"),
        ("x=f32[8],y=out f32[1024],middle=z+1", [], "uses z"),
        ("x=view f32[8,8],y=out f32[1024],middle=x+1", [], "view"),
        (BLURRED, ["weight=f32[3]"], "it has __constant__ weights"),
        (BLURRED, ["weights=f32[4]"], "weights: the variable has 12 bytes, the array 16"),
        (BLURRED, ["total=f32[1]"], "total: the variable is an integer, the array of type float32"),
        (BLURRED, ["total=1.5"], "total: 1.5 does not fit"),
        (BLURRED, ["weights=inout f32[3]"], "is __constant__"),
        (BLURRED, ["weights=view f32[1,3]"], "a view"),
        (BLURRED, ["total:=3"], "names a size"),
        (BLURRED, ["total=1", "total=2"], "given twice"),
        (BLURRED, ["x=f32[3]"], "given twice"),
        (BLURRED, ["weights"], "not understood"),
    ],
)
def test_bad_pointers_and_variables_are_named(blur, arguments, symbols, words):
    with pytest.raises(ArgumentError, match=words):
        blur(arguments, symbols)


MAPS = (
    "a=index f32[20,64] box[8,32] swizzle 128,out=out f32[8,32] box[8,32] swizzle 128,raw=out f32[256],"
    "x=0,y=0,x2=0,y2=0"
)


def test_a_file_in_another_standard(tmp_path):
    file = tmp_path / "k.cu"
    file.write_text(
        "template <class T> concept Small = sizeof(T) <= 4;\n"
        "template <Small T> __device__ T twice(T x) { return 2 * x; }\n"
        'extern "C" __global__ void k(const float *x, float *y) { y[threadIdx.x] = twice(x[threadIdx.x]); }\n'
    )
    launch = ("--grid", "1", "--block", "32", "--args", "x=f32[32], y=out f32[32]", "--expect", "y = 2 * x")
    assert inspect(str(file), *launch, "--std", "c++20").returncode == 0
    assert inspect(str(file), *launch).returncode == 1


@pytest.mark.parametrize("by_pointer", [False, True])
def test_tensor_maps_by_their_boxes(tmp_path, by_pointer):
    """A box of 8 x 32 goes through shared memory, where it is swizzled, and comes out as it was."""
    kernel = tmp_path / "box.cu"
    source = BOX
    if by_pointer:
        for old, new in (("const __grid_constant__ Map ", "const Map *"), ("&in,", "in,"), ("&out,", "out,")):
            source = source.replace(old, new)
    kernel.write_text(source)
    launch = [str(kernel), "--entry", "k", "--grid", "1", "--block", "32", "--dynamic-shared", "2048"]
    done = inspect(*launch, "--args", MAPS.replace("f32[20,64]", "f32[8,32]"), "--expect", "out = a")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["error"] == 0
    assert result["unwritten"] == {}
    taller = MAPS.replace("out=out f32[8,32]", "out=out f32[16,32]")  # the box is half of it
    assert json.loads(inspect(*launch, "--args", taller).stdout)["unwritten"] == {"out": 256}
    for arguments, words in {
        MAPS.replace("box[8,32] swizzle 128", "box[8,16] swizzle 32", 1): "no longer",
        MAPS.replace("box[8,32]", "box[8]", 1): "a size of the box for each",
        MAPS.replace("f32[20,64]", "f32[20,61]"): "multiples of 16 bytes",
        MAPS.replace("raw=out f32[256]", "raw=out f32[16,16] box[8,8]"): "the parameter has 8 bytes (float *raw)",
        MAPS.replace("a=index", "a=view"): "not both",
    }.items():
        done = inspect(*launch, "--args", arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stdout + done.stderr
    done = inspect(*launch, "--args", MAPS.replace("a=index f32[20,64] box[8,32] swizzle 128", "a=index f32[20,64]"))
    words = "the address does not hold a tensor map" if by_pointer else "128 bytes, no pointer"
    assert (done.returncode, words in done.stdout + done.stderr) == (2 - by_pointer, True), done.stdout + done.stderr
    kernel.write_text(source.replace("wait(&bar, 0);", ""))
    done = inspect(*launch, "--args", MAPS)
    assert done.returncode == 1
    assert "async_in_flight" in {it["kind"] for it in json.loads(done.stdout)["findings"]}


TEXTURES = """
__device__ float between[8];
__global__ void blend(cudaTextureObject_t t, cudaSurfaceObject_t s)
{
    int x = threadIdx.x, row = blockIdx.x;
    surf2Dwrite(tex2D<float>(t, x + 0.5f, row + 0.5f), s, x * 4, row);
    if (row == 0)
        between[x] = tex2D<float>(t, x + 1.0f, 0.5f); // between two elements, if the filter is linear
}
"""


@pytest.mark.parametrize(
    ("words", "between"),
    [
        ("linear", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.0]),
        ("", [1, 2, 3, 4, 5, 6, 7, 7]),
        ("border", [1, 2, 3, 4, 5, 6, 7, 0]),
    ],
)
def test_textures_and_surfaces_are_arguments(tmp_path, words, between):
    """The array of a texture is filled as any other; that of a surface is checked as an output."""
    kernel = tmp_path / "blend.cu"
    kernel.write_text(TEXTURES)
    launch = ["inspect", str(kernel), "--grid", "4", "--block", "8", "--no-estimate", "--json"]
    told = f"t=texture {words} index f32[4,8],s=out surface f32[4,8]"
    done = forks.run([*launch, "--args", told, "--symbol", "between=out f32[8]", "--expect", "s = t"])
    result = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert result["variables"]["between"] == between
    wrong = forks.run([*launch, "--args", told, "--expect", "s = 2 * t"])
    assert wrong.returncode == 1


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("t=out texture f32[4,8]", "kernels read textures"),
        ("t=linear f32[4,8]", "linear is of a texture"),
        ("t=surface linear f32[4,8]", "linear is of a texture"),
        ("t=texture view f32[4,8]", "not both"),
        ("t=texture cubic f32[4,8]", "not known"),
        ("t=f32[4,8]", "no texture or surface object is among the arguments"),
    ],
)
def test_a_texture_that_is_not_one_is_refused(tmp_path, argument, words):
    kernel = tmp_path / "blend.cu"
    kernel.write_text(TEXTURES)
    written = "surface" if "t=f32" not in argument else "out"
    args = f"{argument},s={written} f32[4,8]"
    done = forks.run(["inspect", str(kernel), "--grid", "4", "--block", "8", "--args", args, "--no-estimate"])
    assert done.returncode in (2, 3)
    assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_an_array_of_another_type_is_named_as_it_is_written():
    source = 'extern "C" __global__ void k(const uint4 *x, int *y) { y[threadIdx.x] = x->x; }'
    compiled = must_compile(source, entry="k")
    kernel, variable = Simulator().kernel(compiled), partial(Simulator().variable, compiled)
    with pytest.raises(ArgumentError, match='x: an array of bf16 was given for "const uint4 '):
        build("x=bf16[8],y=out i32[8]", (), kernel, variable, 0, declared(source, kernel, "k"))
