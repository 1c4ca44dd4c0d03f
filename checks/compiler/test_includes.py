"""A source reads its own folder, the folders that it is given, CUDA's headers: by no spelling anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.api import CompileError, simulate
from gemm_lessons.engine.compiler import includes, nvrtc_child
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.compiler.diagnostics import Diagnostic
from gemm_lessons.engine.compiler.source import included_names
from gemm_lessons.grading.worker import Limits, Submission, judge_submission

KERNEL = "\n__global__ void gemm(float *x) { x[0] = two(); }\n"
LESSONS = ("block_tile", "vector_loads", "double_buffer")
COURSE = packaged_course()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with headers, links and a pipe, beside the folder of somebody else."""
    root = tmp_path_factory.mktemp("class")
    folder, other = root / "own", root / "other"
    (folder / "sub").mkdir(parents=True)
    other.mkdir()
    two = "#pragma once\n__device__ float two() { return 2; }\n"
    (other / "theirs.cuh").write_text(two)
    (folder / "two.cuh").write_text(two)
    (folder / "sub" / "back.cuh").write_text('#include "../two.cuh"\n')
    (folder / "sub" / "leak.cuh").write_text('\n#include "../../other/theirs.cuh"\n')
    (folder / "inner.cuh").symlink_to("two.cuh")
    (folder / "outer.cuh").symlink_to(other / "theirs.cuh")
    (folder / "away").symlink_to(other)
    (folder / "round.cuh").symlink_to("round.cuh")
    os.mkfifo(folder / "pipe.cuh")
    return folder


def build(own: Path, text: str, *folders: Path, withheld: tuple[Path, ...] = ()) -> Compiled | NotCompiled:
    return compile_source(text + KERNEL, path=str(own / "k.cu"), entry="gemm", include_dirs=folders, withheld=withheld)


