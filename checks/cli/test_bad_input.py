"""Bad input, end to end: one clear message each, the right exit code, no traceback, the learner's file untouched."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from checks.cli.tiny_course import KERNEL, SOLUTION, Ran, Run, environment
from gemm_lessons import __main__, engine
from gemm_lessons.course.folder import WriteError, init_course, read_source, write_new

ENDLESS = KERNEL.replace("BODY", "    while (acc < 1.0f) acc *= 0.5f;")
HUGE = KERNEL.replace("BODY", "    __shared__ float big[100000]; big[threadIdx.x] = 1; acc = big[threadIdx.x ^ 1];")
MISALIGNED = KERNEL.replace(
    "BODY", "    const float4 v = *reinterpret_cast<const float4 *>(A + 1); acc = v.x + v.y + v.z + v.w;"
)
UNSUPPORTED = KERNEL.replace("BODY", '    unsigned long long x; asm volatile("stacksave.u64 %0;" : "=l"(x)); acc = x;')
OUT_OF_BOUNDS = KERNEL.replace("BODY", "    acc = A[M * K + 100];")

# A process that root's right to write everywhere has been taken from, so that read-only folders are read only.
WITHOUT_PRIVILEGES = [
    sys.executable,
    "-c",
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None)\n"
    "[libc.prctl(24, capability, 0, 0, 0) for capability in (1, 2)]\n"  # PR_CAPBSET_DROP: DAC_OVERRIDE, DAC_READ_SEARCH
    f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'gemm_lessons', *sys.argv[1:]])",
]

# A shell that starts us in the background has us ignore Ctrl-C, and children inherit that: undo it.
INTERRUPTIBLE = [
    sys.executable,
    "-c",
    "import signal\n"
    "from gemm_lessons.__main__ import main\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "print('here we are', flush=True)\n"
    "main()",
]


def clear(result: Ran, code: int, *words: str) -> None:
    """One message on stderr with these words, this exit code, nothing that looks like Python."""
    assert result.code == code, (result.out, result.err)
    assert "Traceback" not in result.out + result.err
    assert "bug in gemm-lessons" not in result.err
    assert result.err.count("error:") == 1, result.err
    for word in words:
        assert word in result.err, result.err


def verdict(result: Ran, *words: str) -> None:
    """The kernel did not pass (exit code 1) and the report says why."""
    assert result.code == 1, (result.out, result.err)
    assert "Traceback" not in result.out + result.err
    assert result.err == ""
    for word in words:
        assert word in result.out, result.out


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("frist", "did you mean 01_first?"),
        ("01_frst", "did you mean 01_first?"),
        ("7", "the course has 01 to 02"),
        ("99999999999999999999", "the course has 01 to 02"),
        ("zzz", "gemm-lessons list"),
        ("", "gemm-lessons list"),
        ("../../etc", "nor is there such a file"),
        ("/", "that folder has none"),
        (__file__, "a file with a kernel ends in .cu"),
        ("²", "gemm-lessons list"),
    ],
)
@pytest.mark.parametrize("command", ["run", "read"])
def test_unknown_lesson(run: Run, command: str, query: str, suggestion: str) -> None:
    clear(run(command, query), 2, "there is no lesson", suggestion)


def test_a_number_twice(run: Run, course: Path) -> None:
    (course / "lessons" / "02_other").mkdir()
    clear(run("read", "2"), 2, "02_other or 02_second")


def test_not_started(run: Run) -> None:
    clear(run("run", "01"), 2, "lessons/01_first/kernel.cu does not exist yet; make it: gemm-lessons start 01")


def test_missing_file(run: Run) -> None:
    clear(run("run", "01", "--file", "nowhere.cu"), 2, "nowhere.cu: no such file")


def test_file_is_a_folder(run: Run) -> None:
    clear(run("run", "01", "--file", "lessons"), 2, "lessons is a folder")


def test_file_in_a_file(run: Run) -> None:
    clear(run("run", "01", "--file", "lessons/01_first/stub.cu/x.cu"), 2, "cannot be read: not a directory")


def test_file_is_a_device(run: Run) -> None:
    clear(run("run", "01", "--file", "/dev/zero"), 2, "not a regular file")


def test_unreadable_file(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    kernel.chmod(0)
    clear(run("run", "01", prefix=WITHOUT_PRIVILEGES), 2, "kernel.cu: cannot be read: permission denied")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "is empty"),
        (bytes(range(256)), "save it as UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "holds a zero byte"),
        ("// fine\n".encode("utf-16-le"), "holds a zero byte; if it is CUDA C++ source, save it as UTF-8"),
        (b"// fine\n// fine\n\xff", "not UTF-8 text"),
        (b"x" * 1_100_000, "larger than a megabyte"),
    ],
    ids=["empty", "blank", "every byte", "a program", "utf-16", "latin 1", "too large"],
)
def test_a_file_that_is_no_source(run: Run, kernel: Path, content: bytes, words: str) -> None:
    kernel.write_bytes(content)
    told = run("run", "01", "--json")
    assert (told.code, told.err) == (1, "")
    outcome = json.loads(told.out)
    assert outcome["verdict"] == "compile_failed"
    assert words in outcome["compile"]["diagnostics"][0]["message"]
    assert kernel.read_bytes() == content


def test_a_file_that_is_no_source_in_words(run: Run, kernel: Path) -> None:
    kernel.write_bytes(SOLUTION.encode("utf-16"))
    verdict(run("run", "01"), "COMPILE FAILED", "lessons/01_first/kernel.cu:1", "not UTF-8 text (byte 0)")


def test_comments_and_strings_of_another_encoding_are_fine(run: Run, kernel: Path) -> None:
    text = '// na\xefve\n#define SHIFT 0 // \x93none\x94\n/* \xe9\n\xfc */ __constant__ char word[] = "\xe91";\n'
    kernel.write_bytes((text + SOLUTION).encode("latin-1"))
    assert run("run", "01").code == 0
    show = "__global__ void show(int *out) { out[threadIdx.x] = word[threadIdx.x] + SHIFT; }"
    kernel.write_bytes((text + show).encode("latin-1"))
    engine.compile(read_source(kernel), "show").launch(1, 3, [out := np.zeros(3, np.int32)])
    assert out.tolist() == [0xE9 - 256, ord("1"), 0]
    kernel.write_bytes((text + show + "\xe9").encode("latin-1"))
    launch = ("--grid", "1", "--block", "3", "--args", "out=out i32[3]")
    clear(run("inspect", str(kernel), *launch), 2, f"kernel.cu:5: not UTF-8 text (byte {len(text + show)})")


def test_bytes_order_mark_and_windows_lines_are_fine(run: Run, kernel: Path) -> None:
    kernel.write_bytes(b"\xef\xbb\xbf" + SOLUTION.replace("\n", "\r\n").encode())
    assert run("run", "01").code == 0


def test_wrong_kernel_name(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION.replace("gemm(", "multiply("))
    verdict(run("run", "01"), "COMPILE FAILED", "gemm")


def test_wrong_parameters(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION.replace("int M, int N, int K", "int M, int N"))
    verdict(run("run", "01"), "COMPILE FAILED")
    kernel.write_text(SOLUTION.replace(", int K)", ", int K, int extra)"))
    verdict(run("run", "01"), "COMPILE FAILED", "K")


def test_syntax_error(run: Run, kernel: Path) -> None:
    source = SOLUTION.replace("float acc = 0.0f;", "float acc = 0.0f")
    kernel.write_text(source)
    verdict(run("run", "01"), "COMPILE FAILED", "lessons/01_first/kernel.cu:8", 'expected a ";"')
    assert kernel.read_text() == source


def test_no_cuda_at_all(run: Run, kernel: Path) -> None:
    kernel.write_text("Dear reader, this is a letter.\n")
    verdict(run("run", "01"), "COMPILE FAILED", "lessons/01_first/kernel.cu:1")


def test_missing_include(run: Run, kernel: Path) -> None:
    kernel.write_text('#include "nowhere.cuh"\n' + SOLUTION)
    verdict(run("run", "01"), "COMPILE FAILED", "nowhere.cuh")


def test_endless_loop(run: Run, kernel: Path) -> None:
    kernel.write_text(ENDLESS)
    began = time.monotonic()
    verdict(run("run", "01"), "TIMED OUT", "while (acc < 1.0f)")
    assert time.monotonic() - began < 60


def test_huge_shared_array(run: Run, kernel: Path) -> None:
    kernel.write_text(HUGE)
    verdict(run("run", "01"), "shared")


def test_misaligned_vector(run: Run, kernel: Path) -> None:
    kernel.write_text(MISALIGNED)
    verdict(run("run", "01"), "FAULTED", "misaligned", "reinterpret_cast<const float4 *>(A + 1)")


def test_out_of_bounds(run: Run, kernel: Path) -> None:
    kernel.write_text(OUT_OF_BOUNDS)
    stopped = "Stopped at 9x16x5 (M x N x K), the first"
    verdict(run("run", "01", "--details"), "FAULTED", "out of bounds", "A[M * K + 100]", stopped)


def test_unsupported_opcode(run: Run, kernel: Path) -> None:
    kernel.write_text(UNSUPPORTED)
    result = run("run", "01", "--json")
    clear(result, 3, "lessons/01_first/kernel.cu:6", "stacksave")
    assert result.out == ""


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("8,9,8", "N = 9 is not a multiple of 8 (try 8 or 16)"),
        ("8,7,8", "N = 7 is not a multiple of 8 (try 8)"),
        ("0,8,8", "M = 0 is below 1"),
        ("8,8", "is not a shape"),
        ("8,8,8,8", "is not a shape"),
        ("-8,8,8", "is not a shape"),
        ("a,b,c", "is not a shape"),
        ("", "is not a shape"),
        ("99999999999,8,8", "is not a shape"),
    ],
)
def test_a_shape_that_is_not_allowed(run: Run, shape: str, words: str) -> None:
    clear(run("run", "02", "--solution", f"--shape={shape}"), 2, words)


def test_a_shape_that_does_not_fit_into_memory(run: Run) -> None:
    clear(run("run", "01", "--solution", "--shape", "900000,900000,900000"), 2, "900000", "smaller")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--solution", "--stub"), "exclude each other"),
        (("--solution", "--gpu", "voodoo2"), "known: "),
    ],
)
def test_options_that_cannot_be(run: Run, options: tuple[str, ...], words: str) -> None:
    clear(run("run", "01", *options), 2, words)


def test_a_gpu_that_is_not_there(run: Run) -> None:
    result = run("run", "01", "--solution", "--device", "gpu", env={"CUDA_VISIBLE_DEVICES": ""})
    clear(result, 3)
    assert re.search("CuPy|GPU", result.err)


@pytest.mark.parametrize(
    "arguments", [("rnu", "01"), ("start",), ("run", "01", "--nope"), ("run", "01", "--device", "tpu")]
)
def test_usage(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert "Usage: gemm-lessons" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title =", "title", ("lesson.toml:1", "not valid TOML")),
        ("BM = 4", "BM = 0", ("lesson.toml:5", "BM", "above 0")),
        ("BM = 4", 'BM = "4"', ("lesson.toml:5", "BM")),
        ("ceil_div(N, BN)", "ceil_div(N, BQ)", ("lesson.toml:9", "grid", "BQ", "known: M, N, K, BM, BN")),
        ("ceil_div(N, BN)", "__import__('os')", ("lesson.toml:9", "grid", "not allowed")),
        ("ceil_div(N, BN)", "N // (BN - 8)", ("[launch]", "whole number")),
        ('["BM * BN"]', '["BM * BN * 100"]', ("lesson.toml:10", "block", "at most 1024")),
        ("entry =", "entri =", ("lesson.toml:13", "entri", "did you mean entry?")),
        ('"A", "B", "C", "M"', '"A", "B", "D", "M"', ("lesson.toml:14", '"D"')),
        ("count = [8, 16, 4]", "", ("lesson.toml:16", "count: is missing")),
        ("count = [8, 16, 4]", "count = [8, 16]", ("lesson.toml:19", "[8, 16]")),
        ("number = 1", "number = 2", ("lesson.toml:21", "1, 2, 3")),
        ('hints = ["a nudge"', 'hints = ["a nudge", 7', ("lesson.toml:23", "hints")),
    ],
)
def test_broken_lesson_toml(run: Run, course: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    path = course / "lessons" / "01_first" / "lesson.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    clear(run("run", "01", "--solution"), 3, "01_first", *words)
    listed = run("list")
    clear(listed, 3, "01_first", *words)
    assert "02_second" in listed.out


def test_missing_lesson_toml(run: Run, course: Path) -> None:
    (course / "lessons" / "01_first" / "lesson.toml").unlink()
    clear(run("run", "01"), 3, "lesson.toml: not found; to restore it: gemm-lessons reset 01 --settings")


def test_missing_stub_and_text(run: Run, course: Path) -> None:
    (course / "lessons" / "01_first" / "stub.cu").unlink()
    (course / "lessons" / "01_first" / "README.md").unlink()
    clear(run("start", "01"), 3, "01_first/stub.cu: not found")
    clear(run("read", "01"), 3, "01_first/README.md: not found")


def read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o555)


@pytest.fixture
def locked(course: Path, kernel: Path) -> Path:
    """The course with a solved lesson 01, all folders read only."""
    kernel.write_text(SOLUTION)
    read_only(course)
    return course


def test_read_only_course_runs_with_a_note(run: Run, locked: Path) -> None:
    if ctypes.CDLL(None).prctl(23, 1) != 1 and os.geteuid() == 0:  # PR_CAPBSET_READ
        pytest.fail("root without CAP_DAC_OVERRIDE in its bounding set: this test shows nothing here")
    result = run("run", "01", prefix=WITHOUT_PRIVILEGES)
    assert result.code == 0, result.err
    assert result.err.startswith("note: progress is not saved")
    assert result.err.count("\n") == 1
    assert not (locked / ".gemm-lessons").exists()


def test_read_only_course_cannot_start(run: Run, locked: Path) -> None:
    clear(run("start", "02", prefix=WITHOUT_PRIVILEGES), 3, "02_second/kernel.cu: cannot be written: permission denied")


def test_a_read_only_file_system_is_told_by_the_file_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_bytes", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(WriteError, match=r"/kernel\.cu: cannot be written: read-only file system"):
        write_new(tmp_path / "kernel.cu", b"")


def test_read_only_course_keeps_the_file_on_reset(run: Run, locked: Path, kernel: Path) -> None:
    clear(run("reset", "01", prefix=WITHOUT_PRIVILEGES), 3, "cannot be written: permission denied")
    assert kernel.read_text() == SOLUTION
    assert sorted(path.name for path in kernel.parent.iterdir()) == [
        "README.md",
        "kernel.cu",
        "lesson.toml",
        "solution.cu",
        "stub.cu",
    ]


def test_init_where_nothing_can_be_written(run: Run, locked: Path) -> None:
    clear(run("init", str(locked / "new"), prefix=WITHOUT_PRIVILEGES), 3, "cannot be written: permission denied")


def test_an_interrupt_while_python_makes_a_class(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()

    monkeypatch.setattr(__main__, "_run", run)
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert (end.value.code, capsys.readouterr().err) == (130, "\ninterrupted\n")


def test_a_tree_that_cannot_be_copied_is_told_by_its_first_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(source: Path, target: Path, **_: object) -> None:
        one = (source / "a", target / "a", f"[Errno 28] No space left on device: '{source}/a' -> '{target}/a'")
        raise shutil.Error([one, one])

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(WriteError, match="new: cannot be written: no space left on device; nothing"):
        init_course(tmp_path / "new")


@pytest.mark.parametrize("delay", [0.1, 0.5, 2.0])
def test_interrupt(course: Path, kernel: Path, delay: float) -> None:
    """Ctrl-C at any time from our first line on: one more, exit code 130, no half-written file."""
    kernel.write_text(SOLUTION)
    process = subprocess.Popen(
        [*INTERRUPTIBLE, "run", "01", "--shape", "1500,1500,1500"],  # half a minute of work
        cwd=course,
        env={name: value for name, value in environment().items() if not name.startswith("COV")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "here we are\n", "however long Python takes to start"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    # CPython ends itself by the signal, whatever code we exit with, when it came during an exec(), as in a dataclass.
    # A shell shows 130 for both.
    assert process.returncode in (130, -signal.SIGINT), (out, err)
    assert err.strip() == "interrupted"
    assert kernel.read_text() == SOLUTION
    assert not list(course.rglob("*.tmp"))


def test_no_stdout_and_a_full_one(run: Run) -> None:
    closed = run("list", prefix=["sh", "-c", '"$0" -m gemm_lessons "$@" >&-', sys.executable])
    assert (closed.code, closed.err) == (0, "")
    full = run("list", prefix=["sh", "-c", '"$0" -m gemm_lessons "$@" >/dev/full', sys.executable])
    clear(full, 3, "cannot write: no space left on device")


def test_a_width_of_nothing_is_no_width(run: Run) -> None:
    assert "01_first" in run("list", env={"COLUMNS": "0"}).out


def test_progress_that_cannot_be_read_is_kept(run: Run, course: Path) -> None:
    """Damaged, or a newer version's: told once, and not lost."""
    stored = course / ".gemm-lessons" / "progress.json"
    stored.parent.mkdir()
    for number, text in enumerate(('{"schema": "gemm-lessons/progress/2"}', "{", '{"lessons": []}'), 1):
        stored.write_text(text)
        first, second = run("hint", "01"), run("hint", "01")
        assert (first.code, second.code) == (0, 0)
        assert f"the old file is kept as progress.json.bak-{number}" in first.err
        assert second.err == ""
        assert stored.with_name(f"progress.json.bak-{number}").read_text() == text
    lesson = '{"01_first": {"hints": {"1": -4, "9": true}, "last": "x", "broken_since": "y", "runs": -1}}'
    stored.write_text(f'{{"schema": "gemm-lessons/progress/1", "lessons": {lesson}}}')
    assert run("hint", "01").code == 0


