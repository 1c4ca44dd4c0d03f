"""The packages of an optional extra, as one command that works wherever this package was installed from."""

from __future__ import annotations

from importlib import metadata


def install_extra(name: str) -> str:
    """Return the command that installs an extra's packages, such as ``pip install "matplotlib>=3.9"``.

    It names the packages themselves, since this package may come from a checkout or a wheel that no index has. A
    requirement that depends on more than the extra, such as the Python version, is named without its version.
    """
    try:
        required = metadata.requires("gemm-lessons") or []
    except metadata.PackageNotFoundError:  # a copy on the import path that was not installed
        required = []
    wanted: dict[str, None] = {}  # in order, each once
    for requirement in required:
        what, _, condition = (part.strip() for part in requirement.partition(";"))
        if f"extra == '{name}'" in condition.replace('"', "'"):
            alone = " and " not in condition
            wanted[f'"{what}"' if alone else what.partition(">")[0].strip()] = None
    return "pip install " + (" ".join(wanted) or f"'.[{name}]'")
