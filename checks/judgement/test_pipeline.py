"""run_lesson with the real compiler, the real simulator and the real lessons: one kernel for every verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest

from gemm_lessons.course.folder import Course, any_course, read_source
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.devices.device import Binaries, BuildTarget
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.counters.cross_check import Disagreement
from gemm_lessons.engine.hardware.sheets import GPUS, buildable
from gemm_lessons.engine.machine.machine import Setting
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Actor
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.results import Counters, Launched
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.shapes import Shape, ShapeError, Tile
from gemm_lessons.judging.evidence import Built
from gemm_lessons.judging.verdict import CompileFailed, Faulted, GateMissed, Passed, TimedOut, WrongAnswer
from gemm_lessons.running import checking, pipeline
from gemm_lessons.running.builder import Workshop, WrongGpu, builder_for
from gemm_lessons.running.checking import merged
from gemm_lessons.running.jobs import Jobs
from gemm_lessons.running.outcome import LaunchResult
from gemm_lessons.running.pipeline import RunOutcome, RunRequest, _built_for, run_lesson
from gemm_lessons.running.plan import LaunchPlan, RunPlan

COURSE = any_course()
HEAD = 'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)'
OFFSETS = "int row = blockIdx.y * BM + threadIdx.x % BM, col = blockIdx.x * BN + threadIdx.x / BM;"
SUM = "float acc = 0; for (int k = 0; k < K; k++) acc += A[row * K + k] * B[k * N + col];"
INSIDE = "if (row < M && col < N)"


def run(
    lesson: str | Lesson, path: Path, course: Course = COURSE, budget: int | None = None, **changes: Any
) -> RunOutcome:
    """Alone and without an estimate, unless told."""
    found = course.lesson(lesson) if isinstance(lesson, str) else lesson
    device = Simulated(Simulator(Setting(budget=budget)) if budget else None)
    request = RunRequest(course, found, path, device, GPUS["h200"], beside=False, estimating=False)
    return run_lesson(replace(request, **changes))


@cache
def reference(name: str) -> RunOutcome:
    """The lesson's solution, beside that of the lesson before."""
    lesson = COURSE.lesson(name)
    return run(lesson, lesson.solution_path, beside=True, estimating=True)


@pytest.fixture
def kernel(tmp_path: Path):
    def write(body: str, head: str = HEAD) -> Path:
        path = tmp_path / "kernel.cu"
        path.write_text(f"{head}\n{{\n    {OFFSETS}\n    {body}\n}}\n")
        return path

    return write