OUTSIDE = "which is outside of"
MINE = "__device__ float two() { return 2; }\n"
LEADS_OUT = {
    '#include "../other/theirs.cuh"': (1, f"includes ../other/theirs.cuh, {OUTSIDE}"),
    '#include "sub/../../other/theirs.cuh"': (1, OUTSIDE),
    '#include "sub/leak.cuh"': (2, OUTSIDE),
    '#include "outer.cuh"': (1, "a link to a file outside of"),
    '#include "away/theirs.cuh"': (1, "outside of"),
    '#include "pipe.cuh"': (1, "a device or a pipe"),
    f'{MINE}#include "/etc/passwd"': (2, f"includes /etc/passwd, {OUTSIDE}"),
    f"{MINE}#include </etc/passwd>": (2, OUTSIDE),
    f'{MINE}#include "/proc/self/environ"': (2, OUTSIDE),
    f'{MINE}#include "/proc/kmsg"': (2, OUTSIDE),
    f'{MINE}#include "/proc/self/fd/63"': (2, OUTSIDE),
    f'{MINE}#include "/dev/zero"': (2, OUTSIDE),
    f"{MINE}#include <{'../' * 30}etc/passwd>": (2, OUTSIDE),
    f'{MINE}#inc\\\nlude "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}%:include "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}#/* */include "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}// x\r#include "/etc/passwd"': (3, OUTSIDE),
    f'{MINE}// x \\ \n#include "/etc/passwd"': (3, OUTSIDE),
    f'{MINE}\v#include "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}#define FOOR\nconst char *s = FOOR"(";\n#include "/etc/passwd"\n//)"': (4, OUTSIDE),
    f'{MINE}#define A "/etc/passwd"\n#include A': (3, OUTSIDE),
    f'{MINE}#define B "/etc/passwd"\n#define A B\n#include A': (4, OUTSIDE),
    f"{MINE}#define S(x) #x\n#include S(/etc/passwd)": (3, includes.PIECES),
    f'{MINE}#define E\n#include E "/etc/passwd"': (3, includes.PIECES),
    f"{MINE}#define IN(x) </etc/x>\n#include IN(passwd)": (3, OUTSIDE),
    f'{MINE}#define IN(x) "../other/theirs.cuh"\n#define IN(x) #x\n#include IN(two.cuh)': (4, OUTSIDE),
    f'{MINE}/*\n*/ #include "/etc/passwd"': (3, OUTSIDE),
    f'{MINE}#/*\n*/include "/etc/passwd"': (2, OUTSIDE),
    f"{MINE}#define UP(a) <a##./other/theirs.cuh>\n#include UP(.)": (3, includes.PIECES),
    f"{MINE}#define D ../other\n#define IN(x) <D/x>\n#include IN(theirs.cuh)": (4, OUTSIDE),
    f"{MINE}#define x /etc/passwd\n#define S(a) #a\n#define T(a) S(a)\n#include T(x)": (5, includes.PIECES),
    f"{MINE}#define A < / etc / passwd >\n#include A": (3, OUTSIDE),
    f"{MINE}#de\\\nfine IN(x) </etc/x>\n#include IN(passwd)": (4, OUTSIDE),
    f"{MINE}/*\n*/ #define IN(x) </etc/x>\n#include IN(passwd)": (4, OUTSIDE),
    f"{MINE}#include NOT_HERE(passwd)": (2, includes.PIECES),
    f"{MINE}#define A <A/A>\n#include A": (3, includes.PIECES),
    f"{MINE}#define IN(x) </etc/x>\n#if __has_include(IN(passwd))\n#endif": (3, OUTSIDE),
    f'{MINE}#line 1 "/etc/passwd"\n#include __FILE__': (3, includes.PIECES),
    f'{MINE}#if __has_include("/etc/passwd")\n#endif': (2, OUTSIDE),
    f'{MINE}#if defined(__has_include) && __has_include("/etc/passwd")\n#endif': (2, OUTSIDE),
    f'{MINE}#define H __has_include\n#if H("/etc/passwd")\n#endif': (2, includes.PIECES),
    f'{MINE}#embed "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}#import "/etc/passwd"': (2, OUTSIDE),
    f'{MINE}asm(".incbin \\"/etc/passwd\\";");': (2, includes.INCBIN),
}
STAYS = (
    '#include "two.cuh"',
    '#include "sub/back.cuh"',
    '#include "sub/../two.cuh"',
    '#include "inner.cuh"',
    '#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n#include <mma.h>\n#include "two.cuh"',
    '#include <cub/block/block_reduce.cuh>\n#include <cuda/std/array>\n#include "two.cuh"',
    '#define A "two.cuh"\n#include A',
    '#define A <cuda_fp16.h>\n#include A\n#include "two.cuh"',
    '#define HEADER(name) <name>\n#include HEADER(cuda_fp16.h)\n#include "two.cuh"',
    "#define TEXT(name) #name\n#define HEADER(name) TEXT(name.cuh)\n#include HEADER(two)",
    '#define IN(x, y) <x/y>\n#include IN(cooperative_groups, reduce.h) // a comment\n#include "two.cuh"',
    '#define FP(x) <cuda_##x.h>\n#if __has_include(FP(bf16))\n#include FP(bf16)\n#endif\n#include "two.cuh"',
    '#if defined(__has_include) && __has_include(<cuda_bf16.h>)\n#include <cuda_bf16.h>\n#endif\n#include "two.cuh"',
    '// #include "/etc/passwd"\n/*\n#include "../other/theirs.cuh"\n*/\n#include "two.cuh" // what it includes',
    "#include \"two.cuh\"\n__device__ int include = 1'000, import = '\"';",
    '#include "two.cuh"\r\n\r\n#ifdef __has_include\r\n#endif\r\n',
)


def complaint(result: Compiled | NotCompiled) -> Diagnostic:
    assert isinstance(result, NotCompiled)
    return result.diagnostics[0]


@pytest.mark.parametrize("text", LEADS_OUT)
def test_what_leads_out_is_named_with_its_line(own: Path, text: str) -> None:
    found = complaint(build(own, text))
    line, words = LEADS_OUT[text]
    assert (found.line, found.severity) == (line, "error")
    assert words in found.message
    assert found.file == str(own / ("sub/leak.cuh" if "leak" in text else "k.cu"))


def test_a_missing_file_a_loop_of_links_and_a_long_name_are_the_compilers_to_report(own: Path) -> None:
    for name in ("nowhere.cuh", "round.cuh", "x" * 5000 + ".cuh"):
        assert "cannot open" in complaint(build(own, f'#include "{name}"')).message


@pytest.mark.parametrize("text", STAYS)
def test_what_stays_inside_compiles(own: Path, text: str) -> None:
    result = build(own, text)
    assert isinstance(result, Compiled), result.log or result.diagnostics


def test_headers_that_lead_up_and_down_are_read_once(own: Path) -> None:
    """Each names the next one by a longer way back; without ``#pragma once`` in mind, the ways never end."""
    for name, other in (("one", "two"), ("two", "one")):
        (own / name).mkdir()
        (own / name / "all.cuh").write_text(f'#pragma once\n#include "../{other}/all.cuh"\n')
    assert isinstance(build(own, '#include "two.cuh"\n#include "one/all.cuh"\n'), Compiled)


