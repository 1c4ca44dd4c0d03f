"""The matrix of versions says what pyproject.toml says: one lower bound for each dependency on each Python."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from checks import versions
from checks.conftest import STORED_WITH

REQUIREMENTS = [Requirement(line) for line in versions.PROJECT["dependencies"]]
NAMES = {requirement.name for requirement in REQUIREMENTS}


@pytest.mark.parametrize("python", versions.PYTHONS)
def test_each_python_has_one_lower_bound_of_each_dependency(python: str) -> None:
    (row,) = (row for row in versions.rows() if (row.name, row.python) == ("oldest", python))
    here = [
        it for it in map(Requirement, row.lowest) if not it.marker or it.marker.evaluate({"python_version": python})
    ]
    assert Counter(it.name for it in here) == dict.fromkeys(NAMES, 1)
    for requirement in here:
        (bound,) = (it for it in requirement.specifier if it.operator != "<")
        assert bound.operator == ">="
        installed = dict.fromkeys(NAMES, "0") | {requirement.name: f"{bound.version}.0"}
        assert requirement.name not in {line.split()[0] for line in versions.too_new(row, installed)}


def test_a_version_above_its_bound_fails_a_row() -> None:
    """The bound has no wheel, or a tool needs a newer version."""
    row = versions.Row("oldest", "3.11", ("numpy>=2.0; python_version < '3.13'", "numpy>=2.1", "typer>=0.18,<0.29"))
    assert versions.too_new(row, {"numpy": "2.0.0", "typer": "0.18.0"}) == []
    assert versions.too_new(row, {"numpy": "2.0.1", "typer": "0.18"}) == ["numpy 2.0.1 is not the lowest: 2.0, 2.1"]


def test_rows_mix_old_and_new_and_know_the_compiler_of_the_stored_numbers() -> None:
    named = {row.name: [versions.name_of(line) for line in row.lowest] for row in versions.rows()}
    assert named["newest"] == []
    assert set(named["old-compiler"]) | set(named["new-compiler"]) == NAMES
    assert not set(named["old-compiler"]) & set(named["new-compiler"])
    assert f"nvidia-cuda-nvrtc=={STORED_WITH}.*" in versions.PROJECT["optional-dependencies"]["test"]


LISTED = """\
:env:.index-url='https://mine/simple'
global.cert='/etc/cert.pem'
global.extra-index-url='\\nfile:///one\\nfile:///two'
global.index-url='https://all/simple'
install.find-links='/wheels'
"""


def uv(folder: Path, patch: pytest.MonkeyPatch, answer: Callable[[list[str]], str]) -> versions.Uv:
    """What asks ``answer`` in place of programs."""

    def run(command: Sequence[object], **_: object) -> SimpleNamespace:
        return SimpleNamespace(stdout=answer([str(word) for word in command]))

    patch.setattr(subprocess, "run", run)
    patch.setattr(shutil, "which", lambda _: None)
    return versions.Uv(folder)


def test_uv_asks_where_pip_would_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    asked: list[list[str]] = []

    def answer(command: list[str]) -> str:
        asked.append(command)
        return LISTED if "config" in command else ""

    made = uv(tmp_path, monkeypatch, answer)
    assert asked[0][1:] == ["-m", "pip", "install", "-q", "--target", str(tmp_path / "uv"), "uv"]
    made.install(Path("python"), "numpy")
    assert asked[-1][0] == str(tmp_path / "uv" / "bin" / "uv")
    assert asked[-1][-9:] == [
        "--default-index", "https://mine/simple", "--index", "file:///one", "--index", "file:///two",
        "--find-links", "/wheels", "numpy",
]  # fmt: skip
    assert made.environment["SSL_CERT_FILE"] == "/etc/cert.pem"


def test_without_a_configured_index_uv_asks_pypi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = uv(tmp_path, monkeypatch, lambda _: "")
    assert made.indexes == ["--index-strategy", "unsafe-best-match"]


def test_a_python_that_is_not_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str]) -> str:
        if "find" in command:
            raise subprocess.CalledProcessError(2, command)
        return ""

    assert uv(tmp_path, monkeypatch, answer).interpreter("3.99") is None


def test_outcomes_are_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="a" name="b"/><testcase classname="a" name="c"><failure message="no'
        '&#10;more"/></testcase><testcase classname="a" name="d"><skipped message="why"/></testcase></testsuite>'
        "</testsuites>"
    )
    counts, failures, skipped = versions.read(report)
    assert counts == {"passed": 1, "failed": 1, "skipped": 1}
    assert failures == ["a::c: no"]
    assert skipped == {"why": 1}
