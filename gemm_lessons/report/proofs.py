"""Show the output of ``gemm-lessons dev``: the files of a new lesson, and the proofs of a lesson."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gemm_lessons.authoring import Proven
from gemm_lessons.course import shown
from gemm_lessons.report.console import indented, plain_table, words
from gemm_lessons.report.course import step


def show_proofs(console: Console, name: str, proofs: Sequence[Proven], every: bool) -> None:
    """Print one lesson's proofs: all of them with ``every``, else their number and those that found a flaw."""
    held = sum(proof.holds for proof in proofs)
    style = "good" if held == len(proofs) else "bad"
    console.print(Text.assemble((name, "lesson"), "  ", (f"{held} of {len(proofs)} proven", style)))
    rows = [proof for proof in proofs if every or proof.flaws]
    table = plain_table(words(), "")
    for proof in rows:
        state, look = (
            ("left out", "quiet") if proof.flaws is None else ("flaw", "bad") if proof.flaws else ("proven", "good")
        )
        table.add_row(Text(state, style=look), proof.what)
    if rows:
        console.print(indented(table))
    for proof in proofs:
        for flaw in proof.flaws or ():
            console.print(Text(flaw), soft_wrap=True)  # unwrapped, so that terminals recognise file and line
    if rows:
        console.print()


def show_checked(console: Console, lessons: int, broken: Sequence[str], skipped: Sequence[str]) -> None:
    """Print the summary of a check."""
    if skipped:
        names = ", ".join(name[:2] for name in skipped)
        console.print(Text(f"skipped, since they are copies without a solution: {names}", style="quiet"))
    if broken and lessons > 1:
        console.print(Text(f"{len(broken)} of {lessons} lessons have flaws: {', '.join(broken)}", style="bad"))
    elif lessons > 1:
        console.print(Text(f"all {lessons} lessons are proven", style="good"))


def show_new_lesson(console: Console, directory: Path) -> None:
    """Print what the new folder holds and the next steps."""
    files = ", ".join(sorted(path.name for path in directory.iterdir()))
    console.print(Text(shown(directory), style="command"), soft_wrap=True)
    console.print(Text(f"  {files}", style="quiet"))
    console.print("A small lesson that works. Replace it with yours; REPLACE marks what only you know.")
    step(console, "What is left to do", f"gemm-lessons dev check {directory.name[:2]}")


def show_filled(console: Console, path: Path) -> None:
    """Report that numbers of a text were filled in."""
    console.print(Text.assemble((shown(path), "command"), "  filled in"), soft_wrap=True)
