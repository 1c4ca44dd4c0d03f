"""The compiler may crash, hang or be killed; the kit says so and goes on."""

import os
import signal
import threading
import time

import pytest

from checks.compiling import must_compile
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.tiles import typed
from gemm_lessons.engine.compiler import nvrtc_child, tools
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.process.child import ChildDied

PLAIN = "__global__ void gemm(float *x) { x[0] = 1; }"
# A slip that NVRTC 13.5 does not survive. A newer one may report an error instead.
CRASHES = """#include <stdint.h>

// a kernel
template <int BM, int BN> __global__ void tile(fl[at *x, int n)
{
    __shared__ float As[BM][BN];
    As[threadIdx.x][1] = x[0];
    x[1] = As[n][0];
}
"""
SLOW = """__device__ constexpr unsigned long f(unsigned long n)
{
    unsigned long s = 0;
    for (unsigned long i = 0; i < n; i++) s += i;
    return s;
}
__global__ void gemm(unsigned long *x) { constexpr auto q = f(1ull << 40); x[0] = q; }
"""


def child() -> int:
    return nvrtc_child._children[os.getpid(), 13].pid


def build(source: str, entry: str = "gemm") -> Compiled | NotCompiled:
    return compile_source(source, path="kernel.cu", entry=entry)


def test_a_file_that_crashes_the_compiler_is_blamed_by_line():
    result = build(CRASHES, "tile<64, 4>")
    assert isinstance(result, NotCompiled)
    assert result.diagnostics[0].line == 4
    assert isinstance(build(PLAIN), Compiled)


def test_a_killed_compiler_is_tried_once_more():
    assert isinstance(build(PLAIN), Compiled)
    before = child()
    os.kill(before, signal.SIGKILL)
    assert isinstance(build(PLAIN), Compiled)
    assert child() != before


def test_one_child_serves_many_compilations():
    build(PLAIN)
    before = child()
    build("oops")
    build(PLAIN)
    assert child() == before


@pytest.mark.slow
def test_what_was_compiled_before_changes_nothing():
    """NVRTC 13.5 kept in one process made three different programs of this one, one time in three another."""
    course = packaged_course()
    lesson, others = typed(course.lesson("mma"), "tma"), [course.lesson(name) for name in ("naive", "dgemm", "split_k")]

    def ptx(lesson: Lesson, number: int) -> str:
        text = f"{lesson.solution_path.read_text()}// {number}\n"  # not one that is in the cache
        entry, sizes = lesson.launches[-1].entry, lesson.tile.defines
        made = must_compile(text, entry=entry, defines=sizes, include_dirs=lesson.include_dirs)
        return made.ptx

    found = {ptx(lesson, 0)}
    for number in (1, 2):
        for other in others:
            ptx(other, number)
        found.add(ptx(lesson, number))
    assert len(found) == 1


def test_a_compilation_that_does_not_end_is_given_up(monkeypatch):
    build(PLAIN)
    monkeypatch.setattr(nvrtc_child, "PATIENCE_S", 0.3)
    started = time.monotonic()
    result = build(SLOW)
    assert time.monotonic() - started < 5
    assert isinstance(result, NotCompiled)
    assert "did not finish within 0.3 s" in result.diagnostics[0].message
    monkeypatch.setattr(nvrtc_child, "PATIENCE_S", 60.0)
    assert isinstance(build(PLAIN), Compiled)


def test_ctrl_c_leaves_no_answer_for_the_next_question(interrupted):
    build(PLAIN)
    interrupted(0.3, lambda: build(SLOW))
    result = build(PLAIN.replace("gemm", "after"), "after")
    assert isinstance(result, Compiled)
    assert result.entry == "_Z5afterPf"


def test_the_child_goes_when_it_is_closed():
    build(PLAIN)
    pid = child()
    nvrtc_child._close_all()
    assert nvrtc_child._children == {}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    nvrtc_child.start(13)
    assert isinstance(build(PLAIN), Compiled)


def test_a_helper_may_be_closed_while_threads_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a graded run that needs no machine code. Its pipes are not closed under a thread that uses
    them: another file could have their numbers by then, and a second close of a number ended such a run."""

    def slowly(*_: object) -> tuple[dict[str, object], list[object]]:
        time.sleep(1.3 * tools.PATIENCE_S)
        return {}, []

    monkeypatch.setattr(tools, "_do", slowly)
    tools.open_for_me(lambda starts: None)
    helper = tools._helper
    assert helper is not None
    ends: list[object] = []

    def ask() -> None:
        try:
            ends.append(tools.ask({}, [], 10))
        except ChildDied:
            ends.append(ChildDied)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not tools._turn.locked():
        time.sleep(0.01)
    tools.close()
    for thread in threads:
        thread.join()
    helper.close()
    assert ends == [({}, []), ChildDied]
