"""A counter that was not counted is absent; 0 means that it was counted and nothing happened."""

from __future__ import annotations

import math

import numpy as np
import pytest

from checks.counters.test_async_counts import SOURCES
from checks.counters.test_async_counts import counted as of_mbarriers
from checks.counters.test_totals import counted
from gemm_lessons import simulate
from gemm_lessons.course.lesson import Gate
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.records.metrics import COUNTED, ON_REQUEST
from gemm_lessons.engine.records.results import Counters, Launched, NotCounted, in_a_row
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.judging.evidence import Checked
from gemm_lessons.judging.gates import judge_gates, uncounted
from gemm_lessons.judging.verdict import Passed
from gemm_lessons.report.inspect import counter_rows

TOGETHER = True
GENERIC = "const float *p = n ? (const float *)s : x; y[(int)p[t] & 31] = 1;"  # beyond the machine code's followers


def test_what_did_not_happen_is_counted() -> None:
    counters = counted("y[t] = x[t];")
    asked = {short: long for short, long in COUNTED.items() if short not in ON_REQUEST}
    assert set(counters) == set(asked.values())
    assert all(short in counters and long in counters for short, long in asked.items())
    nothing = ("dfma", "hmma", "shuffles", "async_copies", "texture_requests", "global_reductions", "ldmatrix")
    assert {name: counters[name] for name in nothing} == dict.fromkeys(nothing, 0)
    assert {name: counters.get(name) for name in nothing} == dict.fromkeys(nothing, 0)


def test_a_counter_has_two_names() -> None:
    counters = counted("y[t] = x[t];")
    assert counters["global_load_sectors"] == counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 8
    for ask in (counters.get, counters.why_absent, counters.__getitem__, counters.__contains__):
        with pytest.raises(KeyError, match="no counter is called 'global_loads'"):
            ask("global_loads")


def test_what_only_machine_code_has_is_absent_without_it() -> None:
    counters = counted(f"{GENERIC} y[t + 64] = __shfl_xor_sync(~0u, x[t], 1);")
    assert counters["global_store_sectors"] > 0, "PTX tells this one"
    assert counters["barriers"] == 1
    for name in ("shuffles", "operations", "thread_instructions", "hmma", "global_bytes_waited_for"):
        assert name not in counters
        assert counters.get(name) is None
        assert math.isnan(counters.numbers()[name])
        with pytest.raises(NotCounted) as refused:
            counters[name]
        assert str(refused.value) == f"{name} was not counted: {counters.obstacle}"
    assert not {COUNTED[name] for name in ("shuffles", "operations")} & counters.totals.keys()
    assert counters.inexact.keys() <= counters.totals.keys()


def test_fetches_from_textures_are_absent_from_sums_without_machine_code() -> None:
    from gemm_lessons.engine.records.launch import Texture

    source = """extern "C" __global__ void k(cudaTextureObject_t t, const int *x, float *y, int n)
    { __shared__ int s[32]; s[threadIdx.x] = 0; const int *p = n ? s : x;
      y[p[threadIdx.x] & 31] = tex1Dfetch<float>(t, threadIdx.x); }"""
    texels = np.ones(32, np.float32)
    launched = simulate(source, "k", 1, 32, [Texture(texels), np.zeros(32, np.int32), np.zeros(32, np.float32), 0])
    counters = launched.counters
    assert counters.obstacle
    assert "global_bytes_read" not in counters
    assert counters["global_load_bytes"] == 32 * 4, "plain loads alone"


def test_what_depends_on_time_is_absent() -> None:
    counters = of_mbarriers(*SOURCES["pipeline"])
    with pytest.raises(NotCounted, match="barriers was not counted: threads meet at mbarriers, too"):
        counters["barriers"]
    assert "depends on time" in counters.inexact[COUNTED["instructions"]], "it is there, and marked"
    assert uncounted(counters).keys() - ON_REQUEST == counters.uncounted.keys()


def test_a_table_shows_a_dash() -> None:
    rows = {name: value for name, value, _ in counter_rows(Launched(of_mbarriers(*SOURCES["pipeline"])))}
    assert (rows["barriers"], rows["blocks"], rows["global load sectors"]) == ("-", "1", "0")


def test_a_launch_without_counting_has_no_counters() -> None:
    x = np.zeros(32, np.float32)
    source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }'
    counters = simulate(source, "k", 1, 32, [x], device=Simulator(Setting(counting=False))).counters
    assert list(counters) == []
    with pytest.raises(NotCounted, match="the launch did not end, or ran without counting"):
        counters["ffma"]
    assert not any(value is not None for value in map(counters.get, COUNTED))


def test_a_sum_of_launches_has_what_all_of_them_counted() -> None:
    whole, part = counted("y[t] = x[t];"), counted(GENERIC)
    total = in_a_row([Launched(whole), Launched(whole)]).counters
    assert total["global_load_sectors"] == 16
    assert total["hmma"] == 0
    total = in_a_row([Launched(whole), Launched(part)]).counters
    assert "hmma" not in total
    assert total.why_absent("hmma") == part.obstacle
    assert total["global_store_sectors"] == whole["global_store_sectors"] + part["global_store_sectors"]
    assert list(in_a_row([Launched(whole), Launched(Counters())]).counters) == []


def test_no_hint_and_no_ratio_is_made_of_what_was_not_counted() -> None:
    assert Checked(Passed(), counters=counted("y[t] = x[t] * 2.0f + 1;")).instructions_per_fma is not None
    assert Checked(Passed(), counters=counted(f"{GENERIC} y[t] = x[t] * 2.0f + 1;")).instructions_per_fma is None


def test_a_gate_says_why_it_has_no_value() -> None:
    """A missing counter read as 0 would meet ``at most 0``, so the gate is not judged."""
    counters = counted(GENERIC)
    gate = Gate("shuffles", "shuffles", Expression("max(0, shuffles)"), "", at_most=0)
    (result,) = judge_gates([gate], counters.numbers(), uncounted(counters))
    assert (result.value, result.passed) == (None, None)
    assert result.note == f"cannot be counted: {counters.obstacle}"
    (result,) = judge_gates([gate], counted("y[t] = x[t];").numbers(), uncounted(counted("y[t] = x[t];")))
    assert (result.value, result.passed, result.note) == (0, True, "")
