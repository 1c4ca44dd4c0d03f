"""Render pages from the templates and files in ``assets/``."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """Return the text of a file in ``assets/``."""
    return (ASSETS / name).read_text(encoding="utf-8")


def rendered(template: str, **values: Any) -> str:
    """Render a template with its values. Values that are not marked as HTML are escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(ASSETS), undefined=StrictUndefined, autoescape=True)


def embedded(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def policy(*, style: str, script: str = "") -> str:
    """Return a content security policy that allows only this style and this script."""
    parts = ["default-src 'none'", f"style-src {_hash(style)}"]
    if script:
        parts.append(f"script-src {_hash(script)}")
    return "; ".join(parts)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
