"""Pairs of submissions that are more alike than the lesson makes everybody: a hint for the teacher, never a verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Alike:
    """Two students' kernels for a lesson. ``share`` of what the smaller one has beyond what all have is in the other,
    too; ``lines`` of each file are those that match, with their numbers."""

    lesson: str
    first: str
    second: str
    share: float
    first_lines: tuple[tuple[int, str], ...]
    second_lines: tuple[tuple[int, str], ...]