def test_folders_of_headers_count_as_inside(own: Path) -> None:
    other = own.parent / "other"
    assert isinstance(build(own, '#include "theirs.cuh"', other), Compiled)
    assert isinstance(build(own, '#include "../other/theirs.cuh"', other), Compiled)
    assert isinstance(build(own, '#include "outer.cuh"', other), Compiled)
    with pytest.raises(CompileError, match=r"k\.cu:1: includes \.\./other/theirs\.cuh, which is outside of"):
        simulate('#include "../other/theirs.cuh"' + KERNEL, "gemm", 1, 1, [], path=str(own / "k.cu"))


def test_a_withheld_file_is_found_under_any_name(own: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.cuh").hardlink_to(own / "two.cuh")
    for name in ("two.cuh", "copy.cuh"):
        found = complaint(build(tmp_path, f'#include "{name}"', own, withheld=(own / "two.cuh",)))
        assert found.message == f"includes {name}, which is the lesson's solution"


def test_the_compiler_itself_reads_nothing_else(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(includes, "forbidden", lambda *_: None)
    logs = []
    translate = nvrtc_child.translate

    def listen(*arguments: object) -> object:
        answer = translate(*arguments)  # type: ignore[arg-type]
        logs.append(answer[0].log)  # type: ignore[index]
        return answer

    monkeypatch.setattr(nvrtc_child, "translate", listen)
    if not confined():
        pytest.skip("this Linux has no Landlock")
    names = ("../other/theirs.cuh", "/etc/passwd", "/proc/version", "outer.cuh")
    for name in names:
        logs.clear()
        build(own, f'#define A "{name}"\n#include A')
        assert "cannot open source file" in logs[0]
    assert isinstance(build(own, '#include "sub/back.cuh"\n#include <cuda_fp16.h>'), Compiled)


def confined() -> bool:
    import subprocess
    import sys

    script = "import sys; from gemm_lessons.engine.process.landlock import confine; print(confine([sys.prefix]))"
    return "True" in subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout


def test_host_code_left_out_opens_no_way_out(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(includes, "forbidden", lambda *_: None)
    result = build(own, '#include "/proc/version"\nint main() { return 0; }')
    assert "Linux" not in str(complaint(result)) + (result.log if isinstance(result, NotCompiled) else "")


def test_messages_cannot_steer_a_terminal(own: Path) -> None:
    found = complaint(build(own, f'{MINE}#include "/etc/\x1b[2J\x9b1m\u202e"'))
    assert "/etc/\\x1b[2J\\x9b1m\\x202e" in found.message
    for text in ("#error \x1b]0;mine\x07", "\x1b[31m", 'static_assert(false, "\x1b[2J");', '#include "\x1b[2J.cuh"'):
        result = build(own, MINE + text)
        assert isinstance(result, NotCompiled)
        assert all(character.isprintable() for one in result.diagnostics for character in one.message)


def test_an_include_behind_a_carriage_return_is_no_secret_to_the_cache() -> None:
    assert included_names('// x\r#include "two.cuh"\n') == (("two.cuh", True),)
    assert included_names('#embed "two.cuh"\n') is None


@pytest.mark.parametrize("name", LESSONS)
def test_a_graded_submission_reads_no_solution(name: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson(name)
    mine = tmp_path / "kernel.cu"
    cheats = ['#include "solution.cu"\n', f'#include "{lesson.solution_path}"\n', '#include "bob/kernel.cu"\n']
    (tmp_path / "bob").symlink_to(lesson.directory.parent)
    cheats[2] = f'#include "bob/{lesson.directory.name}/solution.cu"\n'
    for source in cheats:
        mine.write_text(source)
        outcome = judge_submission(Submission(COURSE.root, lesson.name, mine, seed=1), Limits(60))
        assert outcome["verdict"] == "compile_failed"
        said = str(outcome["compile"]["diagnostics"][0]["message"])  # type: ignore[call-overload, index]
        assert said.startswith(("includes ", 'cannot open source file "bob/')), "what is not handed in is not there"
    mine.unlink()
    mine.symlink_to(lesson.solution_path)
    outcome = judge_submission(Submission(COURSE.root, lesson.name, mine, seed=1))
    assert outcome["verdict"] == "compile_failed"
    assert outcome["compile"]["diagnostics"][0]["message"] == (  # type: ignore[call-overload, index]
        "kernel.cu is a link to another file: hand in the file itself"
    )
