"""Tokens of C++ and its brackets, also of half a file."""

from __future__ import annotations

import time

import pytest

from gemm_lessons.engine.compiler.tokens import Lexed, tokens, without_comments


@pytest.mark.parametrize(
    ("source", "expected"),
    [
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
    ],
)
def test_tokens(source: str, expected: str) -> None:
    found = list(tokens(source))
    assert " ".join(f"{it.kind}:{it.text.replace(' ', '_')}" for it in found) == expected
    code = without_comments(source)
    assert all(it.line == source.count("\n", 0, it.start) + 1 for it in found)
    assert all(code[it.start : it.end] == it.text for it in found if it.kind != "comment")
    assert list(tokens(source, "comment")) == [it for it in found if it.kind == "comment"]


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


@pytest.mark.parametrize("text", ['R"(', "[)", "({", "#if A\n{\n#else\n", "/*", "'", '"\\', "template <"])
def test_what_never_ends_takes_no_longer(text: str) -> None:
    """Twice as much takes about twice as long: a pattern that searches for its end again would take four times."""

    def seconds(times: int) -> float:
        started = time.process_time()
        for source in (text * times, "".join(character * times for character in text)):
            Lexed(source)
        return time.process_time() - started

    assert seconds(20_000) < 3 * seconds(10_000) + 0.1
