"""README.md and the pages in ``gemm_lessons/docs`` are true: lessons, examples, commands, keys, numbers, files."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from checks import forks
from gemm_lessons.cli.app import whole
from gemm_lessons.cli.learn import ENGINE
from gemm_lessons.course.documents import PAGES, page_names
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.running import contract

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
TEXTS = {"README": TEXT, "CONTRIBUTING": GUIDE, **{name: (PAGES / f"{name}.md").read_text() for name in page_names()}}
EXAMPLES = [
    (name, code) for name, text in TEXTS.items() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
COMMAND: Any = get_command(whole())


def test_readme_is_short() -> None:
    assert 900 <= len(TEXT.split()) <= 1200


def test_the_course_is_the_course() -> None:
    """Each part with its title, each lesson with its idea, in order."""
    rows = [cells for line in TEXT.splitlines() if len(cells := [it.strip() for it in line.strip("|").split("|")]) == 3]
    told = [tuple(cells) for cells in rows if re.fullmatch(r"\d\d|\*\*\d\*\*", cells[0])]
    course = packaged_course()
    expected = []
    for part in course.parts:
        expected.append((f"**{part.number}**", f"**{part.title}**", ""))
        expected += [(name[:2], name[3:], course.lesson(name).idea.rstrip(".")) for name in part.names]
    assert told == expected
    assert [number for number, *_ in told if number.isdigit()] == [name[:2] for name in course.names]


def test_the_two_blocks_of_ci_are_the_first() -> None:
    """``.ci/run`` executes README's first block in bash, which installs, and its second, which tests."""
    install, tests = re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert "pip install ." in install
    assert "pytest" in tests


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_an_example_prints_what_it_says(code: str) -> None:
    expected = code.rstrip().rpartition("# ")[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == expected


def test_there_are_examples() -> None:
    assert [name for name, _ in EXAMPLES] == ["README", "python", "python"]


def commands_in(text: str) -> Iterator[str]:
    """Every command line of the kit, without ``gemm-lessons``: lines of blocks, and spans in a sentence."""
    blocks = re.findall(r"^```(?:bash)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if found := re.match(r"(?:\.venv/bin/)?gemm-lessons ([a-z].*)", line):
            yield found[1].partition(" && ")[0]
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(words.split()) for words in re.findall(r"`gemm-lessons\s+([a-z][^`]*)`", sentences))


COMMANDS = {name: list(dict.fromkeys(commands_in(text))) for name, text in TEXTS.items()}


@pytest.mark.parametrize(
    "command", [pytest.param(line, id=f"{name}: {line}") for name, lines in COMMANDS.items() for line in lines]
)
def test_a_command_is_understood(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` is obeyed once everything else has been read: an option that does not exist is an error."""
    words = shlex.split(command, comments=True)
    assert words[0] in COMMAND.commands
    if "--help" not in words:
        words.append("--help")
    code = code_of(words)
    said = capsys.readouterr().out
    assert (code, said[:6]) == (0, "Usage:"), said
    assert code_of([*words[:-1], "--nonsense", "--help"]) == 2


def code_of(words: Sequence[str]) -> object:
    """The exit code of a command line; typer's own runner makes all commands anew for each."""
    with pytest.raises(SystemExit) as left:
        COMMAND(words)
    return left.value.code


def test_commands_are_found() -> None:
    assert len(COMMANDS["README"]) >= 12
    assert len(COMMANDS["commands"]) >= 30
    words = {line.split()[0] for line in COMMANDS["commands"]}
    assert set(COMMAND.commands) - words == {"version"}, "the page of commands has them all"
    assert list(
        commands_in("```\ngemm-lessons inspect a.cu \\\n    --grid 1 && cd x # y\n```\n`gemm-lessons\nlist`")
    ) == [
        "inspect a.cu      --grid 1",
        "list",
    ]


def test_the_options_of_run_are_its_options() -> None:
    table = TEXTS["commands"].split("## Options of run")[1].split("\n## ")[0]
    told = set(re.findall(r"`(--[a-z-]+)", "\n".join(line for line in table.splitlines() if line.startswith("|"))))
    known = {name for parameter in COMMAND.commands["run"].params for name in parameter.opts}
    assert known - told == {"lesson", "--no-color"}
    assert told <= known


def test_options_in_sentences_exist() -> None:
    """An option alone in backticks is one of some command."""
    known = {"--submissions", "--install-completion", "--help"}
    groups = [COMMAND, *(it for it in COMMAND.commands.values() if hasattr(it, "commands"))]
    for command in (it for group in groups for it in group.commands.values()):
        known |= {name for parameter in command.params for name in parameter.opts}
    for name in page_names():
        told = set(re.findall(r"`(--[a-z-]+)[^`]*`", TEXTS[name]))
        assert told <= known, name


def test_the_keys_of_run_are_its_keys() -> None:
    said = TEXTS["json"].split("```\n")[1]
    assert '"gemm-lessons/run/1"' in said
    outcome = json.loads(forks.run(["run", "03", "--solution", "--json", "--device", "sim"]).stdout)
    top = re.sub(r"\[\{.*?\}\]|\{(?!\"schema).*?\}", "", said, flags=re.DOTALL)
    assert re.findall(r'"(\w+)":', top) == list(outcome)
    for key in ("shapes", "lines", "gates"):
        (inside,) = re.findall(rf'"{key}": \[{{(.*?)}}\]', said, re.DOTALL)
        assert re.findall(r'"(\w+)"', inside) == list(outcome[key][0]), key
    for key in ("device", "compile", "estimate"):
        inside = re.findall(rf'"{key}": {{(.*?)}}[^\]]', said, re.DOTALL)[0].partition('"diagnostics": [')[0]
        names = [it for it in re.findall(r'"(\w+)"', inside) if it not in ("simulator", "gpu") or key == "estimate"]
        assert names == [it for it in outcome[key] if it != "diagnostics"], key
    assert set(re.findall(r'"(\w+)"', said.split('"verdict":')[1].split(",\n")[0])) == {
        "passed", "compile_failed", "faulted", "wrong_answer", "timed_out", "gate_missed"
    }  # fmt: skip


def test_the_exit_codes_are_the_exit_codes() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXTS["json"], re.MULTILINE)}
    assert told == {getattr(contract, name) for name in dir(contract) if name.startswith("EXIT_")}