def test_only_what_is_counted_or_timed_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernels that a host chooses among, only those that are counted or timed are disassembled, with one
    call; the others with one more, if one of them answers wrongly."""
    made: list[Lesson] = []
    apart: list[Lesson] = []
    shared: list[Callable[[], object]] = []

    def build(self: Workshop, lesson: Lesson, path: Path, source: str, disassembled: bool) -> Binaries:
        made.append(lesson)
        apart.extend([lesson] * disassembled)
        return Binaries((), None)

    def share(kernels: Callable[[], object]) -> Callable[[], object]:
        shared.append(kernels)
        return kernels

    monkeypatch.setattr(Workshop, "build", build)
    monkeypatch.setattr(pipeline, "_quickly", lambda *_: None)  # compile all, as on a GPU
    monkeypatch.setattr(pipeline, "SharedSass", share)
    monkeypatch.setattr(pipeline, "_kernels_of", lambda variants, lessons: apart.extend(lessons))
    lesson = COURSE.lesson("any_shape")
    request = RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], seed=7, graded=True)
    plan = RunPlan.of(request)
    kernel = plan.kernels[0]
    pipeline.build(plan, kernel, lesson.solution_path.read_text(), Jobs())
    assert not apart
    begin, if_wrong = shared
    begin()
    shapes = (kernel.counting_shape, plan.timed_shape, *plan.hidden, plan.sample.shape)
    wanted = {lesson.at(shape) for shape in shapes}
    assert set(apart) == {lesson, *wanted}
    apart.clear()
    if_wrong()
    assert {*apart} == {*made} - {lesson, *wanted}
    assert apart, "shapes that are only checked"
    made.clear()
    apart.clear()
    for launch in kernel.launches:
        _built_for(plan, kernel, launch.lesson)
    assert made
    assert not apart


@pytest.mark.parametrize(
    ("source", "compiled"),
    [
        ("int s[BM + BN];", 1),
        ("int s[BM]; // W64", 1),
        ("int s[BM /* W64 */]; // \\\nW64", 1),
        ("int s[BM + W64];", 3),
        ("int s[W\\\n64];", 3),
        ('const char *s = "//"; int t[W64];', 3),
        ("const char q = '\"', r = '\"'; // W64", 3),  # where this string ends is hard to say: nothing is left out
        ("#define N(a) a##64\n", 3),
    ],
)
def test_sizes_that_a_source_does_not_name_need_no_compilation(
    source: str, compiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Lesson] = []

    def build(self: Workshop, lesson: Lesson, path: Path, source: str, disassembled: bool) -> Binaries:
        made.append(lesson)
        return Binaries((), None)

    monkeypatch.setattr(Workshop, "build", build)
    lesson = COURSE.lesson("any_shape")
    plan = RunPlan.of(RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], seed=7))
    variants = [lesson.with_tile(Tile((*lesson.at(Shape(64, 64, 64)).tile.sizes, ("W64", size)))) for size in (1, 2, 3)]
    built = pipeline._variants(plan, plan.kernels[0], variants, source, Jobs()).whole()
    assert len(made) == compiled
    assert [it.lesson for it in (built, *built.others)] == variants


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ("#error no", "compile_failed"),
        ("__shared__ int s[60000]; s[threadIdx.x] = M; __syncthreads(); C[0] = s[N];", "compile_failed"),
        ('unsigned x; asm volatile("mov.u32 %0, %%envreg3;" : "=r"(x)); C[0] = x;', "faulted"),
    ],
)
def test_a_variant_that_cannot_run_decides_although_earlier_ones_have_run(
    wrong: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel answers all other shapes wrongly, which is told only of kernels that could all be launched."""
    launched: list[Shape] = []
    execute = checking.execute

    def noted(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
        launched.append(launch.shape)
        return execute(plan, launch, built)

    monkeypatch.setattr(checking, "execute", noted)
    path = tmp_path / "kernel.cu"
    path.write_text(
        'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, '
        "int ldb, int ldc)\n{\n#if TRANS_A && TRANS_B\n" + wrong + "\n#endif\n}\n"
    )
    outcome = run(COURSE.lesson("any_shape"), path, graded=True, seed=7)
    assert outcome.verdict.kind == verdict
    assert launched


@pytest.mark.parametrize("name", ["naive", "coalesced", "block_tile", "thread_tile"])
def test_references_pass_and_stubs_answer_wrongly(name: str) -> None:
    lesson = COURSE.lesson(name)
    good = reference(name)
    assert good.verdict == Passed()
    row = good.kernel
    assert [result.shape for result in row.checked.shapes] == [
        *(shape for shape in lesson.shapes.check if shape != lesson.shapes.count),
        lesson.shapes.count,
    ]
    assert all(result.kind == "passed" and result.judgement for result in row.checked.shapes)
    assert len(row.checked.gates) == len(lesson.gates)
    assert row.speed.estimate.shape == good.estimate_shape == Shape(4096, 4096, 4096)
    assert row.checked.counters is not None
    shape = lesson.shapes.count
    assert row.checked.counters["ffma"] == shape.m * shape.n * shape.k
    stub = run(lesson, lesson.stub_path, estimating=True)
    assert isinstance(stub.verdict, WrongAnswer)
    assert stub.kernel.label == "stub"
    assert stub.kernel.speed.estimate is None, "a wrong kernel has no time"
    assert stub.kernel.checked.gates == ()
    assert "TODO(1)" in stub.kernel.hints[0]


@pytest.mark.parametrize("name", ["coalesced", "block_tile", "thread_tile"])
def test_the_previous_solution_misses_a_gate(name: str) -> None:
    lesson = COURSE.lesson(name)
    kernel, previous = reference(name).rows
    assert (kernel.role, kernel.label) == ("kernel", "reference")
    assert previous.role == "previous"
    assert previous.label == COURSE.start_of(lesson).replace("_", " ", 1)
    assert isinstance(previous.verdict, GateMissed)
    assert previous.hints == ()
    assert [result.shape for result in previous.checked.shapes] == [lesson.shapes.count]
    assert previous.speed.estimate is not None


def test_the_learners_table_has_the_reference_and_the_previous_lesson(kernel) -> None:
    outcome = run(
        "02", kernel(f"{SUM} {INSIDE} C[row * N + col] = acc;".replace(SUM, f"{INSIDE} {{ {SUM}") + " }"), beside=True
    )
    assert [row.role for row in outcome.rows] == ["kernel", "previous", "reference"]
    assert [row.verdict.kind for row in outcome.rows] == ["gate_missed", "gate_missed", "passed"]
    assert outcome.kernel.label == "your kernel"
    assert "sectors read per warp and k is 33; this lesson requires at most 6" in outcome.kernel.hints[0]


def test_seeds_are_fresh_and_repeatable() -> None:
    lesson = COURSE.lesson("01")

    def errors(seed: int | None) -> tuple[int, list[float]]:
        outcome = run(lesson, lesson.solution_path, seed=seed)
        return outcome.seed, [
            result.judgement.max_error for result in outcome.kernel.checked.shapes if result.judgement
        ]

    seed, first = errors(None)
    assert errors(seed) == (seed, first)
    other, second = errors(None)
    assert other != seed
    assert second != first


def test_an_own_shape_replaces_the_checks_and_is_estimated() -> None:
    lesson = COURSE.lesson("01")
    outcome = run(lesson, lesson.solution_path, shape=Shape(40, 50, 60), estimating=True)
    assert [result.shape for result in outcome.kernel.checked.shapes] == [Shape(40, 50, 60), lesson.shapes.count]
    assert outcome.kernel.speed.estimate.shape == Shape(40, 50, 60)
    assert any("the grid has 4 blocks" in hint for hint in outcome.kernel.hints)


def test_shapes_outside_the_contract_are_refused_before_anything_runs() -> None:
    lesson = COURSE.lesson("thread_tile")
    with pytest.raises(ShapeError, match="M = 100 is not a multiple of 128"):
        run(lesson, lesson.solution_path, shape=Shape(100, 128, 8))


def test_wrong_answers_name_the_shape_and_the_pattern(kernel) -> None:
    half = SUM.replace("k < K", "k < K && k < 8")
    outcome = run("01", kernel(f"{INSIDE} {{ {half} C[row * N + col] = acc; }}"))
    assert isinstance(outcome.verdict, WrongAnswer)
    right = [result.shape for result in outcome.kernel.checked.shapes if result.kind == "passed"]
    assert right == [shape for shape in COURSE.lesson("01").shapes.check if shape.k <= 8]
    assert outcome.verdict.shape == next(
        result.shape for result in outcome.kernel.checked.shapes if result.kind != "passed"
    )
    verdict = run("03", kernel(f"{INSIDE} {{ {SUM} C[col * M + row] = acc; }}")).verdict
    assert isinstance(verdict, WrongAnswer)
    assert verdict.judgement.pattern.name == "transposed"


def test_out_of_bounds_faults_with_its_line(kernel) -> None:
    outcome = run("01", kernel(f"{INSIDE} {{ {SUM} C[row * N + col + (row == M - 1)] = acc; }}"))
    assert isinstance(outcome.verdict, Faulted)
    assert outcome.verdict.finding.kind == "out_of_bounds"
    assert outcome.verdict.finding.line == 4
    assert outcome.verdict.finding in outcome.kernel.checked.findings
    assert len(outcome.kernel.checked.shapes) == 1, "a fault ends the checks"
    assert outcome.kernel.hints[0].startswith("line 4: out of bounds")


UNUSED = 'float other; asm volatile("{ .reg .f32 f; add.f32 %0, f, f; }" : "=f"(other));'


def test_a_sum_without_a_first_value_is_told_and_what_nobody_uses_is_not(kernel) -> None:
    no_start = SUM.replace("float acc = 0;", "float acc;")
    unset = run("01", kernel(f"{INSIDE} {{ {no_start} C[row * N + col] = acc; }}"))
    assert isinstance(unset.verdict, WrongAnswer)
    assert [finding.kind for finding in unset.kernel.checked.findings] == ["unset"]
    assert "Give the variable a value where it is declared" in unset.kernel.hints[0]
    right = run("01", kernel(f"{UNUSED} {INSIDE} {{ {SUM} C[row * N + col] = acc; }}"))
    assert right.verdict == Passed()
    assert right.kernel.checked.findings == ()


def test_changing_an_input_faults(kernel) -> None:
    body = f"{INSIDE} {{ {SUM} C[row * N + col] = acc; if (K > 1 && col == 0) ((float *)A)[row * K] = 1; }}"
    verdict = run("01", kernel(body)).verdict
    assert isinstance(verdict, Faulted)
    assert verdict.finding.kind == "input_overwritten"
    assert verdict.shape == COURSE.lesson("01").shapes.check[0]


def test_endless_kernels_time_out(kernel) -> None:
    outcome = run("01", kernel("for (volatile int i = 0; i < 1;) ;"), budget=20_000)
    assert isinstance(outcome.verdict, TimedOut)
    assert outcome.kernel.checked.counters is None


def test_a_missed_gate_is_no_pass() -> None:
    outcome = run("03", COURSE.lesson("02").solution_path)
    assert isinstance(outcome.verdict, GateMissed)
    assert [gate.id for gate in outcome.verdict.missed] == ["global_sectors"]
    assert len(outcome.kernel.checked.gates) == 3


def test_syntax_errors_are_diagnosed(kernel) -> None:
    outcome = run("01", kernel("float acc = 0"))
    assert isinstance(outcome.verdict, CompileFailed)
    assert [d.line for d in outcome.verdict.diagnostics if d.severity == "error"] == [5]
    assert outcome.verdict.message == "the compiler found 1 error"
    assert outcome.kernel.checked.shapes == ()


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (HEAD.replace("gemm", "gem"), "there is no kernel named gemm."),
        (HEAD.replace(", int K", ""), "gemm takes 5 parameters, the lesson passes 6"),
        (HEAD.replace("int M", "long M"), "gemm has 8 bytes as parameter 4, the lesson passes M there, int of 4"),
        (
            HEAD.replace("const float *B", "float B"),
            "4 bytes as parameter 2, the lesson passes B there, a pointer of 8",
        ),
        ("__device__ void gemm()", "there is no kernel named gemm"),
    ],
)
def test_another_signature_is_refused_with_the_prototype(kernel, head: str, text: str) -> None:
    verdict = run("01", kernel("", head)).verdict
    assert isinstance(verdict, CompileFailed)
    assert text in verdict.message
    assert verdict.message.endswith(f"The lesson launches {HEAD}")


