"""Commands of ``checks`` answer ``--help`` at once: some work for minutes, or write files, without arguments."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from checks import benchmark
from checks.benchmark import Row
from checks.usage import help_if_asked

ROOT = Path(__file__).parent
# These run where the kit is not installed, and their first lines say how; the last one is started by tests alone.
ALONE = {"foreign/launcher.py", "readings/counters/reader.py", "forks.py"}


def commands() -> dict[str, ast.Module]:
    """The modules that ``python -m`` runs."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if '\nif __name__ == "__main__":\n' in text:
            found[path.relative_to(ROOT).as_posix()] = ast.parse(text)
    return found


def answers_help(module: ast.Module) -> bool:
    """Whether a parser of arguments or ``help_if_asked`` sees the arguments before the work begins."""
    if any(isinstance(node, ast.Attribute) and node.attr == "ArgumentParser" for node in ast.walk(module)):
        return True
    last = module.body[-1]
    return isinstance(last, ast.If) and ast.unparse(last.body[0]) == "help_if_asked(__doc__)"


def test_every_command_answers_help() -> None:
    found = commands()
    assert len(found) > 50
    assert {name for name, module in found.items() if not answers_help(module)} == ALONE


def test_without_the_call_a_command_begins_its_work() -> None:
    assert not answers_help(ast.parse('import sys\nif __name__ == "__main__":\n    main(sys.argv[1:])\n'))


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["DIR", "--help"]])
def test_help_is_the_docstring(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["command", *arguments])
    with pytest.raises(SystemExit) as stopped:
        help_if_asked("Says what it does.\n")
    assert stopped.value.code == 0
    assert capsys.readouterr().out == "Says what it does.\n"


def test_other_arguments_are_the_commands_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--write"])
    help_if_asked("Says what it does.\n")
    assert not capsys.readouterr().out


def test_rows_of_the_benchmark_are_chosen_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(benchmark.chosen(["03", "list"])) == 2
    assert len(benchmark.chosen([])) == len(benchmark.parts())
    with pytest.raises(SystemExit, match="no row has the word lesson"):
        benchmark.chosen(["lesson"])
    monkeypatch.setattr(benchmark, "process", lambda *command: 2.5)
    (row,) = benchmark.chosen(["18_wgmma"])[0]()
    assert (row.value, row.aim) == (2.5, 3)
    assert row.text().split()[-3:] == ["<", "3", "s"]


def test_aims_are_shown_with_their_direction() -> None:
    assert Row("a", 400, "x", 300, more=True).text().endswith("400 x   > 300 x")
    assert Row("a", 0.1234, "s", 0.25).text().endswith("0.123 s   < 0.25 s")
    assert not set(Row("a", 1e8, "/s").text()) & set("<>")


def test_the_benchmark_prints_help_and_json() -> None:
    run = [sys.executable, "-m", "checks.benchmark"]
    done = subprocess.run([*run, "--help"], capture_output=True, text=True, cwd=ROOT.parent, timeout=30, check=True)
    assert "--only" in done.stdout
    given = [*run, "--launch", "naive", "32"]
    done = subprocess.run(given, capture_output=True, text=True, cwd=ROOT.parent, timeout=60, check=True)
    assert set(json.loads(done.stdout)) == {"seconds", "lane_instructions_per_second", "peak_mb"}