def test_hints_for_a_file_that_cannot_be_read_are_none(run: Run, kernel: Path) -> None:
    """The command must not claim that every TODO is filled in."""
    kernel.write_bytes(SOLUTION.encode("utf-16"))
    clear(run("hint", "01"), 2, "not UTF-8")
    assert run("hint", "01", "--todo", "1").code == 0
    assert run().code == 0


def test_what_may_not_be_read_is_named(run: Run, course: Path, kernel: Path, tmp_path: Path) -> None:
    kernel.write_text(SOLUTION)
    kernel.chmod(0)
    clear(run("compare", "01", "02", prefix=WITHOUT_PRIVILEGES), 2, "kernel.cu: cannot be read: permission denied")
    kernel.unlink()
    os.mkfifo(kernel)  # to read it would never end
    clear(run("compare", "01", "02"), 2, "kernel.cu is not a regular file")
    (course / "lessons" / "01_first" / "README.md").write_bytes(b"\xff")
    clear(run("read", "01"), 2, "README.md:1: not UTF-8 text (byte 0); save it as UTF-8")
    run("init", "mine", "--no-git", cwd=tmp_path)
    closed = tmp_path / "mine" / "lessons" / "02_coalesced"
    closed.chmod(0)
    clear(run("reset", "--all", cwd=tmp_path / "mine", prefix=WITHOUT_PRIVILEGES), 3, "02_coalesced: cannot be written")
    closed.chmod(0o755)


