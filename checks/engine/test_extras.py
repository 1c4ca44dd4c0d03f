"""The commands that install optional packages name packages that indexes have."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from gemm_lessons.devices.extras import install_extra

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", [name for name in EXTRAS if name != "test"])
def test_an_extra_is_installed_by_the_names_of_its_packages(name: str) -> None:
    pip, install, *packages = shlex.split(install_extra(name))
    assert (pip, install) == ("pip", "install")
    wanted = {entry.partition(">")[0] for entry in EXTRAS[name]}
    assert {package.partition(">")[0].partition("<")[0] for package in packages} == wanted
    assert "gemm-lessons" not in " ".join(packages)


def test_without_an_installation_the_checkout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", missing)
    assert install_extra("plot") == "pip install '.[plot]'"