def test_the_name_needs_no_extern_c(kernel) -> None:
    body = f"{INSIDE} {{ {SUM} C[row * N + col] = acc; }}"
    assert run("01", kernel(body, HEAD.removeprefix('extern "C" '))).verdict == Passed()


def test_both_engines_follow_a_wrong_kernel_until_they_agree_on_each_of_its_errors() -> None:
    """They need not agree on the same errors of the same code again."""
    followed: list[object] = []

    def task(code: object) -> Any:
        return SimpleNamespace(code=code, fresh=lambda: None, run=lambda launch, kernels, trial: followed.append(code))

    one, other = (SimpleNamespace(counted=()) for _ in range(2))
    race = Finding("race", "error", line=3, other_line=7)
    found = [(), (race,), (replace(race, line=4),), (race, replace(race, line=4))]
    device = Simulated()
    for code in (one, other):
        for _ in range(2):
            for findings in found:
                launched = Launched(Counters(), findings)
                assert device.recheck(task(code), launched) is launched
                same = replace(race, severity="warning", line=9)  # blames nothing
                device.recheck(task(code), Launched(Counters(), (*findings, same)))
    assert followed == [one] * 4 + [other] * 4

    def contradiction(*_: object) -> None:
        raise Disagreement("another answer")

    wrong = task(SimpleNamespace(counted=()))
    wrong.run = contradiction
    for _ in range(2):
        with pytest.raises(Disagreement):
            device.recheck(wrong, Launched(Counters()))


