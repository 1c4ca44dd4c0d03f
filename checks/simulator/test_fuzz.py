"""Random kernels on the simulator against what an H200 answered for them, by stored hashes of all results."""

from __future__ import annotations

import pytest

from checks.simulator import fuzz

pytestmark = pytest.mark.untraced

SEEDS = sorted(fuzz.stored())
FEW = [*SEEDS[:20], *(seed for seed in fuzz.REGRESSIONS if seed not in SEEDS[:20])]  # .ci/run has a step for all
CHUNK = 20


@pytest.mark.stored  # the kernels' integers overflow, and what becomes of that is each compiler's own
@pytest.mark.parametrize("first", range(0, len(FEW), CHUNK))
def test_random_kernels_give_the_bits_of_the_gpu(first):
    wrong = fuzz.unlike_stored(FEW[first : first + CHUNK])
    assert wrong == [], f"show one: python -m checks.simulator.fuzz show {wrong[0] if wrong else ''}"


@pytest.mark.stored
def test_the_command_tells_a_difference(monkeypatch, capsys):
    hashes = fuzz.stored()
    monkeypatch.setattr(fuzz, "stored", lambda: {5: hashes[5]})
    assert fuzz.main(["stored"]) == 0
    monkeypatch.setattr(fuzz, "stored", lambda: {5: hashes[6]})
    assert fuzz.main(["stored"]) == 1
    assert "wrong: [5]" in capsys.readouterr().out


def test_seeds_that_once_differed_are_among_them():
    assert set(fuzz.REGRESSIONS) <= set(SEEDS)
    assert not set(fuzz.OPEN) & set(SEEDS)
    assert len(SEEDS) >= 300


def test_a_kernel_is_a_function_of_its_seed():
    assert fuzz.generate(5).source == fuzz.generate(5).source
    assert fuzz.generate(5).source != fuzz.generate(6).source


def test_the_hash_sees_every_bit_but_which_nan_a_double_is():
    outputs = dict(fuzz.generate(1).inputs())
    before = fuzz.digest(outputs)
    outputs["f"].view("u4")[7] ^= 1
    assert fuzz.digest(outputs) != before
