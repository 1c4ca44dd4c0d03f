"""The batteries: every fixture says what it is, and a sample of them meets the fate that it should.

``python -m checks.grading.battery cheats`` judges all of them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.grading import battery
from checks.grading.battery import Result, judged, main
from checks.grading.fixtures import REJECTED, BadFixture, Fixture, _entries, _file, cheats, chosen, honest, lesson_names
from checks.grading.mutants import is_equivalent, mutants, survivors
from gemm_lessons.course.folder import any_course

FEWEST = 120
SAMPLE = (  # of several classes and lessons, those that are judged within ten seconds of processor time
    "coalesced/swapped_parameters",
    "block_tile/named_barriers",
    "thread_tile/cluster_of_three",
)
SELDOM = (
    *(f"{lesson}/shuffled_floats" for lesson in ("vector_loads", "bank_conflicts", "warp_tile")),
    "double_buffer/generic_loads_hide",
    "two_warps/one_warp_fetches",
    *(f"{lesson}/knows_the_counting_shape" for lesson in ("block_tile", "vector_loads")),  # test_hidden.py has both
    *(f"{lesson}/text_in_a_comment" for lesson in ("coalesced", "bank_conflicts")),  # test_assembly.py has the text
    "coalesced/hides_from_the_counters",  # test_unjudged.py has it with every change
)
FIRST = ("naive/three_behind_eights",)  # without the slow tests, too
SEED = 7
CORE = 9  # lessons; the others have fewer kernels, and all are judged with the long tests
LATER = [name for name, full in lesson_names().items() if int(full[:2]) > CORE]


def test_cheats_cover_the_lessons_and_their_classes() -> None:
    every = cheats()
    assert len(every) >= FEWEST
    assert {it.lesson[3:] for it in every} == set(lesson_names())
    lessons_of: dict[str, set[str]] = defaultdict(set)
    count_of: Counter[str] = Counter(it.group for it in every)
    for it in every:
        lessons_of[it.group].add(it.lesson)
        assert not it.passes, it.label
    assert {group: n for group, n in count_of.items() if n < 3} == {}
    assert {group: it for group, it in lessons_of.items() if len(it) < 2} == {}


def test_a_fixture_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "block_tile" / "nameless.cu"
    path.parent.mkdir()
    path.write_text("// cheat: race: says nothing of its fate\n")
    with pytest.raises(BadFixture, match="expect"):
        _file("cheats", path).fixture()
    path.write_text("// cheat: race: is to pass\n// expect: passed\n")
    with pytest.raises(BadFixture, match="VERDICT"):
        _file("cheats", path).fixture()
    path.write_text("// cheat: race: no barrier\n// expect: faulted r\n")
    with pytest.raises(BadFixture, match="WORDS of the reason"):
        _file("cheats", path).fixture()
    path.write_text("// cheat: race: no barrier\n// expect: faulted, timed_out race in line or wrong_answer wrong at\n")
    kernel = _file("cheats", path).fixture()
    assert kernel.fates == (("faulted", "race in line"), ("timed_out", "race in line"), ("wrong_answer", "wrong at"))
    assert not kernel.expects("wrong_answer", "Race in line 7")
    assert kernel.expects("faulted", "Race in line 7")
    assert not kernel.expects("faulted", "trap")
    assert not kernel.expects("passed", "race in line 7")


def test_edits_need_a_kernel_that_they_fit(tmp_path: Path) -> None:
    path = tmp_path / "block_tile" / "edits.toml"
    path.parent.mkdir()

    def only(text: str) -> Fixture:
        path.write_text(f'[a]\nhonest = "does"\n{text}')
        (entry,) = _entries("honest", path)
        return entry.fixture()

    solution = any_course().lesson("03_block_tile").solution_path.read_text()
    assert only("edits = []").source == solution
    assert only('of = "naive"\nedits = []').source != solution
    (kernel,) = chosen(cheats(), ["block_tile/large_shapes_only"])
    assert "// expect: gate_missed" in kernel.source
    of_it = only('of = "block_tile/large_shapes_only"\nedits = []').source
    assert of_it.startswith("extern")
    assert kernel.source.endswith(of_it)
    for wrong, told in [
        ('edits = [["no such line", ""]]', "occurs 0 times"),
        ('of = "no_lesson"\nedits = []', "there is no 'no_lesson' to edit"),
        ('of = "block_tile/no_kernel"\nedits = []', "there is no 'block_tile/no_kernel' to edit"),
        ('off = "naive"\nedits = []', "'off' is not a key"),
    ]:
        with pytest.raises(BadFixture, match=told):
            only(wrong)


@pytest.mark.parametrize(
    "sample",
    [FIRST, pytest.param(SAMPLE, marks=pytest.mark.slow), pytest.param(SELDOM, marks=pytest.mark.long)],
    ids=["first", "sample", "seldom"],
)
def test_a_sample_of_cheats_is_rejected_with_the_reason(sample: tuple[str, ...]) -> None:
    kernels = [it for it in cheats() if it.label in sample]
    assert len(kernels) == len(sample)
    results = list(judged(kernels, processes=2, seed=SEED))
    assert [it for it in results if not it.expected] == []
    assert {it.kernel for it in results} == set(sample)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("lesson", LATER)
def test_all_kernels_of_a_lesson_behind_the_core_meet_their_fate(lesson: str) -> None:
    kernels = [it for it in (*cheats(), *honest()) if it.lesson[3:] == lesson]
    assert len(kernels) >= 6
    assert [it for it in judged(kernels, processes=2, seed=SEED) if not it.expected] == []


def test_mutants_are_the_same_each_time_and_survivors_are_among_them() -> None:
    every = mutants()
    assert [it.says for it in every] == [it.says for it in mutants()]
    assert len({it.label for it in every}) == len(every) > 600
    changes = {(it.lesson[3:], it.says.partition(": ")[2]) for it in every}
    assert set(survivors()) <= changes
    assert all(len(why) > 20 for why in survivors().values())


@pytest.mark.slow
def test_a_sample_of_mutants_is_rejected() -> None:
    by_rule = {it.group: it for it in mutants() if it.fates == REJECTED and it.lesson[3:] in ("block_tile", "naive")}
    kernels = [by_rule[rule] for rule in ("barrier removed", "guard", "name", "+= to =")]
    results = list(judged(kernels, processes=2, seed=SEED))
    assert [it for it in results if not it.expected or it.verdict == "compile_failed"] == []


@pytest.mark.slow
def test_the_same_code_is_no_mutant() -> None:
    first = mutants()[0]
    course = any_course()
    source = course.lesson(first.lesson).solution_path.read_text()
    assert is_equivalent(replace(first, source=source.replace("acc += a(row, k)", "acc += (a(row, k))")))
    assert not is_equivalent(replace(first, source=source.replace("acc += a(row, k)", "acc -= a(row, k)")))


@pytest.mark.slow
def test_a_solution_among_cheats_is_told() -> None:
    (found,) = chosen(cheats(), ["first_kernel/known_size"])
    honest = replace(found, source=found.source.replace("min(M * N, 2500)", "M * N"))
    (result,) = judged([honest], seed=SEED)
    assert (result.verdict, result.reason, result.expected) == ("passed", "", False)


def test_verdicts_of_two_machines_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = Result("block_tile/x", "race", "faulted", "race in line 3", True, 1, 0.5)
    for name, results in (("a", [here]), ("b", [replace(here, verdict="passed", reason="[ok]")]), ("c", [])):
        record = {"schema": "gemm-lessons/battery/1", "results": [vars(it) for it in results]}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    a, b, c = (str(tmp_path / f"{name}.json") for name in "abc")
    assert main(["--compare", a, a]) == 0
    assert "no verdicts differ" in capsys.readouterr().out
    assert main(["--compare", a, b]) == 1
    told = capsys.readouterr().out
    assert "block_tile/x" in told
    assert "race in line 3 | [ok]" in told
    assert main(["--compare", a, c]) == 1
    assert "not judged" in capsys.readouterr().out


def test_ctrl_c_leaves_what_was_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = chosen(cheats(), ["naive/"])[:2]

    def one_and_then_ctrl_c(kernels: object, **options: object) -> Iterator[Result]:
        yield Result(first.label, first.group, "faulted", "race in line 3", True, 1, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(battery, "judged", one_and_then_ctrl_c)
    kept = tmp_path / "kept.json"
    assert main(["cheats", first.label, second.label, "--json", str(kept)]) == 130
    told = capsys.readouterr()
    assert f"1/2 {first.label}: faulted (0 s, seed 1) race in line 3" in told.err
    assert first.label in told.out
    assert "stopped: 1 of 2 were not judged" in told.out
    assert [it["kernel"] for it in json.loads(kept.read_text())["results"]] == [first.label]


def test_a_wrong_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cheats", "no_such_lesson"]) == 2
    assert "no_such_lesson" in capsys.readouterr().err