def test_init_in_a_folder_whose_name_a_shell_reads(run: Run, tmp_path: Path) -> None:
    for name, typed in (("my course", "'my course'"), ("-x", "./-x")):
        made = run("init", "--no-git", "--", name, cwd=tmp_path)
        assert f"cd {typed} && gemm-lessons" in made.out
    clear(run("init", "x" * 300, cwd=tmp_path), 3, "file name too long")
    common = tmp_path / "my course" / "lessons" / "common"
    shutil.rmtree(common)
    common.touch()
    clear(run("reset", "--all", cwd=tmp_path / "my course"), 3, "lessons/common: cannot be written")


def test_a_pipe_that_closes(run: Run) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m gemm_lessons read 03 | head -1; exit 0"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert done.stderr == ""


def test_a_run_that_nobody_reads_to_its_end_counts(course: Path, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    subprocess.run(
        ["sh", "-c", f"{sys.executable} -m gemm_lessons run 01 | true"],
        cwd=course, capture_output=True, check=True, env=environment(), timeout=60,
    )  # fmt: skip
    state = json.loads((course / ".gemm-lessons" / "progress.json").read_text())
    assert "passed" in json.dumps(state["lessons"]["01_first"])


def test_a_bug_is_called_a_bug(run: Run, course: Path, tmp_path: Path) -> None:
    """An unexpected error, here of a damaged file of the package, is reported as a bug of the kit."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "rich").mkdir()
    (broken / "rich" / "__init__.py").write_text("raise ZeroDivisionError('nobody foresaw this')")
    result = run("version", env={"PYTHONPATH": str(broken)})
    quiet = run("list", env={"PYTHONPATH": str(broken), "TMPDIR": str(tmp_path)})
    assert "Traceback" not in result.err + quiet.err
    clear_lines = quiet.err.strip().splitlines()
    assert len(clear_lines) == 1
    assert "this is a bug in gemm-lessons (ZeroDivisionError: nobody foresaw this)" in clear_lines[0]
    assert quiet.code == 3
    (log,) = tmp_path.glob("gemm-lessons-*.log")
    assert "Traceback" in log.read_text()
    loud = run("list", env={"PYTHONPATH": str(broken), "GEMM_LESSONS_DEBUG": "1"})
    assert "Traceback" in loud.err


def test_json_stays_json_when_the_kernel_is_wrong(run: Run, kernel: Path) -> None:
    kernel.write_text("nonsense")
    result = run("run", "01", "--json")
    assert result.code == 1
    assert json.loads(result.out)["verdict"] == "compile_failed"


def test_json_with_a_wrong_command_is_silent_on_stdout(run: Run) -> None:
    result = run("run", "07", "--json")
    assert (result.code, result.out) == (2, "")


def test_includes_that_lead_out_are_compile_errors(run: Run, course: Path, kernel: Path, tmp_path: Path) -> None:
    os.mkfifo(kernel.with_name("pipe.cuh"))
    for name in ("solution.cu", "../02_second/stub.cu", "/proc/kmsg", "pipe.cuh", "/etc/\x1b[2J"):
        kernel.write_text(f'// mine\n#include "{name}"\n' + SOLUTION)
        shown = name.replace("\x1b", "\\x1b")
        verdict(run("run", "01"), f"lessons/01_first/kernel.cu:2: error: includes {shown}, which is")
    outcome = json.loads(run("run", "01", "--json").out)
    assert (outcome["verdict"], outcome["compile"]["diagnostics"][0]["line"]) == ("compile_failed", 2)
    inspected = run("inspect", str(kernel), "--entry", "gemm", "--grid", "1", "--block", "1", "--args", "")
    assert inspected.code != 0
    assert "\x1b" not in inspected.out + inspected.err
    kernel.unlink()
    (tmp_path / "elsewhere.cu").write_text(SOLUTION)
    kernel.symlink_to(tmp_path / "elsewhere.cu")
    assert run("run", "01").code == 0
    kernel.unlink()
    os.mkfifo(kernel)
    clear(run("run", "01"), 2, "not a regular file")


def test_a_file_that_a_library_cannot_write_is_no_bug(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    told = run("--install-completion", "bash", prefix=["env", f"HOME={home}", *WITHOUT_PRIVILEGES])
    clear(told, 3, f"error: {home}/.bash")
    assert "ermission denied" in told.err
    assert "bug" not in told.err
