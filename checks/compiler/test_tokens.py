"""Tokens of C++ and its brackets, also of half a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from checks.compiler.regex_steps import Steps
from gemm_lessons.engine.compiler import tokens as module
from gemm_lessons.engine.compiler.tokens import TOKEN, Lexed, tokens_of, without_comments

SOURCES = [
    ("a /* b\nc */ d // e \\\n f\ng", "name:a comment:/*_b\nc_*/ name:d comment://_e_\\\n_f name:g"),
    ('"a // b" \'"\' L"\\"" "half', 'string:"a_//_b" character:\'"\' string:L"\\"" string:"half'),
    ('R"x(a)" // )x" FOOR"("', 'string:R"x(a)"_//_)x" name:FOOR string:"("'),
    (
        "1'000 0x1p-3f .5e+1 a.b 'x'",
        "number:1'000 number:0x1p-3f number:.5e+1 name:a punctuator:. name:b character:'x'",
    ),
    ("a<<=b->c::d", "name:a punctuator:<<= name:b punctuator:-> name:c punctuator::: name:d"),
    ("x \\\n y /* never closed", "name:x name:y comment:/*_never_closed"),
    (
        " # define A /* 1 */ \\\n 2 // b\nc",
        "comment:/*_1_*/ directive:#_define_A_________\\\n_2_ comment://_b name:c",
    ),
    ('#include <a//b> // c\n#error "//" a', 'directive:#include_<a//b>_ comment://_c directive:#error_"//"_a'),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_tokens(source: str, expected: str) -> None:
    found = list(tokens_of(source))
    assert " ".join(f"{it.kind}:{it.text.replace(' ', '_')}" for it in found) == expected
    code = without_comments(source)
    assert all(it.line == source.count("\n", 0, it.start) + 1 for it in found)
    assert all(code[it.start : it.end] == it.text for it in found if it.kind != "comment")
    assert list(tokens_of(source, "comment")) == [it for it in found if it.kind == "comment"]


@pytest.mark.parametrize(
    ("source", "opening", "closing"),
    [
        ("f(a[b(1)], {2});", 1, 13),
        ("{ (1 }", 1, 3),  # one is missing: the bracket around it closes it
        ("{ (1 }", 0, 3),
        ("{ a) }", 0, 3),  # one too many
        ("( { )", 0, 3),
        ("#if A\nvoid f() {\n#else\nvoid f(int a) {\n#endif\n}", 4, 12),
        ("#if A\nvoid f() {\n#else\nvoid f(int a) {\n#endif\n}", 11, 12),
        ("{\n#if A\n{\n#else\n#endif\n0;\n#if A\n}\n#else\n#endif\n}", 0, 5),
        ("{\n#if 0 // {\n{\n#else\n#endif\n}", 0, 2),
        ("{\n#ifdef A\n}\n#else\n;}\n#endif\n", 0, 1),
    ],
)
def test_brackets(source: str, opening: int, closing: int) -> None:
    assert Lexed(source).closing(opening) == closing


def test_templates_and_macros() -> None:
    lexed = Lexed(
        "#define F(x) f(x)\n#define F (1)\n%:undef F\ntemplate <class T, bool B = (1 > 0), class = A<B<T>>> void f();"
    )
    assert [tuple(macro) for macro in lexed.macros] == [("F", "(x)", " f(x)"), ("F", "", " (1)")]
    assert [line.directive for line in lexed.directives] == ["define", "define", "undef"]
    assert lexed.written(lexed.after_angle(1), len(lexed.code)) == "void f();"


NEVER_ENDS = ['R"(', "[)", "({", "#if A\n{\n#else\n", "/* ", "#/* \n", "'\\", '"\\', "template <"]


class _Counted(str):
    """A source that counts the characters that its methods look at."""

    looked_at = 0

    def count(self, text: str, start: Any = 0, end: Any = sys.maxsize) -> int:
        _Counted.looked_at += min(end, len(self)) - start
        return super().count(text, start, end)

    def __getitem__(self, key: Any) -> str:
        text = super().__getitem__(key)
        _Counted.looked_at += len(text)
        return text


def work(source: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lex, and count elements of the pattern, lines of Python, and characters counted or copied."""
    pattern, lines = Steps(TOKEN), 0

    def follow(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return follow if frame.f_code.co_filename == module.__file__ else None

    monkeypatch.setattr(module, "TOKEN", pattern)
    _Counted.looked_at = 0
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        Lexed(_Counted(source))
    finally:
        sys.settrace(before)
        monkeypatch.undo()
    return pattern.taken + lines + _Counted.looked_at


@pytest.fixture
def deep() -> Iterator[None]:
    """As deep a recursion as the steps of one long token need."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("source", [source for source, _ in SOURCES] + [text * 20 for text in NEVER_ENDS])
def test_the_steps_find_what_the_pattern_finds(source: str) -> None:
    expected = [(it.lastgroup, it.span(), it[it.lastgroup or 0]) for it in TOKEN.finditer(source)]
    found = Steps(TOKEN).finditer(source)
    assert [(it.lastgroup, (it.start(), it.end()), it[it.lastgroup or 0]) for it in found] == expected


@pytest.mark.untraced
@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("text", NEVER_ENDS)
def test_what_never_ends_takes_no_longer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as much is twice the work: a pattern that searches for its end again would do four times as much."""
    for short, long in (text * 100, text * 200), ("".join(c * 100 for c in text), "".join(c * 200 for c in text)):
        assert work(long, monkeypatch) < 2.2 * work(short, monkeypatch)
