"""The public names of a package, each imported on first use (PEP 562), so that importing the package costs nothing.

    if TYPE_CHECKING:
        from gemm_lessons.judging.evidence import Built, Checked
    else:
        __getattr__ = on_first_use(__name__)

Type checkers and editors read the names there, and so does ``__getattr__``: they are written once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def on_first_use(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its public names under ``if TYPE_CHECKING:``."""

    def __getattr__(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return import_module(f"{home}.{name}")
        return getattr(__import__(home, fromlist=(name,)), name)

    return __getattr__


@cache
def _homes(package: str) -> dict[str, str]:
    """Name -> the module that it is imported from, in the source of a package."""
    with open(sys.modules[package].__file__ or "", encoding="utf-8") as source:
        block = source.read().partition("\nelse:\n    __getattr__ =")[0].rpartition("\nif TYPE_CHECKING:\n")[2]
    found: dict[str, str] = {}
    for line in block.split("    from ")[1:]:
        home, _, names = line.partition(" import ")
        found |= dict.fromkeys(names.partition(")")[0].replace("(", " ").replace(",", " ").split(), home)
    return found
