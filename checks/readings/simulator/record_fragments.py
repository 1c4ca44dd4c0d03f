"""Records the results of a GPU's matrix instructions: products of fragments, and the layouts of wmma's fragments.

    python -m checks.readings.simulator.record_fragments OUT.json [STYLE ...]    needs cupy and a GPU; a minute
    python -m checks.readings.simulator.record_fragments --compare    the simulator with stored results; many minutes
    python -m checks.readings.simulator.record_fragments --compare f64 tiny    the same, of forms with this in their
                                                                               names, and of these styles

``fragments.json`` beside this file has a fingerprint of each piece of the results: for each form and style a first
piece of 20 fragments, which the tests compare, and ten more of 2,230.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.simulator.fragment_cases import LANES, MMA, STYLES, Form, given, kernel, loads, pieces
from checks.usage import help_if_asked

KEPT = Path(__file__).with_name("fragments.json")


def fingerprint(answer: Any) -> str:
    """CRC-32 of raw results, in hexadecimal."""
    return f"{zlib.crc32(np.ascontiguousarray(answer).tobytes()):08x}"


def fingerprints(answer: Any) -> list[str]:
    """The fingerprint of every piece."""
    return [fingerprint(answer[piece]) for piece in pieces()]


def simulated(form: Form, fragments: dict[str, Any]) -> Any:
    """The simulator's results, raw: (fragment, word, lane)."""
    from gemm_lessons import simulate  # recording needs no simulator

    count = len(fragments["a"])
    out = np.zeros((count, form.words("d"), LANES), f"u{form.word('d') // 8}")
    values = [fragments[o] if form.word(o) == 32 else fragments[o].view(np.float64) for o in "abc"]
    launched = simulate(
        kernel(form), "k", count, LANES, [*values, out.view(np.float64) if form.word("d") == 64 else out]
    )
    assert launched.fault is None, launched.fault
    return out


def _recorded(name: str, styles: tuple[str, ...]) -> dict[str, list[str]]:
    import cupy

    form = Form(name)
    function = cupy.RawModule(code=kernel(form)).get_function("k")
    found = {}
    for style in styles:
        fragments = given(form, style, pieces()[-1].stop)
        count = len(fragments["a"])
        out = cupy.zeros((count, form.words("d"), LANES), f"u{form.word('d') // 8}")
        function((count,), (LANES,), (*(cupy.asarray(fragments[o]) for o in "abc"), out))
        found[style] = fingerprints(out.get())
    return found


def _layouts() -> dict[str, list[str]]:
    import cupy

    found = {}
    for load in loads():
        function = cupy.RawModule(code=load.kernel()).get_function("k")
        parts = []
        for part in range(load.parts):
            out = cupy.zeros((load.words, LANES), f"u{load.width}")
            function((1,), (LANES,), (cupy.asarray(load.numbered(part)), out))
            parts.append(fingerprint(out.get()))
        found[load.name] = parts
    return found


def record(path: str, *styles: str) -> None:
    """Run all styles on the GPU, or ``styles`` alone; the others keep their stored results."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    spawned = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork
    with ProcessPoolExecutor(8, mp_context=spawned) as pool:
        answers = dict(zip(MMA, pool.map(partial(_recorded, styles=styles or STYLES), MMA), strict=True))
    if styles:
        before = json.loads(KEPT.read_text())["products"]
        answers = {name: before[name] | found for name, found in answers.items()}
    kept = {
        "gpu": facts["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "products": answers,
        "layouts": _layouts(),
    }
    Path(path).write_text(json.dumps(kept, indent=0) + "\n")
    print(f"{len(answers)} forms, {pieces()[-1].stop * len(STYLES):,} fragments each")


def _compared(kept: dict[str, Any], name: str, style: str) -> list[int]:
    """The pieces that differ, by their first fragment."""
    form, fragments = Form(name), given(Form(name), style, pieces()[-1].stop)
    return [
        piece.start
        for piece, expected in zip(pieces(), kept[name][style], strict=True)
        if fingerprint(simulated(form, {o: fragments[o][piece] for o in "abc"})) != expected
    ]


def compare(word: str = "", *chosen: str) -> int:
    """Compare the simulator with the stored results of forms with ``word`` in their names; return how many pieces
    differ."""
    styles = chosen or STYLES
    kept = json.loads(KEPT.read_text())["products"]
    total, found = pieces()[-1].stop * len(styles), 0
    with ProcessPoolExecutor() as pool:
        names = [name for name in reversed(MMA) if word in name]
        asked = {name: [pool.submit(_compared, kept, name, style) for style in styles] for name in names}
        for name, answers in asked.items():
            wrong = [f"{style} {at}" for style, it in zip(styles, answers, strict=True) for at in it.result()]
            found += len(wrong)
            print(
                f"{name:60} {total:9,} fragments  {'DIFFERENT: ' + ', '.join(wrong) if wrong else 'equal'}", flush=True
            )
    return found


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--compare", *words]:
            sys.exit(compare(*words) > 0)
        case [path, *styles]:
            record(path, *styles)
        case _:
            sys.exit(__doc__)
