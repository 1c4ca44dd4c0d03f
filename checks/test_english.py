"""Phrases that read as translated do not come back into messages, help, docstrings, pages and lessons.

Each has a sentence that it caught and a better one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, LESSONS = ROOT / "gemm_lessons", ROOT / "lessons"


class Phrase(NamedTuple):
    """A phrase, a sentence that it was in, and how to say that."""

    pattern: str
    was: str
    better: str


PHRASES = (
    # A person as the subject, where the subject is a thread, a kernel or the reader.
    Phrase(r"\bnobody\b", "memory that nobody wrote", "memory that was never written"),
    Phrase(r"\bwhoever\b", "Whoever reads the tile must wait", "A thread that reads the tile must wait"),
    Phrase(r"\bsays? no lesson\b", "its name says no lesson", "its name does not give a lesson"),
    Phrase(r"\bhas no business\b", "a guard has no business there", "a guard is not needed there"),
    Phrase(
        r"\bwhat is [^.:;]{1,40} says\b", "What is stored, says the epilogue", "The epilogue decides what is stored"
    ),
    Phrase(r"\bwhat is [^.:;]{1,40}, the \w+ says\b", "What is stored, the epilogue says", "The epilogue decides"),
    # Verbs of motion and place for "is", "starts" and "continues".
    Phrase(r"\bstands? in (?:line|the)\b", "the id is in line 3, and stands in line 7", "the id is also in line 7"),
    Phrase(r"\bstands? (?:below|above|beside)\b", "nothing stands below TODO(3)", "TODO(3) is empty"),
    Phrase(r"\blies (?:in|at|below|above|beside) ", "B lies in memory by rows", "B is stored by rows"),
    Phrase(r"\bmust lie at\b", "x must lie at a multiple of 16 bytes", "x must be aligned to 16 bytes"),
    Phrase(r"\bgo(?:es)? on from\b", "the command goes on from there", "the command resumes from there"),
    Phrase(r"\bbegins? anew\b", "progress begins anew", "progress starts over"),
    Phrase(r"\bcomes? to (?:its|their) end\b", "it does not come to its end", "it does not finish"),
    Phrase(r"\bsticks? out of\b", "tiles stick out of the matrix", "partial tiles"),
    # Words of the field.
    Phrase(r"\bon (?:its|their) way\b", "a load is on its way", "a load is in flight"),
    Phrase(r"\bsen[dt] for\b", "the tile that it sent for", "the tile that it issued a copy of"),
    Phrase(r"\bbehind the (?:loop|barrier|products|end)\b", "executed behind the loop", "executed after the loop"),
    Phrase(r"\bthe walk along\b", "the walk along K", "the main loop"),
    Phrase(r"\b(?:turn|round)s? of the (?:main )?loop\b", "the next round of the loop", "the next iteration"),
    Phrase(r"\bin every (?:turn|round)\b", "end a group in every turn", "end a group in every iteration"),
    Phrase(r"\bone turn too\b", "the loop ends one turn too early", "the loop ends one iteration too early"),
    Phrase(r"\bturn (?:it|them) on\b", "Turn it on its way to shared memory", "Transpose it when you copy it"),
    Phrase(r"\b[Mm]end (?:it|them|the|your|that)\b", "mend the links", "fix the links"),
    # Ratios, negations and comparisons.
    Phrase(r", in (?:those|that) of\b", "bytes loaded, in those of the matrix", "bytes loaded / bytes of the matrix"),
    Phrase(
        r"\b(?:work|floats|bytes|sectors)\b[^.:;|]{0,30}, in (?:tiles|floats|bytes)\b",
        "floats read, in tiles",
        "floats read / tiles",
    ),
    Phrase(
        r"(?<!there )\bis no (?:number|shape|file|walk|list|limit|seed|archive|formula|regular|comparison|folder"
        r"|multiple|waste)\b",
        '"8,8" is no shape',
        '"8,8" is not a shape',
    ),
    Phrase(r"\bhow many percent\b", "how many percent of its speed does it cost", "what percentage of its speed"),
    Phrase(r"\bhow many [\w -]{1,40} has [^.:?]{1,60}\?", "How many scales has A?", "How many scales does A have?"),
    Phrase(r"\bis no fault\b", "That is no fault here", "That is fine here"),
    Phrase(r"\bby the estimate for\b", "what limits this, by the estimate for H200, is L2", "estimated bottleneck: L2"),
    Phrase(r"\bthat is known gives\b", "no mistake that is known gives this C", "no known mistake gives this C"),
    Phrase(r"\bbefore it right\b", "0 of 2 before it right", "both earlier shapes were wrong"),
    Phrase(r"\blooking again and again\b", "Looking again and again for a save", "Polling for a save"),
    Phrase(r"\bthat you are at\b", "the lesson, the one that you are at", "your current lesson"),
    Phrase(r"\bdid not suffice\b", "registers did not suffice", "the kernel ran out of registers"),
    Phrase(
        r"\bin which order they (?:stand|pass)\b", "the indices, in which order they stand", "the order of the indices"
    ),
)
WRONG = re.compile("|".join(f"(?:{phrase.pattern})" for phrase in PHRASES), re.IGNORECASE)


def test_each_phrase_is_found_and_its_better_one_is_not() -> None:
    for phrase in PHRASES:
        assert re.search(phrase.pattern, phrase.was, re.IGNORECASE), phrase
        assert not WRONG.search(phrase.better), phrase


@pytest.mark.parametrize("text", ["There is no file of jobs.", "families in one", "so that it relies in part on L2"])
def test_plain_english_is_left_alone(text: str) -> None:
    assert not WRONG.search(text)


def test_odd_phrases_do_not_come_back() -> None:
    assert not _odd(), "say it in the field's words; PHRASES has a better one for each"


def test_the_files_are_there() -> None:
    paths = {path.relative_to(ROOT).as_posix() for path in _files()}
    assert {"README.md", "gemm_lessons/judging/mistakes.py", "gemm_lessons/docs/json.md"} <= paths
    assert {"lessons/03_block_tile/README.md", "lessons/03_block_tile/stub.cu"} <= paths
    assert any(path.startswith("lessons/common/") for path in paths)


def _odd() -> dict[str, tuple[str, ...]]:
    """Return the odd phrases of each file that has some, each with a few words around it."""
    found = {path.relative_to(ROOT).as_posix(): tuple(_phrases(path)) for path in _files()}
    return {path: phrases for path, phrases in found.items() if phrases}


def _files() -> Iterator[Path]:
    yield from sorted(PACKAGE.rglob("*.py"))
    yield from sorted((PACKAGE / "docs").glob("*.md"))
    yield from (PACKAGE / "engine" / "report" / "templates.toml", PACKAGE / "judging" / "advice.toml")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for lesson in sorted(LESSONS.glob("[0-9][0-9]_*")):
        names = ("README.md", "lesson.toml", "predict.toml", "drills.toml", "pitfalls.toml", "stub.cu")
        yield from (lesson / name for name in names if (lesson / name).exists())
    yield from sorted((LESSONS / "common").glob("*.cuh"))


def _phrases(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for piece in _strings(text) if path.suffix == ".py" else [text]:
        flat = " ".join(re.sub(r"\n\s*(?://|#|>)?", " ", piece).split())
        for match in WRONG.finditer(flat):
            yield flat[max(0, match.start() - 30) : match.end() + 30]


def _strings(source: str) -> Iterator[str]:
    """Yield the strings of a module, docstrings too, each with ``{}`` for its fields."""
    tree = ast.parse(source)
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for joined in whole for part in joined.values}
    for joined in whole:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in joined.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value
