"""Benchmarks: estimates on the simulator, measurements on the stand-in for a GPU, a file that can be resumed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from checks import forks
from checks.gpu.test_device import compiled
from checks.readings import FOLDER
from gemm_lessons.cli.gpu import parse_layouts, parse_shapes, parse_sizes, squares
from gemm_lessons.commands import bench
from gemm_lessons.commands.bench import BenchRequest
from gemm_lessons.commands.points import CUBLAS, Point, append, label, read, shape_of
from gemm_lessons.course.folder import CommandError, Course, WriteError, packaged_course
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
DATA = FOLDER / "gpu"
H200 = find_gpu("h200")


def copy_lessons(root: Path) -> Course:
    for name in ("01_naive", "02_coalesced", "common"):
        shutil.copytree(COURSE.lessons_dir / name, root / "lessons" / name)
    return Course(root)


@pytest.fixture
def copied(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Lessons 01 and 02 to change, with their solutions. At one place, as what was compiled is kept by it."""
    root = tmp_path_factory.getbasetemp() / "benched"
    if root.exists():
        shutil.rmtree(root)
    return copy_lessons(root)


@dataclass(frozen=True)
class Done:
    """A benchmark of both lessons as they came: its result, its steps, what it counted, its file."""

    result: bench.Result
    steps: list[tuple[int, int, str]]
    counted: list[str]
    csv: str


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("bench")
    steps: list[tuple[int, int, str]] = []
    csv = folder / "new" / "out.csv"
    with pytest.MonkeyPatch.context() as patch:
        seen = count_calls(patch)
        request = simulated(copy_lessons(folder / "course"), csv, "01", "02")
        return Done(bench.run_bench(request, lambda *step: steps.append(step)), steps, seen, csv.read_text())


def simulated(course: Course, csv: Path | None, *names: str, sizes: tuple[int, ...] = (128, 256)) -> BenchRequest:
    return BenchRequest(course, [course.lesson(name) for name in names], squares(sizes), Simulated(), H200, csv)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were counted anew; the real thing happens all the same."""
    return count_calls(monkeypatch)


def count_calls(patch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    real = bench._count

    def count(request: BenchRequest, series: bench._Series, shapes: Sequence[Shape]) -> bench._Series | bench.Note:
        seen.append(series.name)
        return real(request, series, shapes)

    patch.setattr(bench, "_count", count)
    return seen


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("128:8192", (128, 256, 512, 1024, 2048, 4096, 8192)),
        ("100:500", (100, 200, 400)),
        ("64", (64,)),
        ("512, 100,512", (100, 512)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    "text", ["", "a", "8:4", "0:4", "0", "1:2:3", "-5", "1e3", ",", ",".join(map(str, range(1, 70)))]
)
def test_sizes_that_cannot_be(text: str) -> None:
    with pytest.raises(CommandError, match="--sizes"):
        parse_sizes(text)


def test_shapes_and_layouts() -> None:
    assert parse_shapes("128x64x8192, 1x2x3 128x64x8192") == [Shape(128, 64, 8192), Shape(1, 2, 3)]
    assert parse_layouts("nn, TN,nn") == ["NN", "TN"]
    assert parse_layouts(None) == ["NN"]


@pytest.mark.parametrize("text", ["", "128", "1x2", "0x1x1", "1x2x3x4", "1,2,3", "axbxc", "1x1x1," * 65])
def test_shapes_that_cannot_be(text: str) -> None:
    with pytest.raises(CommandError, match="--shapes"):
        parse_shapes(text)


def test_layouts_that_cannot_be() -> None:
    with pytest.raises(CommandError, match='--layout "XX" is none of NN, NT'):
        parse_layouts("NN,XX")


@pytest.mark.parametrize("shape", [Shape(4096, 4096, 4096), Shape(128, 64, 32), Shape(7, 7, 7, layout="TN")])
def test_a_shape_s_label_is_read_back(shape: Shape) -> None:
    assert shape_of(label(shape)) == shape


# Lesson coalesced with a row of A by WIDTH floats at a time, if it lies along K, and other blocks for a large M.
CHOICES = """
[choices]
TRANS_A = "trans_a"
WIDTH = "gcd(4, lda) * (1 - trans_a) + trans_a"
BM = "4 + 4 * min(1, M // 2048)"

