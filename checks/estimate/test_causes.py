"""Why one kernel is slower than another: pairs that differ in one thing, and pairs that do not differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.estimate.causes import PAIRS, page_table, pairs
from checks.estimate.table import rewritten
from checks.estimate.texts import PAGE
from checks.forks import run
from gemm_lessons.commands.comparing import Difference, of_launches
from gemm_lessons.engine.estimate.causes import CAUSES, Cause
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.inspection import InspectRequest
from gemm_lessons.engine.records.launch import Grid

TRANSPOSE = """#define T 32
extern "C" __global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[T][T];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    for (int j = 0; j < T; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * T + threadIdx.x; y = blockIdx.x * T + threadIdx.y;
    for (int j = 0; j < T; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
PADDED = TRANSPOSE.replace("tile[T][T]", "tile[T][T + 1]")
SUM = """extern "C" __global__ void sums(const float *x, float *y, int n)
{
    int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    float a = 0, b = 1, c = 2, d = 3;
    for (int i = 0; i < n; i++) {
#pragma unroll 8
        for (int k = 0; k < 64; k++) {
            a = a * a + 1; b = b * b + 1; c = c * c + 1; d = d * d + 1;
        }
    }
    y[first] = x[first % all] + a + b + c + d;
}
"""
CHAIN = SUM.replace("a = a * a + 1; b = b * b + 1; c = c * c + 1; d = d * d + 1;", "a = a * a + 1; a = a * a + 1; "
                    "a = a * a + 1; a = a * a + 1;")  # fmt: skip
DOUBLES = SUM.replace("float a", "double a")
COPY = """extern "C" __global__ void copy(const float *x, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i];
}
"""
AGAIN = """extern "C" __global__ void again(const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i % 4096];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
STACK = """extern "C" __global__ void stack(const float *x, float *y, int n)
{
    float kept[128];
    for (int i = 0; i < 128; i++)
        kept[i] = x[(threadIdx.x + i * n) % 4096];
    for (int i = 0; i < n; i++)
        kept[i * 7 % 128] += 1;
    y[blockIdx.x * blockDim.x + threadIdx.x] = kept[n % 128];
}
"""
STRIDED = AGAIN.replace("x[i % 4096]", "x[i * 32 % 4096]")
MANY = (GPUS["h200"].sms * 4, 1, 1), (256, 1, 1)
SQUARE = "in=f32[1024,1024], out=out f32[1024,1024], n=1024"
LINE = "x=f32[135168], y=out f32[135168], n={}"


def difference(first: str, second: str, launch: tuple[object, ...], args: str, gpu: str = "h200") -> Difference:
    names = [source.split("void ")[1].partition("(")[0] for source in (first, second)]
    requests = [
        InspectRequest(source, f"{name}{number}.cu", name, Grid(*launch), args, gpu=GPUS[gpu])  # type: ignore[arg-type]
        for number, (name, source) in enumerate(zip(names, (first, second), strict=True))
    ]
    found = of_launches(requests[0], requests[1])
    assert isinstance(found, Difference), found
    for kernel in (found.first, found.second):
        assert sum(kernel.shares.values()) == pytest.approx(kernel.time_us), "shares add up to the time"
        assert set(kernel.shares) == set(CAUSES)
    assert sum(it.time_us for it in found.costs) == pytest.approx(found.time_us, abs=1e-6)
    large, rest = found.split
    assert sum(it.time_us for it in large) + rest == pytest.approx(found.time_us, abs=1e-6)
    return found


@pytest.mark.parametrize(
    ("first", "second", "launch", "args", "cause", "line"),
    [
        (PADDED, TRANSPOSE, ((32, 32, 1), (32, 8, 1)), SQUARE, "conflicts", 11),
        (AGAIN, STRIDED, MANY, LINE.format(8192), "requests", 5),
        (STACK, STACK.replace("i < n;", "i < 4 * n;"), MANY, LINE.format(32), "spills", 7),
        (SUM, CHAIN, ((132, 1, 1), (128, 1, 1)), LINE.format(4), "waiting", 8),
        (SUM, DOUBLES, ((132, 1, 1), (512, 1, 1)), LINE.format(2), "arithmetic", 8),
        (SUM, SUM.replace("i < n", "i < 2 * n"), MANY, LINE.format(1), "arithmetic", 8),
    ],
    ids=["conflicts", "requests", "local memory", "waiting", "doubles", "twice the work"],
)
def test_what_was_changed_is_the_largest_cause(
    first: str, second: str, launch: tuple[object, ...], args: str, cause: Cause, line: int
) -> None:
    found = difference(first, second, launch, args)
    assert found.time_us > 0
    worst = found.costs[0]
    assert worst.cause == cause, found.costs
    assert worst.kernel is found.second
    assert worst.lines[0].line == line
    back = difference(second, first, launch, args)
    assert back.time_us == pytest.approx(-found.time_us)
    assert back.costs[0].cause == worst.cause
    assert back.costs[0].kernel is back.first, "the lines are those of the kernel that loses"


@pytest.mark.parametrize(("source", "gpu"), [(PADDED, "h200"), (TRANSPOSE, "t4"), (COPY, "rtx3090")])
def test_a_kernel_is_not_slower_than_itself(source: str, gpu: str) -> None:
    launch = ((32, 32, 1), (32, 8, 1)) if "transpose" in source else MANY
    found = difference(source, source, launch, SQUARE if "transpose" in source else LINE.format(1000), gpu)
    assert found.time_us == 0
    assert not any(it.time_us for it in found.costs)
    assert found.split == ((), 0)


def test_blocks_that_do_not_fill_the_last_wave() -> None:
    """One block more than multiprocessors: the second wave has one."""
    args, block = LINE.replace("135168", "271360").format(4), (1024, 1, 1)
    small, large = (InspectRequest(SUM, f"{n}.cu", "sums", Grid((n, 1, 1), block), args) for n in (264, 265))
    found = of_launches(small, large)
    assert isinstance(found, Difference)
    assert found.costs[0].cause == "waves"
    assert found.costs[0].lines == (), "no line is at fault"


def test_what_has_no_estimate_says_why() -> None:
    wrong = InspectRequest(COPY.replace("y[i]", "z[i]"), "b.cu", "copy", Grid(*MANY), LINE.format(8))
    right = InspectRequest(COPY, "a.cu", "copy", Grid(*MANY), LINE.format(8))
    assert "b.cu: it does not compile for sm_90: b.cu:4:" in str(of_launches(right, wrong))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The transpose with and without padding."""
    for name, source in (("a.cu", PADDED), ("b.cu", TRANSPOSE)):
        (tmp_path / name).write_text(source)
    return [str(tmp_path / "a.cu"), str(tmp_path / "b.cu")]


CHAIN = """extern "C" __global__ void follow(const int *next, int *out)
{
    __shared__ int room[ROOM];
    int at = blockIdx.x * 256 + threadIdx.x;
    for (int i = 0; i < 16; i++)
        at = next[at];
    room[threadIdx.x] = at;
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = room[threadIdx.x ^ 1];
}
"""


def test_fewer_warps_are_told(tmp_path: Path) -> None:
    """More of the waiting shows, and no line says that shared memory is why."""
    for name, room in (("a.cu", "256"), ("b.cu", "12000")):
        (tmp_path / name).write_text(CHAIN.replace("ROOM", room))
    launch = ["--grid", "2048", "--block", "256", "--args", "next=zeros i32[524288], out=out i32[524288]"]
    told = " ".join(run(["compare", str(tmp_path / "a.cu"), str(tmp_path / "b.cu"), *launch]).stdout.split())
    assert "Warps that fit on a multiprocessor: 64 of the first, limited by warps" in told
    assert "32 of the second, limited by shared memory." in told


def test_two_files(files: list[str]) -> None:
    launch = ["--grid", "32,32", "--block", "32,8", "--args", SQUARE]
    told = run(["compare", *files, *launch])
    assert told.returncode == 0, told.stderr
    assert "more than the first" in told.stdout
    assert "bank conflicts" in told.stdout.splitlines()[1]
    assert "second: line 11 (100%)" in told.stdout
    assert "Warps that fit" not in told.stdout, "equally many"
    found = json.loads(run(["compare", *files, *launch, "--json"]).stdout)
    assert found["schema"] == "gemm-lessons/compare/1"
    assert sum(it["time_us"] for it in found["causes"]) == pytest.approx(found["difference_us"])
    assert [it["path"] for it in found["kernels"]] == files
    assert found["causes"][0] == {**found["causes"][0], "cause": "conflicts", "kernel": files[1]}
    assert found["causes"][0]["lines"] == [{"file": files[1], "line": 11, "share": 1.0}]


def test_two_versions_of_a_lessons_kernel(tmp_path: Path) -> None:
    lesson = Path(__file__).parents[2] / "lessons" / "03_block_tile" / "solution.cu"
    (tmp_path / "b.cu").write_text(lesson.read_text().replace("float Bs[BK][BN];", "float Bs[BK][BN + 31];"))
    found = json.loads(run(["compare", str(lesson), str(tmp_path / "b.cu"), "--lesson", "03", "--json"]).stdout)
    assert found["no_estimate"] is None
    assert sum(it["time_us"] for it in found["causes"]) == pytest.approx(found["difference_us"], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "two files need their launch: --grid, --block and --args"),
        (("--grid", "4", "--block", "32"), "--args is missing"),
        (("--grid", "4", "--block", "32", "--args", "n=4"), "takes 3 parameters"),
        (("--grid", "4", "--grid", "4", "--grid", "4", "--block", "32", "--args", "n=4"), "at most one for each"),
        (("--lesson", "99"), "99"),
    ],
)
def test_files_without_a_launch_are_told(files: list[str], options: tuple[str, ...], words: str) -> None:
    told = run(["compare", *files, *options])
    assert told.returncode == 2
    assert words in told.stderr.replace("\n", " ")


def test_lessons_and_files_do_not_mix(files: list[str]) -> None:
    for arguments in ([files[0], "03"], ["02", "03", "--lesson", "03"], ["02", "03", "--grid", "4"]):
        told = run(["compare", *arguments])
        assert told.returncode == 2
        assert "file" in told.stderr


@pytest.mark.slow
def test_a_pair_whose_cause_is_known() -> None:
    one = ["block_tile B transposed"]
    assert [it.edit for it in pairs(one) if it.told] == one


@pytest.mark.long
def test_ten_pairs_whose_cause_is_known() -> None:
    found = list(pairs())
    assert len(found) == len(PAIRS) == 10
    assert [it.edit for it in found if not it.told] == []
    text = PAGE.read_text()
    assert rewritten(text, {"causes": page_table(found)}) == text, "python -m checks.estimate.causes --write"
