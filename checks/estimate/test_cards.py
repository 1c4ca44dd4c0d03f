"""Data sheets: the kit's own, a newcomer's, and wrong ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checks.forks import run
from gemm_lessons import engine
from gemm_lessons.course.folder import any_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.hardware.sheets import CARDS, GPUS, SheetError, find_gpu, peaks, pipes_of, read_sheet, sheet_of
from gemm_lessons.engine.records.errors import UnknownArchitecture
from gemm_lessons.gemm.tile_model import tile_model_of
from gemm_lessons.running.pipeline import RunRequest, run_lesson

PAGE = Path(engine.__file__).parents[1] / "docs" / "numbers.md"
ARCHITECTURES = sorted(path.name for path in CARDS.glob("sm_*"))
COPY = 'extern "C" __global__ void copy(float *a) { a[threadIdx.x] += 1; }'
INSPECTED = "inspect", str(Path(__file__)), "--grid", "1", "--block", "32", "--args", "x=f32[1]", "--entry", "x"
# TFLOP/s in fp64 of NVIDIA's data sheets and white papers.
FP64 = {
    "p100": 5.3, "v100": 7.8, "t4": 0.254, "rtx2080ti": 0.42, "a100": 9.7, "rtx3090": 0.556, "a10": 0.488,
    "rtx4090": 1.29, "l4": 0.473, "h100": 33.5, "h200": 33.5, "b200": 37, "rtx5090": 1.64,
}  # fmt: skip
# And of their tensor cores in fp16 with sums in fp32, dense.
FP16 = {
    "t4": 65, "rtx2080ti": 53.8, "rtx3090": 71, "a10": 125, "rtx4090": 165, "l4": 121, "l40s": 362, "rtx5090": 209.5,
}  # fmt: skip


@pytest.fixture
def newcomers(tmp_path: Path) -> Path:
    """The sheet that the page on numbers shows."""
    found = re.search(r"```toml\n(name = .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    path = tmp_path / "my_gpu.toml"
    path.write_text(found[1])
    return path


@pytest.mark.parametrize("path", sorted(CARDS.rglob("sm_*/*.toml")), ids=lambda it: it.stem)
def test_a_sheet_is_in_the_folder_of_its_architecture(path: Path) -> None:
    assert f'architecture = "{path.parent.name}"' in path.read_text()
    if path.stem != path.parent.name:
        spec = GPUS[path.stem]
        assert pipes_of(spec).arch == spec.arch
        assert spec.driver == "" or re.compile(spec.driver)
        assert path.stem == "".join(c for c in spec.name.lower() if c.isalnum())


def test_the_product_of_a_driver_has_one_sheet() -> None:
    """The RTX 2080 Ti is another product than the RTX 2080."""
    names = ["Tesla T4", "NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080", "NVIDIA H200", "NVIDIA L40S", "NVIDIA L4"]
    for name in names:
        assert len([it for it in GPUS.values() if it.driver and re.fullmatch(it.driver, name)]) == 1, name


@pytest.mark.parametrize("name", FP64)
def test_fp64_is_that_of_the_chip(name: str) -> None:
    """An RTX 3090 was given the A100's fp64 lanes: 6.76 TFLOP/s, where it has 0.56."""
    assert peaks(GPUS[name], "fp64")[0].flops_per_s / 1e12 == pytest.approx(FP64[name], rel=0.02)
    model = tile_model_of(GPUS[name], "float64")
    assert model.flops / 1e12 == pytest.approx(FP64[name], rel=0.02)


@pytest.mark.parametrize("name", FP16)
def test_tensor_cores_are_those_of_the_product(name: str) -> None:
    """A GeForce card takes twice the time of a workstation card of the same chip."""
    assert peaks(GPUS[name], "fp16")[0].flops_per_s / 1e12 == pytest.approx(FP16[name], rel=0.02)


def test_only_measured_gpus_are_shown_as_measured() -> None:
    assert {name for name, spec in GPUS.items() if not spec.basis} == {"p100", "v100", "h100", "h200"}
    assert "l2_gb_per_s" in GPUS["rtx3090"].assumed
    assert not GPUS["h200"].assumed


def test_a_gpu_has_its_own_architectures_figures() -> None:
    """A sheet made from another one keeps nothing of the other's architecture."""
    made = replace(GPUS["a100"], name="RTX 3080", arch="sm_86")
    assert pipes_of(made) == pipes_of(replace(made, pipes=None))
    assert pipes_of(made).fp64 == 64
    assert pipes_of(GPUS["a100"]).fp64 == 4