def test_blocks_that_fit_nowhere_cannot_be_launched() -> None:
    lesson = COURSE.lesson("01")
    (launch,) = lesson.launches
    greedy = replace(launch, dynamic_shared=type(launch.dynamic_shared)("300000"))
    verdict = run(replace(lesson, launches=(greedy,)), lesson.solution_path).verdict
    assert isinstance(verdict, Faulted)
    assert verdict.finding.kind == "launch_failed"
    assert "300,000 bytes of shared memory" in verdict.finding.message


def test_unsupported_opcodes_stop_the_run(kernel) -> None:
    with pytest.raises(UnsupportedKernel, match=r"discard\.global\.L2") as stopped:
        run("01", kernel('asm volatile("discard.global.L2 [%0], 128;" :: "l"(C));'))
    assert stopped.value.line == 4


def test_a_learners_folder_needs_no_solutions(tmp_path: Path) -> None:
    from gemm_lessons.course.folder import init_course

    course = init_course(tmp_path)
    lesson = course.lesson("02")
    outcome = run(lesson, lesson.stub_path, course, beside=True)
    assert [row.label for row in outcome.rows] == ["stub", "01 naive", "reference"]
    assert outcome.rows[2].verdict == Passed()


def test_older_gpus_are_estimated_from_newer_code() -> None:
    lesson = COURSE.lesson("01")
    outcome = run(lesson, lesson.solution_path, gpu=GPUS["p100"], estimating=True)
    assert buildable(GPUS["p100"].arch) == "sm_80"
    assert outcome.kernel.built.arch == COURSE.architecture == "sm_90"
    assert outcome.kernel.speed.estimate.gpu == "P100"


