"""Records a GPU's warpgroup products: every type, N, source of A, transpose and negation, with random layouts.

    python -m checks.readings.simulator.record_wgmma OUT.json [RAW.npz]    needs cupy and a GPU of sm_90; a minute
    python -m checks.readings.simulator.record_wgmma --missing OUT.json    only forms that are not kept, and those kept
    python -m checks.readings.simulator.record_wgmma --compare [WORD]      the simulator beside what is kept

``wgmma.json`` beside this file keeps two fingerprints for each form and style: of the first ``FIRST`` cases, which the
tests compare, and of the rest. The last entry of a form is of products without D (``scale_d`` 0). ``RAW.npz`` gets the
answers themselves for N = 8. ``others`` keeps one fingerprint of all styles for each of ``other_forms``: 1,000
fragments of 16 x 8.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.simulator.fragment_cases import STYLES
from checks.simulator.wgmma_cases import LANES, Cases, WgmmaForm, forms, given, kernel, other_forms
from checks.usage import help_if_asked

KEPT = Path(__file__).with_name("wgmma.json")
FIRST = 2
WITHOUT_D = "without d"
ALL = (*STYLES, WITHOUT_D)
RAW_N = 8


FRAGMENTS = 1000  # of 16 x 8, of each of ``other_forms``


def count(of: WgmmaForm) -> int:
    """Return the number of cases of a style: some 2,000 pieces of 16 x 8 for the smallest N."""
    return max(10, 4000 // of.n)


def count_of_other(of: WgmmaForm) -> int:
    """Return the number of cases of a style of one of ``other_forms``."""
    return math.ceil(FRAGMENTS / (of.n // 2) / len(ALL))


def cases_of(of: WgmmaForm, style: str, first: int | None = None) -> tuple[Cases, int]:
    """Return the cases of a style, or its first ones, and ``scale_d``."""
    number = count(of) if first is None else first
    return given(of, "normal" if style == WITHOUT_D else style, number), int(style != WITHOUT_D)


def fingerprints(answer: Any) -> list[str]:
    """Return those of the first cases and of the rest."""
    parts = (answer[:FIRST], answer[FIRST:])
    return [f"{zlib.crc32(np.ascontiguousarray(part).tobytes()):08x}" for part in parts]


def simulated(of: WgmmaForm, cases: Cases, scale_d: int) -> Any:
    """Return the simulator's D."""
    from gemm_lessons import simulate  # recording needs no simulator

    d = cases.d.copy()
    values = [cases.memory.view(np.uint32), cases.a, cases.descriptors, d, np.int32(scale_d)]
    launched = simulate(kernel(of), "k", len(d), LANES, values, arch="sm_90a")
    assert launched.fault is None, launched.fault
    return d


def together(answers: Iterable[Any]) -> str:
    """Return one fingerprint of the answers of all styles."""
    found = 0
    for answer in answers:
        found = zlib.crc32(np.ascontiguousarray(answer).tobytes(), found)
    return f"{found:08x}"


def _recorded(of: WgmmaForm, number: int | None = None) -> dict[str, Any]:
    import cupy

    function = cupy.RawModule(code=kernel(of), options=("--gpu-architecture=sm_90a",)).get_function("k")
    found = {}
    for style in ALL:
        cases, scale_d = cases_of(of, style, number)
        d = cupy.asarray(cases.d)
        arguments = [cupy.asarray(it) for it in (cases.memory, cases.a, cases.descriptors)]
        function((len(cases.d),), (LANES,), (*arguments, d, np.int32(scale_d)))
        found[style] = d.get()
    return found


def _recorded_other(of: WgmmaForm) -> str:
    return together(_recorded(of, count_of_other(of)).values())


def record(path: str, raw: str = "", *, missing: bool = False) -> None:
    """Run everything on the GPU; with ``missing``, the forms that are not kept."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    about: dict[str, Any] = {"gpu": facts["name"].decode(), "driver": cupy.cuda.runtime.driverGetVersion()}
    kept: dict[str, Any] = {}
    others: dict[str, str] = {}
    if missing:
        before = json.loads(KEPT.read_text(encoding="utf-8"))
        assert all(before[name] == value for name, value in about.items()), f"the others are of {before['gpu']}"
        kept, others = before["products"], before["others"]
    new = [of for of in forms() if str(of) not in kept]
    new_others = [of for of in other_forms() if str(of) not in others]
    spawned = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork
    arrays: dict[str, Any] = {}
    with ProcessPoolExecutor(8, mp_context=spawned) as pool:
        for of, answers in zip(new, pool.map(_recorded, new), strict=True):
            kept[str(of)] = {style: fingerprints(answer) for style, answer in answers.items()}
            if raw and of.n == RAW_N:
                arrays |= {f"{of}|{style}": answer[:40] for style, answer in answers.items()}
        others |= zip(map(str, new_others), pool.map(_recorded_other, new_others), strict=True)
    products = {str(of): kept[str(of)] for of in forms()}
    rest = {str(of): others[str(of)] for of in other_forms()}
    found = json.dumps({**about, "products": products, "others": rest}, indent=0)
    Path(path).write_text(found + "\n", encoding="utf-8")
    if raw:
        np.savez_compressed(raw, **arrays)
    print(f"{len(new)} forms, {sum(count(of) * len(ALL) for of in new):,} products; {len(new_others)} other forms")


def simulated_other(of: WgmmaForm) -> str:
    """Return the fingerprint of one of ``other_forms``."""
    return together(simulated(of, *cases_of(of, style, count_of_other(of))) for style in ALL)


def _compared(kept: dict[str, Any], others: dict[str, str], of: WgmmaForm) -> tuple[int, list[str]]:
    """Return the number of products, and the styles that differ."""
    if str(of) in others:
        return count_of_other(of) * len(ALL), [] if simulated_other(of) == others[str(of)] else ["some style"]
    wrong = []
    for style in ALL:
        found = fingerprints(simulated(of, *cases_of(of, style)))
        if found != kept[str(of)][style]:
            wrong.append(style)
    return count(of) * len(ALL), wrong


def compare(word: str = "") -> int:
    """Compare the simulator with the stored results of forms with ``word`` in their names; return how many styles
    differ."""
    found = json.loads(KEPT.read_text(encoding="utf-8"))
    chosen = [of for of in (*forms(), *other_forms()) if word in str(of)]
    total = products = 0
    with ProcessPoolExecutor() as pool:
        compared = pool.map(partial(_compared, found["products"], found["others"]), chosen)
        for of, (cases, wrong) in zip(chosen, compared, strict=True):
            total += len(wrong)
            products += cases
            said = "DIFFERENT: " + ", ".join(wrong) if wrong else "equal"
            print(f"{of!s:45} {cases:6,} products  {said}", flush=True)
    print(f"{len(chosen)} forms, {products:,} products, {total} styles differ")
    return total


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--compare", *words]:
            sys.exit(compare(*words) > 0)
        case ["--missing", path]:
            record(path, missing=True)
        case [path, *more]:
            record(path, *more)
        case _:
            sys.exit(__doc__)