@pytest.mark.parametrize("arch", ["sm_87", "sm_103", "sm_61"])
def test_an_architecture_that_is_not_known_is_refused_by_name(arch: str) -> None:
    assert sheet_of(arch) is None
    made = replace(GPUS["a100"], name="Orin", arch=arch)
    with pytest.raises(UnknownArchitecture, match=f"{arch}, the architecture of Orin"):
        pipes_of(made)
    with pytest.raises(engine.NotEstimated, match=f"{arch}, the architecture of Orin"):
        engine.compile(COPY, "copy").estimate(1, 32, [np.zeros(32, np.float32)], gpu=made)


def test_the_page_shows_a_sheet_that_works(newcomers: Path) -> None:
    spec = find_gpu(str(newcomers))
    assert (spec.name, spec.arch, spec.sms) == ("RTX A2000", "sm_86", 26)
    assert spec.fp32_flops_per_s / 1e12 == pytest.approx(8.0, abs=0.05), "its data sheet"
    estimate = engine.compile(COPY, "copy").estimate(1, 32, [np.zeros(32, np.float32)], gpu=str(newcomers))
    assert estimate.gpu == "RTX A2000"
    assert "from a data sheet, never measured" in repr(estimate)
    told = run(["run", "01", "--solution", "--device", "sim", "--gpu", str(newcomers)])
    assert told.returncode == 0
    assert "RTX A2000 (never measured)" in told.stdout


def test_an_architecture_of_ones_own_is_a_file_beside_the_sheet(newcomers: Path) -> None:
    newcomers.write_text(newcomers.read_text().replace("sm_86", "sm_87"))
    with pytest.raises(SheetError, match=r"my_gpu.toml:2: architecture: nothing is known of 'sm_87'.*sm_87.toml"):
        read_sheet(newcomers)
    own = (CARDS / "sm_86" / "sm_86.toml").read_text().replace("sm_86", "sm_87").replace("l1 = [38.0", "l1 = [40.0")
    (newcomers.parent / "sm_87.toml").write_text(own)
    spec = read_sheet(newcomers)
    assert (spec.arch, pipes_of(spec).l1, pipes_of(spec).arch) == ("sm_87", 40.0, "sm_87")
    (newcomers.parent / "sm_87.toml").write_text(own.replace("l2 = [214.0", "# l2 = [214.0"))
    with pytest.raises(SheetError, match=r"\[clocks\] l2: is missing; add it"):
        read_sheet(newcomers)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("sms = [26", "sm = [26", r":9: \[chip\] sm: unknown key; did you mean sms\?"),
        ('sms = [26, "sheet"]', "", r":8: \[chip\] sms: is missing; add it under \[chip\]"),
        ("sms = [26", "sms = [-26", r":9: \[chip\] sms: must be a whole number above 0, not -26"),
        ("sms = [26", "sms = [26.5", r":9: \[chip\] sms: must be a whole number above 0, not 26.5"),
        ("sms = [26", "sms = [true", r":9: \[chip\] sms: must be a whole number above 0, not True"),
        ("clock_ghz = [1.2", "clock_ghz = [0", r":10: \[chip\] clock_ghz: must be a number above 0, not 0"),
        ("clock_ghz = [1.2", "clock_ghz = [nan", r":10: \[chip\] clock_ghz: must be a number above 0, not nan"),
        ("clock_ghz = [1.2", "clock_ghz = [1200", r":10: \[chip\] clock_ghz: is in GHz"),
        ("sms = [26", "sms = [3328", r":9: \[chip\] sms: counts multiprocessors, not their lanes"),
        ("dram_gb_per_s = [288", "dram_gb_per_s = [0.288", r":11: \[chip\] dram_gb_per_s: is in GB/s"),
        ("l2_mib = [3", "l2_mib = [3072", r":13: \[chip\] l2_mib: is in MiB"),
        ("dram_gb_per_s = [288", "dram_gb_per_s = [2880", r":12: \[chip\] l2_gb_per_s: must be above dram_gb_per_s"),
        ('clock_ghz = [1.2, "sheet"]', "clock_ghz = 1.2", r':10: \[chip\] clock_ghz: must be \[value, "source"\]'),
        ('[26, "sheet"]', '[26, "rumour"]', r":9: \[chip\] sms: no such source: 'rumour'; known: .*sheet"),
        ('kind = "published"', 'kind = "heard"', r":5: \[sources\] sheet: must be .* a kind of published, measured"),
        ('"sm_86"', '"sm_99"', r":2: architecture: nothing is known of 'sm_99'; known: sm_60, .*sm_121"),
        ('"sm_86"', '"../sm_86"', r":2: architecture: nothing is known of '../sm_86'"),
        ('name = "RTX A2000"', "", r": name: is missing"),
        ("[chip]", "[chip", r":8: not valid TOML"),
        ("[chip]", '[tensor]\nf16 = [-1, "sheet"]\n[chip]', r":9: \[tensor\] f16: must be a number of at least 0"),
        ("[chip]", '[clocks]\nl1 = [0, "sheet"]\n[chip]', r":9: \[clocks\] l1: must be a number above 0, not 0"),
        ("[chip]", '[clocks]\nfp64 = [2, "sheet"]\n[chip]',
         r":9: \[clocks\] fp64: is 2, but NVIDIA publishes 64.0 for all chips of sm_86; if that"),
        ("[chip]", '[tensor]\nf64 = [16, "sheet"]\n[chip]',
         r":9: \[tensor\] f64: is more than twice the fp64 units' 0\.5, which no chip has"),
        ("[chip]", '[multiprocessor]\nlanes = [64, "sheet"]\n[chip]', r":9: .* lanes: unknown key\. Known: lanes"),
        ("[chip]", '[clusters]\n2 = [132, "sheet"]\n[chip]', r":9: \[clusters\] 2: .*at most 26 multiprocessors"),
        ("[chip]", '[power]\nmost_watts = [70, "sheet"]\n[chip]', r":8: \[power\] burst_watts: is missing"),
        ("[sources]", 'driver = "RTX ("\n[sources]', r":4: driver: is not a regular expression"),
    ],
)  # fmt: skip
def test_a_wrong_sheet_is_told_by_line(newcomers: Path, before: str, after: str, message: str) -> None:
    text = newcomers.read_text()
    assert before in text
    newcomers.write_text(text.replace(before, after, 1))
    with pytest.raises(SheetError, match=re.escape(str(newcomers)) + message):
        read_sheet(newcomers)


