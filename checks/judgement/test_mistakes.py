"""Every mistake of ``mistakes.py`` is named with its sentence, and nothing is said of right kernels in other styles."""

from __future__ import annotations

from collections import Counter

import pytest

from checks.disassembly import Groups, folder_of_session
from checks.judgement.mistakes import (
    MISTAKES,
    STYLES,
    Mistake,
    lesson_named,
    on_two_shapes,
    requested,
    run,
    source_of,
    told,
    words_of,
)
from gemm_lessons.authoring.candidate import kernels_of
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.judging.advice import advice
from gemm_lessons.judging.verdict import Passed


def test_every_edit_matches_its_lesson() -> None:
    for it in (*MISTAKES, *STYLES):
        assert source_of(it)


def test_there_are_enough_of_them() -> None:
    assert len(MISTAKES) >= 40
    assert all(it.says for it in MISTAKES)
    assert len({(it.lesson, it.name) for it in (*MISTAKES, *STYLES)}) == len(MISTAKES) + len(STYLES)
    lessons = Counter(it.name for it in MISTAKES)
    twice = {name for name, count in lessons.items() if count > 1}
    assert {"assigned", "subtracted", "from_1", "one_too_many", "exchanged", "stored_transposed", "added_to_c"} <= twice
    assert {"lane_is_thread", "past_b_frag", "no_thread_row", "one_element_a", "tile_too_many"} <= twice


# What a run says of a mistake, it finds at one shape; of these, the two smallest do not show it.
ON_ALL_SHAPES = """
naive/store_guard_by_columns coalesced/one_too_many coalesced/bound_n block_tile/no_round_a block_tile/no_thread_row
block_tile/no_zero_a block_tile/k0_in_the_tile block_tile/second_barrier_in_if block_tile/guards_exchanged
block_tile/no_second_barrier thread_column/assigned thread_column/tile_read_column_by_column thread_tile/from_1
epilogue/beta_is_forgotten async_copy/copied_over async_copy/next_stage mma/wrong_stage
mma/exchanged_and_never_committed vector_loads/start_of_the_block_twice
""".split()


# Each takes as long as five others, and the long tests have it.
SELDOM = ("precision/sums_carried", "async_copy/next_stage", "split_k/summed_up_by_assigning")


def label(it: Mistake) -> str:
    return f"{it.lesson}/{it.name}"


def lesson_of(it: Mistake) -> Lesson:
    """The lesson with the shapes that the default tests run."""
    lesson = lesson_named(it.lesson)
    return lesson if label(it) in ON_ALL_SHAPES or not it.says else on_two_shapes(lesson)


@pytest.fixture(scope="module")
def groups(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    """The kernels of this session's default tests."""
    asked = [it.callspec.params.get("it") for it in request.session.items if hasattr(it, "callspec")]
    cases = {label(it): it for it in asked if isinstance(it, Mistake)}

    def compiled(name: str) -> list[Compiled]:
        with requested(lesson_of(cases[name]), source_of(cases[name])) as run_:
            return kernels_of(run_)

    return Groups(folder_of_session(tmp_path_factory, "mistakes"), list(cases), compiled)


def is_named(it: Mistake, lesson: Lesson) -> None:
    said = told(it, lesson)
    assert it.says in said
    hints = said.partition("\nHints\n")[2]
    remedies = [text for text in advice("kinds").values() if text in hints]
    assert len(remedies) <= 1, "one remedy for one cause"
    assert not (remedies and "Looks like" in said), "one remedy for one cause"


@pytest.mark.slow  # a run each; test_fits.py and test_remedies.py have the same mistakes without a kernel
@pytest.mark.parametrize("it", [it for it in MISTAKES[::6] if label(it) not in SELDOM], ids=label)
def test_a_mistake_is_named(it: Mistake, groups: Groups) -> None:
    groups.need(label(it))
    is_named(it, lesson_of(it))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("it", MISTAKES, ids=label)
def test_a_mistake_is_named_on_all_shapes(it: Mistake) -> None:
    is_named(it, lesson_named(it.lesson))


@pytest.mark.slow  # a run each
@pytest.mark.parametrize("it", STYLES, ids=lambda it: f"{it.lesson}-{it.name}")
def test_a_right_kernel_in_another_style_hears_none_of_it(it: Mistake, groups: Groups) -> None:
    groups.need(label(it))
    outcome = run(lesson_named(it.lesson), source_of(it))
    said = words_of(outcome)
    assert outcome.verdict == Passed(), said
    assert not outcome.kernel.checked.findings
    assert not [other for other in MISTAKES if other.says in said]
