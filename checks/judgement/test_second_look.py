"""The second look: how far an unfinished kernel has come, and indices past a thread's own arrays."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from checks.judgement.cases import judged, problem
from checks.judgement.mistakes import MISTAKES, lesson_named, requested, run, told, words_of
from gemm_lessons.authoring.candidate import kernels_of
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.todos import todo_marks
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.compiler.compile import Compiled, disassemble_ahead
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.simulator.debug_run import local_names
from gemm_lessons.engine.simulator.final_memory import UNWRITTEN, FinalMemory
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Checked
from gemm_lessons.judging.unfinished import can_tell, contents
from gemm_lessons.judging.verdict import Faulted, WrongAnswer
from gemm_lessons.running.debug_build import _mostly_right
from gemm_lessons.running.plan import RunPlan, RunRequest

OPEN = re.compile(r"^\s*// TODO\((\d+)\)")
SOLVED = re.compile(r"^\s*// \((\d+)\)")


def written(lesson: str, todos: int) -> str:
    """The stub of a lesson with the first TODOs solved as in the reference."""
    found = lesson_named(lesson)
    stub, solution = (path.read_text().splitlines() for path in (found.stub_path, found.solution_path))
    lines, solved = [], 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(a=stub, b=solution, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += stub[i1:i2]
            continue
        left, done = by_number(stub[i1:i2], OPEN), by_number(solution[j1:j2], SOLVED)
        if len(left) < 2 or len(left) != len(done):  # one TODO; its parts may be numbered, too
            left, done = [stub[i1:i2]], [solution[j1:j2]]
        for open_, solution_ in zip(left, done, strict=True):
            solved += 1
            lines += solution_ if solved <= todos else open_
    return "\n".join(lines) + "\n"


def by_number(lines: list[str], mark: re.Pattern[str]) -> list[list[str]]:
    """The lines from each mark to the next, a list each; one list of all lines unless the first line is a mark."""
    begins = [i for i, line in enumerate(lines) if mark.match(line)]
    return [lines[a:b] for a, b in pairwise([*begins, len(lines)])] if begins[:1] == [0] else [lines]


def kernels_in(lesson: Lesson, source: str) -> list[Compiled]:
    """What a run of this kernel disassembles."""
    with requested(lesson, source) as request:
        return kernels_of(request)


def said_after(lesson: str, todos: int) -> str:
    return words_of(run(lesson_named(lesson), written(lesson, todos)))


def test_after_the_first_todo_the_tile_is_there() -> None:
    said = said_after("block_tile", 1)
    assert "NOT FINISHED: 1 of 5 TODOs written" in said
    assert "As holds the tile of A, row by row." in said
    assert "dead code" in said
    assert "WRONG ANSWER" not in said
    assert "Wrong elements" not in said


def test_a_todo_that_was_skipped_is_not_counted_as_written() -> None:
    stub = lesson_named("block_tile").stub_path.read_text().splitlines()
    at = {number: next(i for i, line in enumerate(stub) if f"TODO({number})" in line) for number in (1, 3)}
    stub[at[3]] += "\n        __syncthreads();"
    stub[at[1]] += (
        "\n        As[thread_row][thread_col] = row < M && k0 + thread_col < K ? a(row, k0 + thread_col) : 0.0f;"
    )
    said = words_of(run(lesson_named("block_tile"), "\n".join(stub) + "\n"))
    assert "NOT FINISHED: 2 of 5 TODOs written" in said


def test_loads_of_which_two_became_one_are_not_called_dead() -> None:
    stub = lesson_named("block_tile").stub_path.read_text()
    copies = {
        "// TODO(2)": "for (int k = 0; k < BK; k += BN)\n"
        "As[thread_row][k + thread_col] = row < M && k0 + k + thread_col < K ? a(row, k0 + k + thread_col) : 0.0f;\n",
        "// TODO(3)": "for (int k = 0; k < BK; k += BM)\n"
        "Bs[k + thread_row][thread_col] = k0 + k + thread_row < K && col < N ? b(k0 + k + thread_row, col) : 0.0f;\n",
        "// TODO(5)": "for (int k = 0; k < BK; k++)\nacc += As[thread_row][k] * Bs[k][thread_col];\n",
    }
    for before, code in copies.items():
        stub = stub.replace(before, f"{code}{before}")
    said = words_of(run(lesson_named("block_tile"), stub))
    assert "The accumulator holds the right sums." in said
    assert "dead code" not in said


def test_nothing_but_zeros_is_unfinished_however_many_are_right() -> None:
    it = judged(problem(), np.zeros((48, 32)))
    half = replace(it, wrong=it.total // 3)
    assert half.pattern is not None
    assert not _mostly_right(Checked(WrongAnswer(Shape(48, 32, 24), half)))
    assert _mostly_right(Checked(WrongAnswer(Shape(48, 32, 24), replace(half, pattern=None))))


def test_accumulators_are_not_looked_for_where_c_is_more_than_a_product() -> None:
    assert can_tell(problem())
    assert not can_tell(problem(formula="C = relu(A @ B)"))


def test_after_a_fault_it_is_not_told_what_memory_holds() -> None:
    source = lesson_named("naive").solution_path.read_text().replace("a(row, k) *", "A[row * N + k] *")
    said = words_of(run(lesson_named("naive"), source))
    assert "A was read as if its rows were N = 64 long" in said
    assert "The wrong row length causes this" in said
    assert "Nothing is stored in C" not in said


def test_a_local_array_is_watched_although_the_answer_is_right() -> None:
    (it,) = (it for it in MISTAKES if (it.name, it.lesson) == ("past_b_frag", "vector_loads"))
    lesson = lesson_named(it.lesson)
    source = lesson.solution_path.read_text().replace(*it.edits[0])
    outcome = run(lesson, source)
    assert isinstance(outcome.verdict, Faulted)
    finding = outcome.verdict.finding
    assert finding.kind == "out_of_array"
    assert finding.message.startswith("b_frag: byte 32 of 32, written by thread 0")
    assert all(shape.kind == "passed" for shape in outcome.kernel.checked.shapes)
    assert "The answers were right by luck: the kernel as written faults" in words_of(outcome)


def test_what_prints_is_counted_and_estimated_as_if_it_did_not() -> None:
    lesson = lesson_named("coalesced")
    source = lesson.solution_path.read_text()
    before = "    // Write my element back."
    check = 'assert(acc < 1e6f);\n    if (threadIdx.x == 33) printf("%d, %d: %g\\n", row, col, acc);\n'
    texts = (source, source.replace(before, f"    {check}{before}"))
    silent, speaks = (run(lesson, text, estimating=True).kernel for text in texts)
    assert speaks.checked.printed.text.startswith("1, 1: ")
    assert speaks.checked.printed.calls == 6  # blocks at 96x64x80
    assert speaks.speed.estimate is not None
    assert speaks.checked.counters is not None
    assert silent.checked.counters is not None
    loads = "global_load_sectors"
    assert speaks.checked.counters.get(loads) == silent.checked.counters.get(loads)


@pytest.mark.slow  # a run for each TODO of the lesson; of the core, every third lesson with every change
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name[3:], marks=() if name[:2] in ("00", "03", "06", "09") else pytest.mark.long)
        for name in any_course().names
    ],
)
def test_every_todo_is_counted_and_moves_something(name: str) -> None:
    lesson = lesson_named(name)
    lesson = replace(lesson, shapes=replace(lesson.shapes, check=(lesson.shapes.count,)))
    count = len(todo_marks(lesson.stub_path.read_text()))
    sources = [written(name, todos) for todos in range(count + 1)]
    disassemble_ahead(kernel for source in sources for kernel in kernels_in(lesson, source))
    before = ""
    for todos in range(count):
        said = words_of(run(lesson, sources[todos]))
        assert f"NOT FINISHED: {todos} of {count} TODO" in said
        assert said != before
        before = said
    assert "PASSED" in words_of(run(lesson, sources[count]))


class Memory:
    """One block of 64 threads and one K tile, with what is in its memory."""

    def __init__(self) -> None:
        self.problem = Problem(lesson_named("block_tile").data, Shape(8, 8, 4), seed=3)
        self.trial = self.problem.trial()
        self.a, self.b = (self.problem.arrays[name].view(np.uint32) for name in "AB")

    def said(self, shared: dict[str, np.ndarray] | None = None, own: np.ndarray | None = None, **names: int) -> str:
        arrays = {} if own is None else {"depot": np.ascontiguousarray(own).view(np.uint32)}
        remains = FinalMemory((), None, shared or {}, arrays, [], frozenset(), 0)
        known = {("own", "depot", offset): name for name, offset in names.items()}
        return " ".join(it.text for it in contents(self.problem, self.trial, remains, known))


def test_shared_arrays() -> None:
    it = Memory()
    assert "As holds the tile of A, row by row." in it.said({"As": it.a.ravel()})
    padded = np.pad(it.a.T, ((0, 0), (0, 4)), constant_values=UNWRITTEN)
    assert "As holds the tile of A, column by column (transposed)." in it.said({"As": padded.ravel()})
    second = np.concatenate([np.full(32, UNWRITTEN, np.uint32), it.b.ravel()])
    assert "Bs holds the tile of B, row by row." in it.said({"Bs": second})
    assert "As holds the tile of B" in it.said({"As": it.b.ravel()})
    assert "in an order of its own" in it.said({"As": np.random.default_rng(1).permutation(it.a.ravel())})
    part = it.a.copy()
    part[2:, 1] = UNWRITTEN
    assert "As holds 26 of the 32 numbers of A's tile; A[2, 1] is missing." in it.said({"As": part.ravel()})
    assert "Nothing is in As yet." in it.said({"As": np.full(32, UNWRITTEN, np.uint32)})
    assert "of neither A nor B" in it.said({"As": np.arange(32, dtype=np.uint32)})
    assert "Nothing is stored in C yet." in it.said()
    it.trial.arrays["C"][...] = 1
    assert it.said() == ""


def test_zeros_in_c_and_in_a_tile_are_no_sums_on_their_way() -> None:
    it = Memory()
    it.trial.arrays["C"].reshape(-1)[:8] = 0
    part = it.a.copy()
    part[2:, 1] = 0
    assert "A[2, 1] is missing." in it.said({"As": part.ravel()})


def test_arrays_of_a_thread() -> None:
    it = Memory()
    threads = np.arange(64)
    rows = it.a[threads // 8]
    assert "a_frag holds numbers of A." in it.said(own=rows, a_frag=0)
    assert "a_frag repeats one number of A." in it.said(own=rows[:, [1, 1, 1]], a_frag=0)
    part = rows.copy()
    part[:, 3] = UNWRITTEN
    assert "a_frag is filled in part: 3 of 4, with numbers of A." in it.said(own=part, a_frag=0)
    assert "frag" not in it.said(own=rows ^ 1, a_frag=0)
    sums = it.problem.reference.astype(np.float32).reshape(64, 1)
    both = np.concatenate([rows.view(np.float32), sums], axis=1)
    assert it.said(own=both, a_frag=0, acc=16).startswith("acc holds the right sums.")
    shared = np.repeat(sums[::32], 32, axis=0)
    assert "for only 2 of the 64 elements: each warp has its own, and all lanes" in it.said(own=shared, acc=0)
    assert "several threads compute the same ones" in it.said(own=np.roll(shared, 1), acc=0)
    assert "acc" not in it.said(own=sums + 1, acc=0)
    padded = np.concatenate([sums, np.full((64, 1), UNWRITTEN, np.uint32).view(np.float32)], axis=1)
    assert it.said(own=padded, acc=0).startswith("acc holds the right sums.")
    half = np.concatenate([sums[:32], sums[:32] + 1], axis=1)
    assert "acc" not in it.said(own=half, acc=0)


def test_one_sum_of_many_in_a_register_is_not_called_shared() -> None:
    it = Memory()
    sums = it.problem.reference.astype(np.float32).ravel()
    for register, shared in ((sums[::2], False), (np.repeat(sums[::4], 2), True)):
        remains = FinalMemory((), None, {}, {}, [register.view(np.uint32)], frozenset(), 0)
        said = " ".join(told.text for told in contents(it.problem, it.trial, remains, {}))
        assert ("several threads compute the same ones" in said) == shared


def test_the_compilers_copy_of_an_initialiser_is_no_load() -> None:
    for todos in (0, 5):
        said = said_after("any_shape", todos)
        assert "The counters have no loads" not in said
    assert "acc holds the right sums." in said


def test_names_come_from_the_debug_information() -> None:
    text = ".b8 11\n.b8 3\n.b64 __local_depot0\n.b8 35\n.b8 248,2\n.b8 97,95,102,114,97,103\n.b8 0\n"
    assert local_names(text) == {("__local_depot0", 376): "a_frag"}


@pytest.mark.slow
def test_what_was_in_memory_before_the_sums_passed_through_it_is_not_told() -> None:
    (it,) = (it for it in MISTAKES if it.name == "texels_of_numbers")
    assert "in memory:" not in told(it)


def test_the_contents_explain_what_the_answer_does_not() -> None:
    (it,) = (it for it in MISTAKES if it.name == "copies_exchanged")
    assert "As holds the tile of B" in told(it)


def test_a_nan_that_is_computed_is_not_called_a_missing_value() -> None:
    lesson = lesson_named("vector_loads")
    product = "a_frag[i][step] * b_frag[j]"
    source = lesson.solution_path.read_text().replace(product, f"{product} + (0.0f * K) / (K - K)")
    outcome = run(lesson, source)
    assert isinstance(outcome.verdict, WrongAnswer)
    assert outcome.verdict.judgement.pattern.name == "nan"
    assert not outcome.kernel.checked.findings


def test_what_prints_is_the_launch_that_failed() -> None:
    """With its leading dimensions, and with the tile that the host chooses for its shape."""
    parameters = "const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc"
    line = 'if (threadIdx.x + blockIdx.x + blockIdx.y == 0) printf("%d %d %d\\n", M, ldc, BM);'
    lesson = lesson_named("any_shape")
    outcome = run(lesson, f'extern "C" __global__ void gemm({parameters}) {{ {line} }}')
    checked = outcome.kernel.checked
    assert checked.printed is not None
    assert isinstance(checked.verdict, WrongAnswer)
    assert checked.printed_at == checked.verdict.shape
    request = RunRequest(any_course(), lesson, lesson.stub_path, Simulated(), GPUS["h200"], seed=outcome.seed)
    (launch,) = (it for it in RunPlan.of(request).kernels[0].launches if it.shape == checked.printed_at)
    leading = launch.problem(outcome.seed).layouts["C"].leading
    assert leading > launch.shape.n
    assert checked.printed.text.split() == [str(launch.shape.m), str(leading), str(launch.lesson.tile.defines["BM"])]
