"""The matrix of versions says what pyproject.toml says: one lower bound for each dependency on each Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from checks import versions
from checks.conftest import STORED_WITH

REQUIREMENTS = [Requirement(line) for line in versions.PROJECT["dependencies"]]
NAMES = {requirement.name for requirement in REQUIREMENTS}


@pytest.mark.parametrize("python", versions.PYTHONS)
def test_each_python_has_one_oldest_version_of_each_dependency(python: str) -> None:
    (row,) = (row for row in versions.rows() if (row.name, row.python) == ("oldest", python))
    pinned = [Requirement(line) for line in row.constraints]
    counted = Counter(pin.name for pin in pinned if not pin.marker or pin.marker.evaluate({"python_version": python}))
    assert counted == dict.fromkeys(NAMES, 1)
    for pin, allowed in zip(pinned, REQUIREMENTS, strict=True):
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert allowed.specifier.contains(exact.version)


def test_rows_mix_old_and_new_and_know_the_compiler_of_the_stored_numbers() -> None:
    named = {row.name: [versions.name_of(line) for line in row.constraints] for row in versions.rows()}
    assert named["newest"] == []
    assert set(named["old-compiler"]) | set(named["new-compiler"]) == NAMES
    assert not set(named["old-compiler"]) & set(named["new-compiler"])
    assert f"nvidia-cuda-nvrtc=={STORED_WITH}.*" in versions.PROJECT["optional-dependencies"]["test"]


def test_a_python_that_is_not_there_is_none() -> None:
    assert versions.interpreter("3.99") is None


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
