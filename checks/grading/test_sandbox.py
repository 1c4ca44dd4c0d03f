"""A submission that has broken out of the simulator reaches nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checks.grading.sandbox import HEAD, MOST, Attempt, Scene, attempts, may_try, scene, tried
from gemm_lessons.engine.process import walls
from gemm_lessons.grading import worker


@pytest.fixture(scope="module")
def here() -> Iterator[Scene]:
    worker.close()  # the next one knows what the scene puts into our environment
    with scene() as one:
        yield one
    worker.close()


def test_nothing_is_in_reach(here: Scene) -> None:
    stand = worker.protections()
    assert set(stand) <= set(walls.WALLS)
    # All in one process: the walls do not care, and a process costs a quarter of a second.
    tries = [it for it in attempts(here) if not it.ends and may_try(it, stand) and it.wall != "memory"]
    parts = [f"scope = dict(globals())\nexec({it.code!r}, scope)\nall_[{it.name!r}] = scope['got']" for it in tries]
    answer = worker.run_python(HEAD + "all_ = {}\n" + "\n".join(parts) + "\ngot = all_", MOST)
    for attempt in tries:
        got = answer["got"][attempt.name]
        assert got in ("", None) or "Error" in str(got), f"{attempt.name}: {got}"
    assert here.unharmed()


def test_attempts_get_something_where_no_wall_is(here: Scene) -> None:
    """Without walls the attempts succeed, so the test above can fail."""
    for attempt in attempts(here):
        if attempt.name.startswith("read another student"):
            scope: dict[str, object] = {}
            exec(HEAD + attempt.code, scope)
            assert str(scope["got"]) == here.other.read_text()
    stopped, got = tried(Attempt("", "", "got = 'something'"))
    assert (stopped, got) == (False, "something")


@pytest.mark.slow
def test_what_never_ends_ends(here: Scene) -> None:
    for attempt in attempts(here):
        if attempt.ends:
            assert tried(attempt)[0], attempt.name
    assert here.unharmed()
