"""The texts of advice, read from ``advice.toml``. ``remedies`` chooses one by a finding's kind and case;
``access_remedies`` and ``order_remedies`` by other facts about the kernel, too."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path


@functools.cache
def _sections() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@functools.cache
def advice(section: str) -> Mapping[str, str]:
    """Return the texts of a section of ``advice.toml`` by key, each with its parts filled in."""
    found: dict[str, str] = {}
    for key, text in _sections()[section].items():
        kind, _, cases = key.partition(" ")
        found |= dict.fromkeys((f"{kind} {case}".strip() for case in cases.split(", ")), _filled(text))
    return found


def _filled(text: str) -> str:
    whole = re.sub(r"<(\w+)>", lambda part: _filled(_sections()["parts"][part[1]]), text)
    return whole[0].upper() + whole[1:] if text.startswith("<") else whole


def remedy(rule: str, **facts: object) -> str:
    """Return the text of a rule, with its fields filled in."""
    return advice("rules")[rule].format(**facts)
