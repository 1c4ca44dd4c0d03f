"""Gates of lesson.toml and course.toml: ids, integrity gates, and what a lesson may change of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.gates_toml import ID, GateReader, id_of
from gemm_lessons.course.lesson import Gate, Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.toml import read_toml

COURSE = packaged_course()
TOML = """\
title = "T"
idea = "I"
[tile]
BM = 4
[launch]
grid = ["M", "N"]
block = ["BM"]
[kernel]
entry = "gemm"
parameters = ["A", "B", "C", "M", "N", "K"]
[shapes]
check = [[3, 8, 1]]
count = [4, 16, 2]
"""
OWN = """\
[[gates]]
id = "reads"
name = "global reads / (tiles + 1)"
value = "global_bytes_read / M"
at_most = 5
why = "Read once."
"""
INTEGRITY = """\
architecture = "sm_90"
[[integrity]]
id = "busiest_thread"
name = "busiest thread / average thread"
value = "thread_instructions_if_equal / thread_instructions"
at_most = 1.5
why = "Share the work."
[[integrity]]
id = "local_memory"
name = "bytes in local memory"
where = "BK >= 1"
value = "spill_bytes"
at_most = 0
why = "Use registers."
[[integrity]]
id = "products"
name = "tensor products / products"
default = false
value = "tensor_products / (M * N * K)"
at_least = 1
why = "Use tensor cores."
"""


def gates(folder: Path, toml: str = TOML + OWN, course: str = INTEGRITY, type_: str = "") -> dict[str, Gate]:
    """The gates of a lesson in a course of its own, by id."""
    lesson = folder / "lessons" / "03_mine"
    lesson.mkdir(parents=True, exist_ok=True)
    (lesson / "lesson.toml").write_text(toml)
    (lesson.parent / "course.toml").write_text(course)
    found = load_lesson(lesson, type_).gates
    assert len({gate.id for gate in found}) == len(found)
    return {gate.id: gate for gate in found}


def test_packaged_gates_have_ids_and_names_that_are_noun_phrases() -> None:
    """No derived ids, and no ratio "x, in y"."""
    for name in COURSE.names:
        path = COURSE.lessons_dir / name / "lesson.toml"
        _, raw = read_toml(path, "")
        for of in (raw, *raw.get("types", {}).values()):
            for table in of.get("gates", []):
                assert ID.fullmatch(table.get("id", "")), (name, table["name"])
        for type_ in ("", *raw.get("types", {})):
            for gate in load_lesson(path.parent, type_).gates:
                assert not re.search(r",|percent|\bin (those|that|what)\b", gate.name), (name, gate.name)


@pytest.mark.parametrize(
    ("spills", "stack", "judged"),
    [
        (0, 0, 0),
        (24, 8, 0),  # two registers, moved out of the main loop and back
        (0, 16, 16),  # an array
        (24, 40, 64),  # an array beside a spilled register
        (40, 16, 56),
        (200, 64, 264),
    ],
)
@pytest.mark.parametrize("name", ["thread_tile", "double_buffer", "any_shape", "mma", "fp8", "dgemm"])
def test_a_spilled_register_is_no_array_in_local_memory(name: str, spills: int, stack: int, judged: int) -> None:
    gate = next(it for it in COURSE.lesson(name).gates if it.id == "local_memory")
    names = {"spill_bytes": spills, "stack_bytes": stack, "PREFETCH": 1}
    assert gate.value.value(names) == judged
    assert gate.at_most == 0


def test_integrity_gates_follow_the_lessons_own(tmp_path: Path) -> None:
    found = gates(tmp_path)
    assert list(found) == ["reads", "busiest_thread"], "no BK, and products are only for lessons that ask for them"
    assert [gate.integrity for gate in found.values()] == [False, True]
    assert list(gates(tmp_path, TOML.replace("BM = 4", "BM = 4\nBK = 8") + OWN)) == [
        "reads", "busiest_thread", "local_memory",
    ]  # fmt: skip


def test_a_lesson_changes_integrity_gates_by_id(tmp_path: Path) -> None:
    changes = '[integrity]\nbusiest_thread = { at_most = 1.25, why = "W." }\nlocal_memory = true\nproducts = true\n'
    found = gates(tmp_path, TOML + OWN + changes)
    assert list(found) == ["reads", "busiest_thread", "local_memory", "products"]
    busiest = found["busiest_thread"]
    assert (busiest.at_most, busiest.why, busiest.integrity) == (1.25, "W.", True)
    assert busiest.name == "busiest thread / average thread"
    assert "busiest_thread" not in gates(tmp_path, TOML + OWN + "[integrity]\nbusiest_thread = false\n")
    other = gates(tmp_path, TOML + OWN + '[integrity]\nbusiest_thread = { value = "M", at_least = 3 }\n')
    assert other["busiest_thread"].limit == ">= 3"
    assert other["busiest_thread"].value.text == "M"


def test_a_type_changes_integrity_gates_too(tmp_path: Path) -> None:
    types = "[types.fast]\n[types.fast.integrity]\nbusiest_thread = false\nproducts = { at_least = 2 }\n"
    toml = TOML + OWN + "[integrity]\nproducts = { at_least = 3 }\n" + types
    assert gates(tmp_path, toml)["products"].at_least == 3
    assert {id_: it.at_least for id_, it in gates(tmp_path, toml, type_="fast").items()} == {
        "reads": None,
        "products": 2,
    }


def test_a_gate_may_judge_some_shapes_only(tmp_path: Path) -> None:
    sized = OWN + 'where = "min(M, N, K) <= BM"\n'
    own = gates(tmp_path, TOML + sized)["reads"]
    assert own.where is not None
    assert [own.where.holds({"M": 8, "N": 8, "K": k, "BM": 4}) for k in (4, 5)] == [True, False]
    shared = gates(tmp_path, TOML + OWN, INTEGRITY.replace("BK >= 1", "M <= 64"))["local_memory"]
    assert shared.where.holds({"M": 64})
    assert gates(tmp_path, TOML + OWN)["reads"].where is None
    with pytest.raises(LessonError, match=r"where: .LARGE. uses LARGE, which is not a known name"):
        gates(tmp_path, TOML + OWN + 'where = "M <= LARGE"\n')


def test_a_course_without_integrity_gates_has_none(tmp_path: Path) -> None:
    """As courses that were made earlier, and a teacher's own; a newer lesson.toml may still change them."""
    old = 'architecture = "sm_90"\n'
    assert list(gates(tmp_path, course=old)) == ["reads"]
    assert list(gates(tmp_path, TOML + OWN + "[integrity]\nbusiest_thread = { at_most = 1.6 }\n", old)) == ["reads"]
    (tmp_path / "lessons" / "course.toml").unlink()
    assert [gate.id for gate in load_lesson(tmp_path / "lessons" / "03_mine").gates] == ["reads"]


