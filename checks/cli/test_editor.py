"""What ``init`` makes for editors and git, and what an editor reads of a run: problems by line, links."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from checks.cli.test_run import on_terminal
from checks.cli.tiny_course import KERNEL, SOLUTION, Run
from gemm_lessons.course.folder import Course, any_course
from gemm_lessons.editor import setup, testing_view
from gemm_lessons.editor.setup import BACKGROUND, PROBLEM
from gemm_lessons.report.links import has_links, url

ROOT = Path(__file__).resolve().parents[2]
VSCODE = Draft202012Validator(json.loads((Path(__file__).parent / "vscode_tasks.json").read_text()))


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of somebody whose git knows no user."""
    return {"HOME": str(tmp_path_factory.mktemp("home")), "XDG_CONFIG_HOME": "/nonexistent"}


def test_init_makes_a_repository_that_editors_understand(run: Run, tmp_path: Path, home: dict[str, str]) -> None:
    made = run("init", "mine", cwd=tmp_path, env=home)
    assert made.code == 0, made.err
    assert "a git repository" in made.out
    course = tmp_path / "mine"
    assert git(course, "status", "--porcelain") == ""
    assert git(course, "log", "--format=%s") == "The course as it came\n"
    kept = git(course, "ls-files").split()
    assert {".gitignore", ".vscode/tasks.json", "test_lessons.py", "lessons/01_naive/stub.cu"} <= set(kept)
    assert "compile_commands.json" not in kept, "it names folders of this machine"

    commands = json.loads((course / "compile_commands.json").read_text())
    of_a_kernel = next(it for it in commands if it["directory"].endswith("03_block_tile") and it["file"] == "kernel.cu")
    tile = any_course().lesson("block_tile").tile.defines
    assert {f"-D{name}={size}" for name, size in tile.items()} <= set(of_a_kernel["arguments"])
    assert f"-I{course / 'lessons' / 'common'}" in of_a_kernel["arguments"]

    written = json.loads((course / ".vscode" / "tasks.json").read_text())
    VSCODE.validate(written)
    for task in written["tasks"]:
        assert run(*task["args"][:1], "--help").code == 0
        assert set(task["options"]) == {"cwd", "env"}
    [lesson] = written["inputs"]
    assert lesson["options"] == list(any_course().names)
    assert sum("${input:lesson}" in task["args"] for task in written["tasks"]) == 1

    settings = course / ".vscode" / "settings.json"
    settings.write_text("{}")
    (course / "compile_commands.json").unlink()
    assert run("init", ".", "--editor", cwd=course).code == 0
    assert settings.read_text() == "{}", "somebody's own"
    assert json.loads((course / "compile_commands.json").read_text()) == commands
    nested = run("init", "inner", cwd=course, env=home)
    assert nested.code == 0
    assert not (course / "inner" / ".git").exists()


