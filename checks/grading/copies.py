"""How often honest kernels are reported as alike, and how often disguised copies are missed.

    python -m checks.grading.copies     every honest kernel with every other of its lesson, and with its own disguise

A disguise takes a student five minutes: all names changed, comments replaced, layout changed, independent declarations
swapped, qualifiers dropped. A better one adds macros for keywords, other types, parentheses and empty statements.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.grading.similarity import GIVEN, IGNORED, NAMED, SimilarPair, alike, given

HONEST = Path(__file__).parent / "honest"
KEPT = {"gemm", "C", "matrix", "cuh", "define", "include", "pragma", "unroll"}
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?:pragma|include)")
DECLARATION = re.compile(r"(?:const )?(?:int|float|unsigned)\b[^=;]*?\b(\w+) = [^;{}]*;")


def disguise(source: str, rng: random.Random) -> str:
    """The same kernel, disguised."""
    text = without_comments(source)
    names = sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)) - NAMED - IGNORED - KEPT)
    new = {name: f"v{rng.randrange(10**6)}" for name in names if not GIVEN.fullmatch(name)}
    lines = [line if DIRECTIVE.match(line) else _renamed(line, new) for line in text.splitlines() if line.strip()]
    i = 0
    while i + 1 < len(lines):
        first, second = (DECLARATION.fullmatch(line.strip()) for line in lines[i : i + 2])
        if first and second and not re.search(rf"\b{first[1]}\b", second[0]):
            lines[i], lines[i + 1] = lines[i + 1], lines[i]
            i += 1
        i += 1
    made = []
    for line in lines:
        if rng.random() < 0.3:
            made.append(f"// {rng.randrange(999)}: what I think about it")
        made.append(" " * rng.randrange(9) + line.strip().replace("const ", ""))
    return "\n".join(made)


MACROS = {"for": "LOOP", "if": "WHEN", "int": "WORD", "float": "REAL", "threadIdx": "ME", "__syncthreads": "MEET"}


def better_disguise(source: str, rng: random.Random) -> str:
    """The same kernel, with the better disguise."""
    made = [f"#define {name} {what}" for what, name in MACROS.items()]
    for line in disguise(source, rng).split("\n"):
        if not DIRECTIVE.match(line) and not line.lstrip().startswith("#"):
            line = _renamed(re.sub(r"= ([^=;{}\"]+);", r"= (\1);;", re.sub(r"\bunsigned\b", "int", line)), MACROS)
        made.append(line)
    return "\n".join(made)


def _renamed(line: str, new: Mapping[str, str]) -> str:
    return re.sub(r'"[^"]*"|\b[A-Za-z_]\w*\b', lambda match: new.get(match[0], match[0]), line)


def study(lesson: str, kernels: Mapping[str, str]) -> tuple[list[SimilarPair], list[str]]:
    """The honest pairs that are reported as alike, and the kernels whose disguised copies are missed."""
    shared = {lesson: given(packaged_course(), lesson)}
    false = list(alike({lesson: kernels}, shared))
    rng = random.Random(lesson)
    missed = []
    for name, text in kernels.items():
        for how in (disguise, better_disguise):
            found = alike({lesson: {**kernels, "copy": how(text, rng)}}, shared)
            if not any({it.first, it.second} == {name, "copy"} for it in found):
                missed.append(f"{name}, by {how.__name__}")
    return false, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--honest", type=Path, default=HONEST, help="folder of folders of kernels, one a lesson")
    options = parser.parse_args()
    course, wrong = packaged_course(), 0
    print(f"{'lesson':20} {'kernels':>7} {'pairs':>6} {'called alike':>12} {'copies missed':>13}")
    for folder in sorted(options.honest.iterdir(), key=lambda it: course.resolve(it.name)):
        lesson = course.resolve(folder.name)
        kernels = {path.stem: path.read_text() for path in sorted(folder.glob("*.cu"))}
        false, missed = study(lesson, kernels)
        count = len(kernels)
        print(f"{lesson:20} {count:7} {count * (count - 1) // 2:6} {len(false):12} {len(missed):13}")
        for pair in false:
            print(f"    alike: {pair.first}, {pair.second}: {pair.share:.0%}")
        for name in missed:
            print(f"    missed: {name}")
        wrong += len(false)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