def test_a_course_names_its_architecture(tmp_path: Path) -> None:
    copytree(COURSE.lessons_dir, tmp_path / "lessons")
    facts = tmp_path / "lessons" / "course.toml"
    facts.write_text('architecture = "sm_80"\n')
    course = Course(tmp_path)
    assert run("02", course.lesson("02").solution_path, course).kernel.built.arch == "sm_80"
    for text, line, word in (
        ('architecture = "sm_60"', 1, "sm_75"), ("\narchitecture = 90", 2, "text"), ("archi = 1", 1, "architecture"),
    ):  # fmt: skip
        facts.write_text(text)
        with pytest.raises(LessonError, match=f"course.toml:{line}: .*{word}"):
            _ = Course(tmp_path).architecture
    facts.unlink()
    assert Course(tmp_path).architecture == "sm_90"


def test_a_lesson_names_its_architecture(tmp_path: Path) -> None:
    """Code for sm_90a is counted, estimated on GPUs of its number alone, and refused by a GPU of another."""
    copytree(COURSE.lessons_dir, tmp_path / "lessons")
    course = Course(tmp_path)
    settings = course.lesson("01").toml_path
    usual = settings.read_text()
    settings.write_text(f'architecture = "sm_90a"\n{usual}')
    lesson = course.lesson("01")
    kernel = lesson.solution_path.read_text()
    needed = tmp_path / "kernel.cu"
    needed.write_text(f"#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)\n#error\n#endif\n{kernel}")
    outcome = run(lesson, needed, course, estimating=True)
    assert outcome.kernel.built.arch == "sm_90a"
    assert outcome.kernel.speed.estimate is not None
    outcome = run(lesson, needed, course, gpu=GPUS["a100"], estimating=True)
    assert outcome.kernel.verdict == Passed()
    assert outcome.kernel.speed.estimate is None
    another: Any = SimpleNamespace(name="NVIDIA A100", target=BuildTarget("sm_80", 13))
    with pytest.raises(WrongGpu, match=r"need compute capability 9\.0, and NVIDIA A100 has 8\.0"):
        builder_for(another, GPUS["a100"], "sm_90a")
    assert builder_for(another, GPUS["a100"], "sm_80").target.arch == "sm_80"
    settings.write_text(f'architecture = "hopper"\n{usual}')
    with pytest.raises(LessonError, match=r"lesson\.toml:1: architecture: 'hopper'"):
        Course(tmp_path).lesson("01")