def test_init_without_git_is_no_failure(run: Run, tmp_path: Path) -> None:
    said = run("init", "one", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert said.code == 0
    assert "It is not a git repository: git is not installed" in said.out
    assert run("init", "two", "--no-git", cwd=tmp_path).code == 0
    assert not (tmp_path / "two" / ".git").exists()
    assert run("init", "three", "--editor", cwd=tmp_path).code == 2


def unit_tests(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Run tests as VS Code's extension for Python does: discovered by unittest in the folder of the settings."""
    settings = json.loads(setup.files(sys.executable, [])["settings.json"])
    assert settings["python.testing.unittestEnabled"] is True
    arguments = ["discover", "-v", *settings["python.testing.unittestArgs"], *(f"-k={name}" for name in names)]
    command = [settings["python.defaultInterpreterPath"], "-m", "unittest", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_each_lesson_is_a_test_below_its_part(tmp_path: Path) -> None:
    """No lesson has a kernel, so none is run."""
    (tmp_path / testing_view.FILE).write_text(testing_view.text(any_course().parts))
    said = unit_tests(tmp_path)
    assert said.returncode in (0, 5), said.stderr  # 5: all are skipped, from Python 3.12 on
    listed = re.findall(r"^test_(\w+) \(test_lessons\.Part(\d)\..* skipped 'not started", said.stderr, re.MULTILINE)
    assert listed == [(name, str(part.number)) for part in any_course().parts for name in part.names]


def test_a_lesson_s_test_runs_its_kernel(course: Path, kernel: Path) -> None:
    (course / testing_view.FILE).write_text(testing_view.text(Course(course).parts))
    kernel.write_text(SOLUTION)
    said = unit_tests(course)
    assert said.returncode == 0, said.stderr
    assert re.search(r"^test_01_first .* ok$", said.stderr, re.MULTILINE)
    assert re.search(r"^test_02_second .* skipped 'not started", said.stderr, re.MULTILINE)
    kernel.write_text(KERNEL.replace("BODY", "    acc = oops;"))
    said = unit_tests(course, "test_01_first")
    assert said.returncode == 1
    assert re.search(r"^lessons/01_first/kernel\.cu:6:\d+: error: .*oops", said.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("group", "tests"), ("command", ["gemm-lessons"]), ("problemMatcher", {"owner": "gemm-lessons"}),
        ("isbackground", True), ("args", "run"), ("type", "proces"), ("presentation", {"panel": "own"}),
    ],
)  # fmt: skip
def test_the_schema_of_tasks_refuses_what_vs_code_refuses(where: str, value: object) -> None:
    written = json.loads(setup.files("/bin/python", ["01_first"])["tasks.json"])
    VSCODE.validate(written)
    written["tasks"][0][where] = value
    with pytest.raises(ValidationError):
        VSCODE.validate(written)


CLANGD = Path(sys.executable).with_name("clangd")


@pytest.mark.parametrize("own", [False, True])
def test_clangd_understands_the_lessons(tmp_path: Path, own: bool) -> None:
    """With NVIDIA's headers, and with no header at all but ours."""
    course = any_course()
    lessons = [course.lesson(name) for name in course.names]
    headers = None if own else setup.cuda_headers()
    (tmp_path / "compile_commands.json").write_text(setup.commands(lessons, course.architecture, headers))
    for lesson in (lessons[0], lessons[-1]):  # the last one includes all headers
        done = subprocess.run(
            # The tweaks are offers to rewrite code; one of them trips over __device__ before a constructor.
            [str(CLANGD), f"--check={lesson.solution_path}", f"--compile-commands-dir={tmp_path}", "--tweaks=none"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "All checks completed, 0 errors" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("body", "severity", "line", "words"),
    [
        ("    acc = A[M * K + 100];", "error", 6, "out of bounds"),
        ("    acc = oops;", "error", 6, '"oops" is undefined'),
        ("    acc = 1;", "error", 1, "144 of 144 elements of C are wrong"),
    ],
)
def test_problems_in_an_editor_s_form(run: Run, kernel: Path, body: str, severity: str, line: int, words: str) -> None:
    kernel.write_text(KERNEL.replace("BODY", body))
    shown = run("run", "01", "--problems").out
    found = [match.groups() for match in map(re.compile(str(PROBLEM["regexp"])).match, shown.splitlines()) if match]
    at = ("lessons/01_first/kernel.cu", str(line))
    assert [it for it in found if it[:2] == at and it[3] == severity and words in it[4]]
    assert re.match(str(BACKGROUND["beginsPattern"]), shown)


def test_problems_in_a_hosted_check(run: Run, kernel: Path) -> None:
    """The Action's problem matcher finds what the editor's finds, but for notes, which GitHub does not know."""
    kernel.write_text(KERNEL.replace("BODY", "    acc = oops;"))
    shown = run("check", "--problems").out.splitlines()
    [matcher] = json.loads((ROOT / ".github" / "problem-matcher.json").read_text())["problemMatcher"]
    [pattern] = matcher["pattern"]
    assert {**pattern, "regexp": ""} == {**PROBLEM, "regexp": ""}
    assert pattern["regexp"].replace("warning", "warning|info") == PROBLEM["regexp"]
    assert [line for line in shown if re.match(pattern["regexp"], line) and "oops" in line]


def test_links_where_the_terminal_follows_them(course: Path, kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("BODY", "    acc = A[M * K + 100];"))
    _, plain = on_terminal(course, 100, "run", "01")
    assert "\x1b]8;" not in plain
    _, linked = on_terminal(course, 100, "run", "01", "--details", TERM_PROGRAM="vscode", CI="")
    assert f"vscode://file{kernel.resolve()}:6" in linked
    assert f"vscode://file{kernel.resolve()}\x1b" in linked


def test_which_terminals_follow_links() -> None:
    for environment in (
        {"TERM_PROGRAM": "WezTerm"},
        {"VTE_VERSION": "6003"},
        {"TERM": "foot"},
        {"KITTY_WINDOW_ID": "1"},
    ):
        assert has_links(environment)
        assert not has_links({**environment, "FORCE_HYPERLINK": "0"})
        assert not has_links({**environment, "CI": "true"})
    for environment in ({}, {"TERM": "xterm-256color"}, {"VTE_VERSION": "4600"}, {"TERM": "linux"}):
        assert not has_links(environment)
        assert has_links({**environment, "FORCE_HYPERLINK": "1"})
    assert url("/a b.cu", 7, None, {"TERM": "xterm-kitty"}).endswith("/a%20b.cu#7")
    assert url("/a.cu", 7, None, {"TERM": "foot"}).endswith("/a.cu")
    assert url("/a.cu", 7, 3, {"TERM_PROGRAM": "vscode"}) == "vscode://file/a.cu:7:3"
