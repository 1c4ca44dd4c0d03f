"""The commands beside ``run``: what they print, what they write, and what they never touch."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import SOLUTION, STUB, Run
from gemm_lessons.cli.commands import COURSE, NAMES, OTHER_WORDS

DRIVER = Path(__file__).resolve().parents[1] / "notebook" / "libcuda.c"


def test_list_marks_passed_started_and_next(run: Run, course: Path, kernel: Path) -> None:
    before = run("list")
    assert before.code == 0
    assert "0 of 2 passed" in before.out
    assert re.search(r"next +01_first", before.out)
    assert before.out.rstrip().endswith("gemm-lessons next")
    kernel.write_text(STUB)
    assert re.search(r"started +01_first", run("list").out)
    kernel.write_text(SOLUTION)
    assert run("run", "1").code == 0
    after = run("list")
    assert "1 of 2 passed" in after.out
    assert re.search(r"passed +01_first", after.out)
    assert re.search(r"next +02_second", after.out)
    state = json.loads((course / ".gemm-lessons" / "progress.json").read_text())
    stored = {"passed": True, "runs": 1, "last": "passed", "hints": {}, "broken_since": "", "revealed": False}
    assert state == {"schema": "gemm-lessons/progress/1", "recent": "01_first", "lessons": {"01_first": stored}}


def test_everything_passed(run: Run, course: Path) -> None:
    for lesson in ("01_first", "02_second"):
        folder = course / "lessons" / lesson
        (folder / "kernel.cu").write_text((folder / "solution.cu").read_text())
        last = run("run", lesson)
        assert last.code == 0
    assert "last lesson" in last.out
    assert "Every lesson is passed" in run("list").out


def test_words_of_other_tools(run: Run) -> None:
    assert set(OTHER_WORDS).isdisjoint(NAMES)
    assert set(OTHER_WORDS.values()) <= set(NAMES)
    result = run("estimate", "03")
    assert result.code == 2
    assert "No such command 'estimate'. Did you mean 'inspect'?" in result.err


@pytest.mark.parametrize(
    "content", ["{", '{"schema": "other"}', '{"schema": "gemm-lessons/progress/1", "lessons": [1]}', "\x00"]
)
def test_broken_progress_is_a_fresh_start(run: Run, course: Path, content: str) -> None:
    state = course / ".gemm-lessons" / "progress.json"
    state.parent.mkdir()
    state.write_text(content)
    result = run("list")
    assert (result.code, result.err) == (0, "")
    assert "0 of 2 passed" in result.out


def test_read_renders_and_hides_comments(run: Run) -> None:
    result = run("read", "first")
    assert result.code == 0
    assert "The first lesson" in result.out
    assert "from: stub.cu" not in result.out
    assert "\x1b" not in result.out
    assert "|---" not in result.out


def test_read_raw_is_the_file(run: Run, course: Path) -> None:
    assert run("read", "01", "--raw").out == (course / "lessons" / "01_first" / "README.md").read_text()


def test_read_works_outside_any_course(run: Run, tmp_path: Path) -> None:
    result = run("read", "03", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "hared" in result.out


def test_start_says_where_and_what(run: Run, kernel: Path) -> None:
    result = run("start", "01")
    assert result.code == 0
    assert kernel.read_text() == STUB
    assert "lessons/01_first/kernel.cu" in result.out
    assert "line 6  TODO(1)  add up the K products, for threads inside C only." in result.out
    assert "gemm-lessons run 01" in result.out


def test_start_from_inside_the_lesson(run: Run, course: Path, kernel: Path) -> None:
    result = run("start", "first", cwd=course / "lessons" / "02_second")
    assert result.code == 0
    assert kernel.exists()


def test_start_keeps_what_is_there(run: Run, kernel: Path) -> None:
    kernel.write_text("// mine\n")
    result = run("start", "01")
    assert result.code == 0
    assert "kept" in result.out
    assert kernel.read_text() == "// mine\n"


def test_reset_numbers_its_backups(run: Run, kernel: Path) -> None:
    for n in (1, 2, 3):
        kernel.write_text(f"// attempt {n}\n")
        result = run("reset", "01")
        assert result.code == 0
        assert f"kernel.cu.bak-{n}" in result.out
        assert kernel.read_text() == STUB
    assert [kernel.with_name(f"kernel.cu.bak-{n}").read_text() for n in (1, 2, 3)] == [
        f"// attempt {n}\n" for n in (1, 2, 3)
    ]


def test_reset_of_an_untouched_stub_makes_no_backup(run: Run, kernel: Path) -> None:
    run("start", "01")
    assert run("reset", "01").code == 0
    assert not list(kernel.parent.glob("*.bak*"))


def test_reset_without_a_file_starts(run: Run, kernel: Path) -> None:
    assert run("reset", "01").code == 0
    assert kernel.read_text() == STUB


def test_reset_keeps_all_of_a_large_file(run: Run, kernel: Path) -> None:
    kernel.write_bytes(b"x" * 3_000_000)
    assert run("reset", "01").code == 0
    assert kernel.with_name("kernel.cu.bak-1").stat().st_size == 3_000_000


def test_reset_keeps_binary_junk(run: Run, kernel: Path) -> None:
    junk = bytes(range(256))
    kernel.write_bytes(junk)
    assert run("reset", "01").code == 0
    assert kernel.with_name("kernel.cu.bak-1").read_bytes() == junk


def test_init_has_no_solutions(run: Run, tmp_path: Path) -> None:
    result = run("init", "new/course", cwd=tmp_path)
    assert result.code == 0, result.err
    made = tmp_path / "new" / "course"
    names = {path.name for path in made.rglob("*") if path.is_file()}
    assert {"lesson.toml", "stub.cu", "matrix.cuh", ".gitignore"} <= names
    assert not any(name.startswith(("solution", "kernel")) for name in names)
    assert "cd new/course" in result.out
    listed = run("list", cwd=made)
    assert "03_block_tile" in listed.out
    assert run("start", "03", cwd=made).code == 0


def test_init_here_keeps_what_is_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert run("init", ".", cwd=tmp_path).code == 0
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_init_twice_changes_nothing(run: Run, course: Path) -> None:
    result = run("init", ".", cwd=course)
    assert result.code == 2
    assert "already has a lessons folder" in result.err


def test_init_onto_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = run("init", "file", cwd=tmp_path)
    assert result.code == 2
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("arguments", [("--todo", "2"), ("--todo", "0"), ("--todo", "1", "--level", "4")])
def test_hint_that_is_not_there(run: Run, arguments: tuple[str, ...]) -> None:
    result = run("hint", "01", *arguments)
    assert result.code == 2
    assert "lesson 01_first" in result.err


def test_doctor_finds_everything_here(run: Run) -> None:
    result = run("doctor", env={"COLUMNS": "200"})
    assert result.code == 0, result.out
    assert "missing" not in result.out
    for what in ("NVRTC", "nvdisasm", "CUDA headers", "compile and simulate", "GPU driver", "CuPy", "course folder"):
        assert what in result.out


def test_doctor_names_what_is_broken(run: Run, course: Path) -> None:
    (course / "lessons" / "01_first" / "lesson.toml").write_text("title =")
    result = run("doctor", env={"COLUMNS": "200"})
    assert result.code == 3
    assert "01_first/lesson.toml:1" in "".join(result.out.split())


@pytest.mark.parametrize(
    ("defines", "words"),
    [
        (
            (),
            [
                "CUDA 12.4: Tesla T4 (compute capability 7.5)",
                "15_mma, 16_precision, 17_ragged_mma need 8.0 or newer; 18_wgmma, ",
                "need 9.0. Run them with --device sim",
            ],
        ),
        (["-DNO_GPU"], ["present, but unusable (CUDA error 100)"]),
    ],
)
def test_doctor_names_the_gpu_and_lessons_that_need_another(
    run: Run, tmp_path: Path, defines: list[str], words: list[str]
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc builds the stand-in for a driver")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", *defines, "-shared", "-fPIC", "-o", str(library), str(DRIVER)], check=True)
    env = {"LD_LIBRARY_PATH": str(tmp_path), "COLUMNS": "200"}
    result = run("doctor", env=env, prefix=[sys.executable, "-m", "gemm_lessons"])
    assert result.code == 0, result.out
    said = " ".join(result.out.split())
    assert not [word for word in words if word not in said], said
    assert ("lessons on a GPU" in said) == (not defines)


def broken_package(folder: Path, name: str) -> dict[str, str]:
    """An environment in which ``name`` is an empty package, as after an installation that went wrong."""
    (folder / "shadow" / name).mkdir(parents=True)
    (folder / "shadow" / name / "__init__.py").write_text("")
    return {"PYTHONPATH": str(folder / "shadow"), "COLUMNS": "200", "XDG_CACHE_HOME": str(folder / "cache")}


def test_doctor_without_the_compiler(run: Run, tmp_path: Path) -> None:
    result = run("doctor", env=broken_package(tmp_path, "cuda"))
    assert result.code == 3
    assert re.search(r"missing +NVRTC", result.out)
    assert re.search(r"missing +compile and simulate", result.out)
    assert "pip install" in result.out


def test_doctor_without_nvidias_wheels(run: Run, tmp_path: Path) -> None:
    env = {**broken_package(tmp_path, "nvidia"), "CUDA_HOME": "", "CUDA_PATH": ""}
    result = run("doctor", env=env)
    assert result.code == 3
    if not Path("/usr/local/cuda").exists():
        assert re.search(r"missing +nvdisasm", result.out)
        assert re.search(r"missing +CUDA headers", result.out)


def test_run_without_the_compiler_says_what_to_install(run: Run, tmp_path: Path) -> None:
    result = run("run", "01", "--solution", env=broken_package(tmp_path, "cuda"))
    assert result.code == 3
    assert "Traceback" not in result.err
    assert "pip install" in result.err
    assert "gemm-lessons doctor" in result.err


def test_doctor_outside_any_course(run: Run, tmp_path: Path) -> None:
    result = run("doctor", cwd=tmp_path, env={"COLUMNS": "200"})
    assert result.code == 0
    assert re.search(r"optional +course folder +none here\s+make one: gemm-lessons init my-course", result.out)


@pytest.mark.parametrize("arguments", [("--version",), ("version",)])
def test_version(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out.split()[0]) == (0, "gemm-lessons")


@pytest.mark.parametrize(
    "command",
    "list read start next watch reset init hint diff compare run check predict bug view export site inspect profile "
    "bench opcodes doctor version dev".split(),
)
def test_every_command_has_examples(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert f"gemm-lessons {command}" in result.out.split("Examples:")[1]
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_without_a_lesson_it_is_the_one_that_you_are_at(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    ran = run("run", "--details")
    assert ran.code == 0
    assert "01_first" in ran.out
    assert "01_first" in run("run", "--details").out  # passed, and the next one has no kernel yet
    assert run("start", "02").code == 0
    assert "lessons/02_second/kernel.cu" in run("run", "--details").out
    assert "TODO(1), hint 1" in run("hint").out
    assert run("read", "--raw").out == run("read", "02", "--raw").out


def test_examples_name_sizes_and_answers_that_fit(tmp_path: Path) -> None:
    said = {it.name: [shlex.split(line)[1:] for line in it.examples] for it in COURSE if it.name in ("run", "predict")}
    (tiles,) = (it for it in said["run"] if "--tile" in it)
    assert forks.run([*tiles, "--solution"], cwd=tmp_path).returncode == 0
    assert forks.run(["init", "course"], cwd=tmp_path).returncode == 0
    (answers,) = (it for it in said["predict"] if len(it) > 2)
    assert forks.run(answers, cwd=tmp_path / "course").returncode == 0


@pytest.mark.parametrize(("typed", "names"), [("0", ["01_first", "02_second"]), ("sec", ["second"]), ("x", [])])
def test_the_shell_completes_lesson_names(run: Run, typed: str, names: list[str]) -> None:
    result = run(
        env={
            "_GEMM_LESSONS_COMPLETE": "complete_bash",
            "COMP_WORDS": f"gemm-lessons run {typed}",
            "COMP_CWORD": "2",
        }
    )
    assert result.out.split() == names


def test_outside_a_course_the_remedy_is_init(run: Run, tmp_path: Path) -> None:
    assert "gemm-lessons init" in run("list", cwd=tmp_path).out
    result = run("start", "03", cwd=tmp_path)
    assert result.code == 2
    assert "gemm-lessons init my-course" in result.err


def test_the_folder_is_gone(run: Run, tmp_path: Path) -> None:
    prefix = ["sh", "-c", f'mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m gemm_lessons "$@"', "sh"]
    result = run("list", cwd=tmp_path, prefix=prefix)
    assert result.code == 2
    assert "no longer exists" in result.err


def test_export_writes_a_program(run: Run, course: Path) -> None:
    assert run("export", "01").code == 2, "there is no kernel.cu yet"
    run("start", "01")
    done = run("export", "01", env={"COLUMNS": "80"})
    assert done.code == 0, done.err
    assert "export/01_first" in done.out
    assert "make run" in done.out
    assert (course / "export" / "01_first" / "main.cu").is_file()
    assert run("export", "01", "elsewhere", "--file", "lessons/01_first/stub.cu").code == 0
    assert (course / "elsewhere" / "Makefile").is_file()
    (course / "taken").write_text("mine")
    refused = run("export", "01", "taken")
    assert (refused.code, (course / "taken").read_text()) == (2, "mine")


def test_completion_is_for_the_shell_that_is_named(run: Run) -> None:
    assert run("--show-completion", "zsh").out.startswith("#compdef gemm-lessons")
    assert run("--show-completion", "fish").out.startswith("complete --command gemm-lessons")
    unknown = run("--show-completion", "nosh")
    assert unknown.code == 2
    assert "'nosh' is not one of" in unknown.err