@pytest.mark.parametrize("command", [("run", "01", "--solution"), ("compare", "01", "02"), ("bench", "--lessons", "01"),
                                     ("view", "01", "--solution"), ("tune", "--model", "03"), INSPECTED])  # fmt: skip
def test_every_command_takes_a_file_and_refuses_a_wrong_one(newcomers: Path, command: tuple[str, ...]) -> None:
    newcomers.write_text(newcomers.read_text().replace("sms = [26", "sms = [0"))
    told = run([*command, "--gpu", str(newcomers)])
    assert told.returncode == 2
    assert "my_gpu.toml:9: [chip] sms: must be a whole number above 0, not 0" in told.stderr.replace("\n", " ")
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("name", ["b200", "rtx5090", "gb10"])
def test_blackwell_code_has_an_estimate(name: str) -> None:
    """The page says that only kernels for tensor cores of a B200 have none; all had none."""
    x = np.zeros(1 << 20, np.float32)
    kernel = engine.compile(
        'extern "C" __global__ void copy(const float4 *x, float4 *y) { const int i = blockIdx.x * blockDim.x + '
        "threadIdx.x; y[i] = x[i]; }", "copy", arch=GPUS[name].arch,
    )  # fmt: skip
    assert 0 < kernel.estimate(1024, 256, [x, x.copy()], gpu=name).time_us - LAUNCH_US < 100


@pytest.mark.parametrize("lesson", ["block_tile", pytest.param("double_buffer", marks=pytest.mark.long),
                                    pytest.param("tensor_cores", marks=pytest.mark.slow)])  # fmt: skip
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_machine_code_of_each_architecture_is_followed_or_refused_by_name(arch: str, lesson: str) -> None:
    gpu, course = sheet_of(arch), any_course()
    assert gpu is not None
    found = course.lesson(lesson)
    on = Simulated(), gpu, found.shapes.count  # other shapes do not depend on the GPU
    outcome = run_lesson(RunRequest(course, found, found.solution_path, *on, beside=False))
    assert outcome.verdict.kind == "passed"
    speed = outcome.kernel.speed
    if speed.estimate is None:
        assert re.search(f"{arch}|{gpu.name}", speed.refused), speed
    else:
        assert 0 < speed.estimate.gflops < peaks(gpu, "fp16")[0].flops_per_s / 1e9 if lesson == "tensor_cores" else True
        assert lesson == "tensor_cores" or speed.estimate.gflops < gpu.fp32_flops_per_s / 1e9