def test_a_lessons_own_gate_replaces_the_courses(tmp_path: Path) -> None:
    """By id; or by its value, as in an earlier lesson.toml beside a newer course.toml."""
    by_id = OWN.replace('"reads"', '"busiest_thread"')
    assert [gate.integrity for gate in gates(tmp_path, TOML + by_id).values()] == [False]
    earlier = '[[gates]]\nname = "work of the busiest"\nvalue = "thread_instructions_if_equal / thread_instructions"\n'
    found = gates(tmp_path, TOML + earlier + 'at_most = 2\nwhy = "w"\n')
    assert {id_: gate.at_most for id_, gate in found.items()} == {"work_of_the_busiest": 2}
    found = gates(tmp_path, TOML + earlier + 'at_least = 1\nwhy = "w"\n')
    assert list(found) == ["work_of_the_busiest", "busiest_thread"], "a limit on the other side replaces nothing"


def test_gates_without_ids_have_those_of_their_names(tmp_path: Path) -> None:
    plain = OWN.replace('id = "reads"\n', "")
    found = gates(
        tmp_path, TOML + plain + plain + OWN.replace('"reads"', '"global_reads_tiles_1_2"'), 'architecture = "sm_90"'
    )
    assert list(found) == ["global_reads_tiles_1", "global_reads_tiles_1_3", "global_reads_tiles_1_2"]
    assert (id_of("Barriers, per K tile"), id_of("3 reads"), id_of("-")) == (
        "barriers_per_k_tile",
        "gate_3_reads",
        "gate",
    )


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (OWN + OWN, r"lesson.toml:21: \[\[gates\]\] number 2: id: 'reads' is the id of another gate; each needs"),
        (OWN.replace('"reads"', '"Global reads"'), r"toml:15: .* id: 'Global reads' must be .* like global_reads"),
        (OWN.replace('"reads"', "3"), r"lesson.toml:15: .* id: must be text"),
        (OWN + "[integrity]\nbusy = false\n", r"toml:21: \[integrity\] busy: unknown key.*Known: busiest_thread, loc"),
        (OWN + "[integrity]\nproducts = 1.25\n", r"toml:21: \[integrity\] products: must be true, false or a table"),
        (OWN + "[integrity]\nproducts = { limit = 1 }\n", r"toml:21: \[integrity\] products: limit: unknown key"),
        (OWN + "[integrity]\nproducts = { at_most = 1, at_least = 1 }\n", r"toml:21: .*products: needs exactly one of"),
        (OWN + '[integrity]\nproducts = { value = "BQ" }\n', r"toml:21: .*products: value: .*BQ.*not a known name"),
    ],
)  # fmt: skip
def test_mistakes_in_a_lesson_are_named(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(LessonError, match=message):
        gates(tmp_path, TOML + toml)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "local_memory"', 'id = "busiest_thread"', r"course.toml:9: \[\[integrity\]\] number 2: id: .* another"),
        ("default = false", 'default = "no"', r"course.toml:18: \[\[integrity\]\] number 3: default: must be true or"),
        ('"spill_bytes"', '"spills"', r"course.toml:12: \[\[integrity\]\] number 2: value: .spills"),
        ("at_most = 0", "", r"course.toml:8: .* number 2: needs exactly one of"),
        ('"BK >= 1"', '"BM"', r"course.toml:11: .* number 2: where: .BM. is not a comparison"),
        ("architecture", "arch", r"course.toml:1: arch: unknown key"),
    ],
)
def test_mistakes_in_course_toml_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(LessonError, match=message):
        gates(tmp_path, course=INTEGRITY.replace(old, new, 1)) and type(COURSE)(tmp_path).facts


def test_a_flaw_of_a_gate_is_placed_by_its_id(tmp_path: Path) -> None:
    gates(tmp_path, TOML + OWN + "[integrity]\nproducts = true\n")
    text, raw = read_toml(tmp_path / "lessons" / "03_mine" / "lesson.toml", "")
    reader = GateReader(Path("lesson.toml"), text)
    assert [id_ for _, id_ in reader.with_ids(raw, "gates")] == ["reads"]
    assert reader.line(("integrity", "products")) == 21


def test_every_lesson_is_found() -> None:
    assert all(isinstance(COURSE.lesson(name), Lesson) for name in COURSE.names)