[shapes]
layouts = ["NN", "TN"]
check = [[5, 33, 8, "NN"], [5, 33, 7, "NN"], [3, 5, 7, "TN"]]
count = [8, 32, 8]
"""
CHOOSING = """
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k += WIDTH) {
        struct alignas(4 * WIDTH) { float of[WIDTH]; } a;
        a = *reinterpret_cast<decltype(&a)>(const_cast<float *>(A + (TRANS_A ? k * M + row : row * K + k)));
        for (int i = 0; i < WIDTH; i++)
            acc += a.of[i] * B[(k + i) * N + col];
    }
    C[row * N + col] = acc;
}
"""


def test_a_lesson_whose_host_chooses_is_estimated_as_it_is_launched_at_each_shape(
    copied: Course, tmp_path: Path
) -> None:
    """Narrow accesses where lines are odd, larger blocks where M is large."""
    folder = copied.lessons_dir / "02_coalesced"
    toml = (folder / "lesson.toml").read_text()
    before, after = toml.index("[shapes]"), toml.index("[[gates]]")
    sizes = "\n".join(line for line in toml[:before].splitlines() if not line.startswith("BM ="))
    (folder / "lesson.toml").write_text(sizes + CHOICES + toml[toml.index("[[todo]]", after) :])
    (folder / "solution.cu").write_text(CHOOSING)
    choosing = copied.lesson("coalesced")
    other = Shape(64, 64, 64, layout="NT")
    shapes = [Shape(1024, 1024, 64), Shape(1024, 1024, 63), Shape(4096, 4096, 64, layout="TN")]
    request = BenchRequest(copied, [choosing], [*shapes, other], Simulated(), H200, tmp_path / "out.csv")
    result = bench.run_bench(request)
    wide, narrow, turned = result.points
    assert [it.shape for it in (wide, narrow, turned)] == shapes
    assert narrow.time_us > 1.05 * wide.time_us
    assert len({it.flop_per_byte for it in (wide, narrow, turned)}) == 3
    assert result.notes == ("02_coalesced cannot take 64x64x64 NT: A and B have layout NT, but it takes NN, TN.",)
    assert [it.key for it in read(tmp_path / "out.csv")] == [it.key for it in result.points]


def test_estimates_are_marked_and_kept(done: Done, tmp_path: Path) -> None:
    assert [(point.series, point.shape.m) for point in done.result.points] == [
        ("01_naive", 128), ("02_coalesced", 128), ("01_naive", 256), ("02_coalesced", 256),
    ]  # fmt: skip
    for point in done.result.points:
        assert (point.kind, point.gpu, point.of_cublas, point.launches) == ("estimated", "H200", None, 0)
        assert point.gflops == pytest.approx(2 * point.shape.m**3 / point.time_us / 1e3)
        assert point.limiter
        assert point.flop_per_byte is not None
    assert done.counted == ["01_naive", "02_coalesced"]
    assert done.steps[0][:2] == (0, 4)
    assert done.steps[-1][:2] == (4, 4)
    (tmp_path / "out.csv").write_text(done.csv)
    assert [point.key for point in read(tmp_path / "out.csv")] == [point.key for point in done.result.points]


def test_what_is_there_is_not_done_again(done: Done, copied: Course, tmp_path: Path, counted: list[str]) -> None:
    csv = tmp_path / "out.csv"
    csv.write_text(done.csv)
    again = bench.run_bench(simulated(copied, csv, "01", "02"))
    assert counted == []
    assert again.reused == 4
    assert [point.key for point in again.points] == [point.key for point in done.result.points]
    more = bench.run_bench(simulated(copied, csv, "01", "02", sizes=(128, 512)))
    assert counted == ["01_naive", "02_coalesced"]
    assert more.reused == 2
    assert len(read(csv)) == 6


@pytest.mark.parametrize(
    "what", ["lessons/01_naive/solution.cu", "lessons/01_naive/lesson.toml", "lessons/common/matrix.cuh"]
)
def test_what_changed_is_done_again(done: Done, copied: Course, tmp_path: Path, counted: list[str], what: str) -> None:
    csv = tmp_path / "out.csv"
    csv.write_text(done.csv)
    assert bench.run_bench(simulated(copied, csv, "01")).reused == 2
    path = copied.root / what
    text = path.read_text()
    path.write_text(text.replace("BM = 32", "BM = 16") if path.suffix == ".toml" else text + "\n// changed\n")
    assert path.read_text() != text
    assert bench.run_bench(simulated(copied, csv, "01")).reused == 0
    assert counted == ["01_naive"]


def test_a_line_that_was_cut_off_is_done_again(done: Done, copied: Course, tmp_path: Path) -> None:
    csv = tmp_path / "out.csv"
    whole = "".join(line for line in done.csv.splitlines(keepends=True) if "02_coalesced" not in line)
    assert len(whole.splitlines()) == 3
    csv.write_text(whole[:-30])
    result = bench.run_bench(simulated(copied, csv, "01"))
    assert result.reused == 1
    assert len(result.points) == 2
    assert whole.splitlines()[-1] in csv.read_text().splitlines()
    assert len(read(csv)) == 2


@pytest.mark.parametrize(
    ("content", "said"), [(b"a,b\n1,2\n", "not a file of gemm-lessons bench"), (b"\xff\xfe\0", "not a CSV")]
)
def test_somebody_elses_file_is_left_alone(copied: Course, tmp_path: Path, content: bytes, said: str) -> None:
    csv = tmp_path / "out.csv"
    csv.write_bytes(content)
    with pytest.raises(CommandError, match=said):
        bench.run_bench(simulated(copied, csv, "01"))
    assert csv.read_bytes() == content


def test_a_place_that_cannot_be_written(copied: Course, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        bench.run_bench(simulated(copied, tmp_path / "file" / "out.csv", "01"))


def test_points_survive_the_file(tmp_path: Path) -> None:
    points = read(DATA / "bench_h200.csv")
    assert len(points) == 7 * 9
    append(tmp_path / "copy.csv", points[:10])
    append(tmp_path / "copy.csv", points[10:])
    assert (tmp_path / "copy.csv").read_text() == (DATA / "bench_h200.csv").read_text()


def test_the_learners_own_kernels(copied: Course) -> None:
    shutil.copy(copied.lessons_dir / "02_coalesced/solution.cu", copied.lessons_dir / "01_naive/kernel.cu")
    request = replace(simulated(copied, None, "01", "02", sizes=(512,)), mine=True)
    mine, reference = bench.run_bench(request).points
    assert (mine.series, reference.series) == ("01_naive (yours)", "02_coalesced")
    assert mine.gflops == pytest.approx(reference.gflops)


def test_what_is_left_out_is_said(copied: Course) -> None:
    (copied.lessons_dir / "01_naive/solution.cu").write_text("no CUDA at all")
    shutil.copy(copied.lessons_dir / "02_coalesced/stub.cu", copied.lessons_dir / "02_coalesced/solution.cu")
    result = bench.run_bench(simulated(copied, None, "01", "02"))
    assert not result.points
    assert result.notes == (
        "01_naive is left out: it does not compile.",
        "02_coalesced is left out: its verdict is wrong answer.",
    )
    thread_tile = COURSE.lesson("thread_tile")
    result = bench.run_bench(BenchRequest(COURSE, [thread_tile], squares((100, 128)), Simulated(), H200))
    assert [point.shape.m for point in result.points] == [128]
    assert result.notes == (
        f"{thread_tile.name} cannot take 100: M = 100 is not a multiple of 128 (try 128); N = 100 is not a multiple of "
        "128 (try 128); K = 100 is not a multiple of 8 (try 96 or 104).",
    )


@pytest.mark.parametrize(("sizes", "code"), [("100", 2), ("100,128", 0)])
def test_a_bench_of_nothing_is_a_wrong_command(sizes: str, code: int) -> None:
    assert forks.run(["bench", "05", "--sizes", sizes]).returncode == code


def measured(gpu: Gpu, csv: Path | None, *names: str, sizes: tuple[int, ...] = (64, 96)) -> BenchRequest:
    lessons = [COURSE.lesson(name) for name in names]
    return BenchRequest(COURSE, lessons, squares(sizes), ShadowedGpu(gpu), H200, csv, seconds=0.01)


def test_measuring_beside_cublas(fake_gpu: Gpu, tmp_path: Path) -> None:
    csv = tmp_path / "out.csv"
    result = bench.run_bench(measured(fake_gpu, csv, "01", "02"))
    assert sorted((point.shape.m, point.series) for point in result.points) == [
        (size, series) for size in (64, 96) for series in ("01_naive", "02_coalesced", CUBLAS)
    ]
    for point in result.points:
        assert (point.kind, point.gpu, point.driver) == ("measured", "Fake GPU 0", "580.95.05")
        assert point.launches >= 3
        assert point.q1_us is not None
        assert point.q3_us is not None
        assert point.q1_us <= point.time_us <= point.q3_us
        assert (point.flop_per_byte is None) is (point.series == CUBLAS)
        if point.series == CUBLAS:
            assert point.of_cublas == 1
    again = bench.run_bench(measured(fake_gpu, csv, "01", "02"))
    assert again.reused == 4
    assert len(again.points) == 6


def test_a_kernel_that_fails_does_not_stop_the_others(fake_gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench._compile

    def broken(request: BenchRequest, lesson: object) -> object:
        series = real(request, lesson)  # type: ignore[arg-type]
        assert isinstance(series, bench._Series)
        kernel = {"01_naive": "fault 700", "02_coalesced": "lazy"}.get(series.name)
        made = {series.lesson: bench._Made(series.lesson, (compiled(kernel),))} if kernel else series.made
        return replace(series, made=made)

    monkeypatch.setattr(bench, "_compile", broken)
    result = bench.run_bench(measured(fake_gpu, None, "01", "02", "03", sizes=(64,)))
    assert [point.series for point in result.points] == [CUBLAS, "03_block_tile"]
    fault, wrong = (note for note in result.notes if "left out" in note)
    assert fault.startswith("01_naive is left out at 64: the kernel touched memory")
    assert wrong.startswith("02_coalesced is left out at 64: ")


def command(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, cwd=cwd, env={**os.environ, "COLUMNS": "80", **environment})


def test_a_lesson_with_one_layout_needs_no_option() -> None:
    done = forks.run(["bench", "22", "--sizes", "256", "--device", "sim", "--json"])
    assert [point["size"] for point in json.loads(done.stdout)["points"]] == ["256x256x256 NT"]


def test_the_command_line_estimates(copied: Course, tmp_path: Path) -> None:
    arguments = ["bench", "--device", "sim", "--sizes", "128:256", "--csv", "out.csv", "--plot", "out.svg"]
    done = command(*arguments, cwd=copied.root)
    assert done.returncode == 0, done.stderr
    assert "ESTIMATES: nothing was timed" in done.stdout
    assert "4 points in out.csv." in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert (copied.root / "out.svg").stat().st_size > 10_000
    assert "4 of them were there already" in command(*arguments, cwd=copied.root).stdout


def test_the_command_line_measures(copied: Course, fake_cupy: pytest.MonkeyPatch) -> None:
    done = command("bench", "01", "--device", "gpu", "--sizes", "64", cwd=copied.root)
    assert done.returncode == 0, done.stderr
    assert "on Fake GPU 0, M = N = K; measured: medians" in done.stdout
    assert "Share of cuBLAS, same number type, same run" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--sizes", "x"], 2, "--sizes"),
        (["99"], 2, "no lesson"),
        (["--plot", "out.gif"], 2, ".svg, .png, .pdf"),
        (["--gpu", "voodoo"], 2, "voodoo"),
        (["--device", "gpu"], 3, "sees no CUDA GPU"),
    ],
)
def test_commands_that_cannot_be(
    copied: Course, fake_cupy: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    done = command("bench", *arguments, cwd=copied.root, FAKE_GPU="count=0")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_versions() -> None:
    assert bench.version(130100) == "13.1.0"
    assert bench.version(120805) == "12.8.5"


def test_a_point_is_itself_by_kernel_gpu_and_compiler() -> None:
    point: Point = read(DATA / "bench_h200.csv")[0]
    assert replace(point, time_us=1.0, date="2000-01-01").key == point.key
    for change in ({"kernel": "x"}, {"gpu": "x"}, {"compiler": "x"}, {"shape": Shape(1, 1, 1)}, {"series": "x"}):
        assert replace(point, **change).key != point.key