def test_the_errors_of_estimates_are_those_of_the_model() -> None:
    table = (packaged_course().lessons_dir / "common" / "ESTIMATE.md").read_text()
    (stored,) = re.findall(r"^\| all lessons \| (\d+) \| ([\d.]+%) \| ([\d.]+%) \|$", table, re.MULTILINE)
    words = " ".join(TEXTS["numbers"].split())
    told = re.search(r"off by ([\d.]+%) in the median and by ([\d.]+%) at most, over (\d+) times", words)
    assert told
    assert (told[3], told[1], told[2]) == stored


def test_every_dependency_has_its_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(line for name in ("notebook", "plot", "ray") for line in extras[name])]
    needed += [line for name in ("cuda12", "cuda13") for line in extras[name] if not line.startswith("nvidia-cu")]
    names = {re.match(r"[\w.-]+", line)[0] for line in needed}  # type: ignore[index]
    rows = re.findall(r"^\| ([\w, -]+) \|", TEXTS["dependencies"], re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} - {"dependency"} == names
    assert set(re.findall(r"'\.\[(\w+)\]'", TEXTS["install"])) == set(extras) - {"test"}


def test_the_pages_are_the_pages() -> None:
    table = TEXT.split("## Pages")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| \[(\w+)\]", table, re.MULTILINE)) == page_names()
    for path in re.findall(r"\]\(([^)#]+)\)", TEXT + GUIDE):
        assert "://" in path or (ROOT / path).is_file(), path


@pytest.mark.parametrize("name", [*page_names(), ENGINE, "estimate"])
def test_read_shows_a_page(name: str) -> None:
    done = forks.run(["read", name])
    assert (done.returncode, done.stderr) == (0, "")
    raw = forks.run(["read", name, "--raw"]).stdout
    title = raw.splitlines()[0].removeprefix("# ")
    assert title in " ".join(done.stdout.split())
    assert "<!--" not in done.stdout
    if name in TEXTS:
        assert raw == TEXTS[name]


def test_read_says_which_pages_there_are() -> None:
    shown = " ".join(forks.run(["read", "--help"]).stdout.split())
    assert f"a page: glossary, {', '.join(page_names())}, {ENGINE}." in shown
    done = forks.run(["read", "jsn"])
    assert (done.returncode, done.stderr) == (
        2,
        'error: there is no page "jsn"; did you mean gemm-lessons read json?\n',
    )
    assert 'there is no lesson "naiv"; did you mean 01_naive?' in " ".join(forks.run(["read", "naiv"]).stderr.split())


def test_files_that_are_named_exist() -> None:
    listing = GUIDE.split("## Architecture")[1]
    for name in re.findall(r"\b(\w+\.py)\b", listing.split("```")[1]):
        assert list((ROOT / "gemm_lessons").rglob(name)), name
    for folder in re.findall(r"^  (\w+)/", listing, flags=re.MULTILINE):
        assert (ROOT / "gemm_lessons" / folder).is_dir(), folder
    for name, text in TEXTS.items():
        for path in re.findall(r"`((?:checks|lessons|gemm_lessons|notebooks)/[\w./]+)`", text):
            known = path.replace("NN_name", "03_block_tile").replace("LESSON", "block_tile")
            assert (ROOT / known).exists(), (name, path)
        for module in re.findall(r"python -m\s+checks\.([\w.]+)", text):
            path = ROOT / "checks" / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), (name, module)


def test_the_way_through_the_code_is_there() -> None:
    """Each file of CONTRIBUTING.md's table, and what stands there of it."""
    way = GUIDE.split("## Read the code")[1].split("\n## ")[0]
    found = re.findall(r"`([\w/]+\.py): (\w+)`", way)
    assert len(found) > 15
    for file, name in found:
        text = (ROOT / "gemm_lessons" / file).read_text()
        assert re.search(rf"^(class|def) {name}\b", text, flags=re.MULTILINE), (file, name)