T4: Any = SimpleNamespace(name="Tesla T4", target=BuildTarget("sm_75", 13), timer=None)


def test_a_lesson_names_the_least_gpu(tmp_path: Path) -> None:
    with pytest.raises(WrongGpu, match=r"need compute capability 8\.0 or newer, and Tesla T4 has 7\.5; .*--device sim"):
        builder_for(T4, GPUS["t4"], needs="sm_80")
    for needs in ("", "sm_75"):
        assert builder_for(T4, GPUS["t4"], needs=needs).target.arch == "sm_75"
    simulated = builder_for(Simulated(), GPUS["t4"], needs="sm_80")
    assert simulated.target.arch == "sm_75"
    copytree(COURSE.lessons_dir, tmp_path / "lessons")
    settings = tmp_path / "lessons" / "01_naive" / "lesson.toml"
    settings.write_text(f'needs = "sm_60"\n{settings.read_text()}')
    with pytest.raises(LessonError, match=r"lesson\.toml:1: needs: 'sm_60'"):
        Course(tmp_path).lesson("01")


def test_a_kernel_that_compiles_for_the_counted_architecture_alone(tmp_path: Path) -> None:
    """A T4 has no cp.async: the learner is told that their kernel is right in itself. An error in it stays one."""
    lesson = COURSE.lesson("01")
    source = lesson.solution_path.read_text()
    copies = source.replace("float acc", 'asm volatile("cp.async.wait_all;");\n    float acc', 1)
    for device, text, says in (
        (T4, source, None),
        (T4, copies, r"1 error for sm_75, the GPU here; for sm_90 it compiles: --device sim"),
        (T4, source.replace("float acc", "flot acc"), r"1 error$"),
        (Simulated(), copies, None),
    ):
        built = Workshop("sm_90", device, GPUS["t4"]).build(lesson, tmp_path / "kernel.cu", text)
        if says is None:
            assert isinstance(built, Binaries)
        else:
            assert re.search(says, built.message), built


