"""Constructs that C lacks are explained in the text of the first lesson whose code has them, or in an earlier one.

It is explained where a table ``| in the code | what it means |`` shows it in its first column.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.api import simulate
from gemm_lessons.engine.compiler.source import included_names
from gemm_lessons.engine.compiler.tokens import without_comments

LESSONS = packaged_course().lessons_dir
NAMES = packaged_course().names
TABLE = re.compile(r"^\| in the code \| what it means \|\n\|[-|]+\n((?:\|.*\n)+)", re.M)
# Keywords of C++ that C does not have, or has with another meaning ("C++17", tables of keywords).
CPLUSPLUS = """
    alignas alignof asm auto bool catch class constexpr const_cast decltype delete dynamic_cast explicit export false
    friend mutable namespace new noexcept nullptr operator private protected public reinterpret_cast static_assert
    static_cast template this throw true try typename using virtual wchar_t
""".split()
# Built-in names and types of CUDA C++ that begin like others.
CUDA = r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|cuda\w+|dim3|(?:char|short|int|float|double|half)[1-4])\b"
FORMS = {  # what has no name of its own -> how the table shows it
    r'extern\s+"C"': 'extern "C"',
    r"#\s*pragma\s+unroll": "#pragma unroll",
    r"#\s*pragma\s+once": "#pragma once",
    r"\w\s+&(?=\w)(?<!return &)": "&",
    r"\[&\]": "[&]",
    r">\s+\w+\{": "{",
    r"=\s*\{\}": "= {}",
    r"<<<": "<<<",
}
COMMON_IN_C = {"bool", "true", "false", "nullptr"}


def constructs(code: str) -> set[str]:
    """Constructs in the code that C does not have, spelled as the tables show them."""
    text = without_comments(code)
    words = set(re.findall(r"\b[a-z]\w*\b", text)) & set(CPLUSPLUS) - COMMON_IN_C
    words |= set(re.findall(r"\b__[a-z]\w+", text)) | set(re.findall(CUDA, text))
    return words | {shown for form, shown in FORMS.items() if re.search(form, text)}


def explained(text: str) -> list[str]:
    """The code in the first columns of a text's tables."""
    rows = "".join(TABLE.findall(text)).splitlines()
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def code_of(lesson: Path) -> str:
    """The lesson's stub and solution, and the headers that they include."""
    found = [(lesson / name).read_text() for name in ("stub.cu", "solution.cu")]
    seen: set[str] = set()
    for text in found:  # grows as headers are met
        for name, _ in included_names(text) or ():
            header = LESSONS / "common" / name
            if name not in seen and header.is_file():
                seen.add(name)
                found.append(header.read_text())
    return "\n".join(found)


def text_of(lesson: Path) -> str:
    """The lesson's text, its appendix, and the pages beside the lessons that it links to."""
    text = (lesson / "README.md").read_text()
    pages = re.findall(r"\]\(((?:\.\./common/)?[A-Z_]+\.md)", text)
    return "\n".join([text, *((lesson / page).read_text() for page in dict.fromkeys(pages))])


def missing(codes: list[str], texts: list[str]) -> dict[int, set[str]]:
    """Lesson (from 0) -> what its code has and neither its text nor an earlier one explains."""
    known: list[str] = []
    found = {}
    for number, (code, text) in enumerate(zip(codes, texts, strict=True)):
        known += explained(text)
        new = {it for it in constructs(code) if not any(it in span for span in known)}
        if new:
            found[number] = new
    return found


def test_every_construct_is_explained_before_it_is_used() -> None:
    texts = [text_of(LESSONS / name) for name in NAMES]
    assert not missing([code_of(LESSONS / name) for name in NAMES], texts)


def test_nothing_is_explained_twice() -> None:
    spans = [span for name in NAMES for span in explained((LESSONS / name / "README.md").read_text())]
    assert len(set(spans)) == len(spans), sorted(span for span in spans if spans.count(span) > 1)


def test_this_test_sees_constructs() -> None:
    code = """
        extern "C" __global__ void k(const float &x) { // template in a comment
            constexpr int n = 4; float4 v; float acc[2] = {}; Matrix<float> m{p}; auto f = [&] { return &x; };
        #pragma unroll
            f<<<1, 2>>>(threadIdx.x); }
    """
    assert constructs(code) == {
        *('extern "C"', "__global__", "&", "constexpr", "float4", "= {}", "{", "auto", "[&]"),
        *("#pragma unroll", "<<<", "threadIdx"),
    }
    text = "| in the code | what it means |\n|---|---|\n| `__global__` `float4 v` | a kernel, `auto` |\n"
    assert explained(text) == ["__global__", "float4 v"]
    assert missing(["int x;", "float4 v; auto y;"], [text, ""]) == {1: {"auto"}}


def test_the_program_of_the_first_page_doubles() -> None:
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    launched = simulate((LESSONS / "common" / "first.cu").read_text(), "doubled", 1, 256, [x, y])
    assert np.array_equal(y, 2 * x)
    assert not launched.findings


@pytest.mark.parametrize("entry", ["forget", "promote"])
def test_the_sums_that_lesson_fp8_quotes_are_those_of_its_experiment(entry: str) -> None:
    common = LESSONS / "common"
    found = {name: np.zeros(4, np.float32) for name in ("sums", "exact")}
    launched = simulate(
        (common / "forget.cu").read_text(), entry, 1, 128, [], symbols=found, arch="sm_90a", include_dirs=[common],
        defines={"ONE": 0x39},
    )  # fmt: skip
    assert not launched.findings
    text = (LESSONS / "22_fp8" / "README.md").read_text()
    quoted = text.split(f"<!-- experiment: {entry} 0x39 -->")[1].split("```")[1].strip().splitlines()
    assert quoted == [f"{name} = {', '.join(map(str, values.tolist()))}" for name, values in found.items()]


def test_the_experiment_of_lesson_fp8_knows_its_number_and_stands_still_as_the_exercise_says() -> None:
    """0x30 is 0.5: a sum of quarters stands still at 4,096, after 16,384 products."""
    common = LESSONS / "common"
    found = {name: np.zeros(4, np.float32) for name in ("sums", "exact")}
    simulate(
        (common / "forget.cu").read_text(), "forget", 1, 128, [], symbols=found, arch="sm_90a", include_dirs=[common],
        defines={"ONE": 0x30},
    )  # fmt: skip
    assert found["exact"].tolist() == [256, 1024, 4096, 8192]
    assert found["sums"].tolist() == [256, 1024, 4096, 4096]


def test_the_lanes_that_lesson_tensor_cores_quotes_are_those_of_its_experiment() -> None:
    lanes = np.zeros(16, np.int32)
    source = (LESSONS / "common" / "owners.cu").read_text()
    launched = simulate(source, "owners", 1, 32, [], symbols={"lanes": lanes}, defines={"ROW": 0})
    assert not launched.findings
    text = (LESSONS / "13_tensor_cores" / "README.md").read_text()
    quoted = text.split("<!-- experiment: owners 0 -->")[1].split("```")[1].strip()
    assert quoted == f"lanes = {', '.join(map(str, lanes.tolist()))}"
