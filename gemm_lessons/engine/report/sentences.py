"""Fill a finding's template: the fields of the finding -> the sentence shown to the learner.

A template is text with fields of ``str.format`` (``{place.byte}``, ``{budget:,}``), and three extensions:

- ``[...]`` is left out if one of its fields is None or empty; ``[...|...]`` is then replaced by the text after the bar.
- A field that the finding does not have is another template: ``{access}``.
- The format after a field's colon is a noun (``{others:more thread}`` is "3 more threads"), a template for a record
  (``{mbarrier:mbarrier}``), what joins a tuple (``{at:, }``), a table of ``VERBS``, or a form of ``FORMS``.
"""

from __future__ import annotations

import functools
import re
import string
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

OPTIONAL = re.compile(r"\[([^\[\]|]*)(?:\|([^\[\]]*))?\]")
NOUN = re.compile(r"[a-z][a-z ]+")


@functools.cache
def templates() -> Mapping[str, str]:
    """Return the templates of ``templates.toml`` by name."""
    return tomllib.loads(Path(__file__).with_name("templates.toml").read_text(encoding="utf-8"))


def sentence(kind: str, case: str, known: Mapping[str, Any]) -> str:
    """Return the sentence for a ``case`` of a ``kind`` of finding. ``known`` are its fields by name."""
    filler = _Filler({"kind": kind, "case": case, **known})
    named = templates()[f"{kind} {case}" if case else kind]
    return filler.fill(named) + filler.fill(templates()["end"])


class _Filler(string.Formatter):
    """Fills templates with one finding's fields."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def fill(self, template: str) -> str:
        """Return the text of a template. A part after a full stop begins with a capital."""
        text, end = "", 0
        for match in OPTIONAL.finditer(template):
            text = _continued(text, self._plain(template[end : match.start()]))
            text = _continued(text, self._optional(match[1], match[2] or ""))
            end = match.end()
        return _continued(text, self._plain(template[end:]))

    def _plain(self, template: str) -> str:
        return self.vformat(template, (), {})

    def _optional(self, template: str, otherwise: str) -> str:
        names = [name for _, name, _, _ in self.parse(template) if name]
        there = all(self.get_field(name, (), {})[0] not in (None, "", ()) for name in names)
        return self._plain(template if there else otherwise)

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        """Return a field; else a phrase that depends on several fields; else another template."""
        name = str(key)
        if name in self._known:
            return self._known[name]
        if name in PHRASES:
            return self.fill(templates().get(PHRASES[name](self._known), ""))
        return self.fill(templates()[name])

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value as its template requests."""
        if format_spec in FORMS:
            return FORMS[format_spec](value)
        if format_spec in VERBS:
            return VERBS[format_spec][value]
        if isinstance(value, tuple):
            if not format_spec:  # coordinates of a thread or block
                return f"({', '.join(map(str, value))})" if len(value) > 1 else "".join(map(str, value))
            return format_spec.join(it if isinstance(it, str) else self._record(it, it.case) for it in value)
        if hasattr(value, "__dict__"):
            return self._record(value, format_spec)
        if isinstance(value, int) and NOUN.fullmatch(format_spec):
            return f"{value:,} {format_spec}{'s' * (value != 1)}"
        return str(super().format_field(value, format_spec))

    def _record(self, value: Any, name: str) -> str:
        """Fill the template ``name`` for a record; else that of its case or, for a location, of its memory."""
        if name not in templates():
            name = getattr(value, "case", "") or f"{name} {value.space}"
        return _Filler(vars(value)).fill(templates()[name])


def _continued(text: str, part: str) -> str:
    return text + (part[:1].upper() + part[1:] if text.endswith(". ") else part)


def _so(known: Mapping[str, Any]) -> str:
    if known["rounded"]:
        return "rounded"
    return "same_value" if known["same_value"] else f"so {known['kind']} {known['case']}"


def _far(known: Mapping[str, Any]) -> str:
    place = known["place"]
    if place.byte < 0:
        return "far before"
    if place.byte < place.size:
        return "far across"
    return "far at" if place.byte == place.size else "far past"


# Verbs for an access, by the kind of sentence.
VERBS: Mapping[str, Mapping[str, str]] = {
    "shared": {"load": "read", "store": "written", "atomic": "updated", "copy": "written asynchronously"},
    "global": {"load": "read", "store": "written", "atomic": "updated", "copy": "read asynchronously"},
    "fault": {"load": "read", "store": "written", "atomic": "updated", "copy": "copied"},
    "early": {"load": "read", "store": "overwritten", "atomic": "overwritten", "copy": "overwritten"},
    "past": {"load": "read", "store": "written", "atomic": "written", "copy": "written"},
}
# Fields that select one of several templates.
PHRASES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "so": _so,
    "far": _far,
    "waits": lambda known: "waits one" if known["who"].count == 1 else "waits many",
    "over": lambda known: "over first" if known["phase"] < 0 else "over phase",
    "awaited": lambda known: "awaited first" if known["phase"] < 0 else "awaited phase",
    "side": lambda known: "side before" if known["place"].byte < 0 else "side past",
}
# Forms of a value, by the word after the colon.
FORMS: Mapping[str, Callable[[Any], str]] = {
    "line": lambda number: f"line {number}" if number else "an unknown line",
    "lines": lambda numbers: f"line{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}",
    "name": lambda path: Path(path).name,
    "lower": str.lower,
    "article": lambda width: f"{'an' if width == 8 else 'a'} {width}",
    "index": lambda place: f"[{place}]" if isinstance(place, int) else f"[{', '.join(map(str, place))}]",
    "waits": lambda number: "waits" if number == 1 else "wait",
    "pairs": lambda pairs: ", ".join(f"{one} and {other}" for one, other in pairs),
    "calls": lambda calls: ", ".join(
        f"line {one} is called in line {line}{' of ' * bool(file)}{Path(file).name}" for one, (file, line) in calls
    ),
    "numbers": lambda numbers: ", ".join(map(str, numbers)),
    "sizes": lambda sizes: " x ".join(map(str, sizes)),
}