@pytest.mark.parametrize(("rows", "cols", "sectors"), [(32, 32, 5), (4, 256, 5), (256, 4, 9), (8, 96, 5)])
def test_estimates_are_made_from_full_blocks(rows: int, cols: int, sectors: int) -> None:
    """Also where a block is larger than the counting shape, 128 x 128, or does not divide it."""
    lesson = COURSE.lesson("02")
    lesson = lesson.with_tile(Tile((("BM", rows), ("BN", cols))))
    lesson = replace(lesson, shapes=replace(lesson.shapes, check=(lesson.shapes.count,)))
    (profile,) = run(lesson, lesson.solution_path, estimating=True).kernel.speed.estimator.profiles
    warps = rows * cols / 32
    # Every warp and k: one sector of A and four of B, or where a warp is 8 rows of 4, eight and one.
    assert profile.work(4096).global_bytes - profile.work(4095).global_bytes == pytest.approx(warps * sectors * 32)


def test_progress_is_told_and_ctrl_c_passes_through() -> None:
    lesson = COURSE.lesson("01")
    said: list[str] = []
    request = RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], beside=False)
    run_lesson(request, said.append)
    assert said == [
        "compile solution.cu",
        *(f"check {shape}" for shape in lesson.shapes.check),
        f"count {lesson.shapes.count}",
        "estimate 4096x4096x4096",
    ]

    def interrupt(what: str) -> None:
        if what.startswith("count"):
            raise KeyboardInterrupt

    before = read_source(lesson.solution_path)
    with pytest.raises(KeyboardInterrupt):
        run_lesson(request, interrupt)
    assert read_source(lesson.solution_path) == before


def test_findings_of_several_launches_are_merged() -> None:
    race = Finding("race", "error", "shared order", line=3, other_line=5, count=2)
    other = replace(race, other_line=6, count=1)
    assert merged([race, other, replace(race, actors=(Actor((9,), (0,)),))]) == (replace(race, count=4), other)


def test_a_race_faults_though_the_answer_is_right(tmp_path: Path) -> None:
    lesson = COURSE.lesson("03")
    lines = lesson.solution_path.read_text().splitlines()
    last = max(i for i, line in enumerate(lines) if "__syncthreads();" in line)
    path = tmp_path / "kernel.cu"
    path.write_text("\n".join([*lines[:last], *lines[last + 1 :]]))
    outcome = run(lesson, path)
    assert isinstance(outcome.verdict, Faulted)
    assert outcome.verdict.finding.kind == "race"
    assert outcome.verdict.finding in outcome.kernel.checked.findings, "merged, not shown twice"
    assert all(result.judgement.passed for result in outcome.kernel.checked.shapes if result.judgement)
    assert "__syncthreads() is missing" in outcome.kernel.hints[0]


READY = "        barriers_are_ready();\n"
MULTIPLY = "        multiply(stages[tile % STAGES]);\n"
TOUCHED = """        __syncthreads();
        if (threadIdx.x == 0) {
            volatile unsigned short *first = (volatile unsigned short *)stages[tile % STAGES].a;
            *first = *first;
        }
        FENCE
        __syncthreads();
"""
FENCE = 'asm volatile("fence.proxy.async;" ::: "memory");'


@pytest.mark.parametrize(
    ("old", "new", "verdict", "severities"),
    [
        (MULTIPLY, TOUCHED.replace("FENCE", "") + MULTIPLY, Faulted, {"error"}),  # the products may read old values
        (MULTIPLY, TOUCHED.replace("FENCE", FENCE) + MULTIPLY, Passed, set()),
        (READY, "", Passed, {"warning"}),  # as in public kernels
    ],
    ids=["no fence before products", "fence before products", "no fence after init"],
)
def test_fences_of_the_async_proxy_in_a_lesson(
    tmp_path: Path, old: str, new: str, verdict: type, severities: set[str]
) -> None:
    lesson = COURSE.lesson("wgmma")
    path = tmp_path / "kernel.cu"
    path.write_text(lesson.solution_path.read_text().replace(old, new))
    outcome = run(lesson, path, shape=Shape(128, 128, 128))
    assert isinstance(outcome.verdict, verdict)
    assert {it.severity for it in outcome.kernel.checked.findings if it.kind == "async_proxy"} == severities
