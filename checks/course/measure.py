"""Measure the course's kernels beside cuBLAS on a GPU: where ``lessons/measured`` comes from. ``tables.toml`` lists it.

    python -m checks.course.measure compile DIR [TABLE ...]      # here: machine code, of all tables if none is named
    python -m checks.course.measure run DIR [TABLE ...]          # on a machine with the GPU and cupy: DIR/measured
    python -m checks.course.measure run DIR [TABLE ...] --into lessons/measured       # the stored files themselves

Each table is measured in its own process, one after the other, and becomes a file. A table is measured in rounds of one
launch of every kernel and of cuBLAS, so that clocks and temperature are the same for all. Each round has a new order:
the launch before affects the clock, by up to 4% at 8192. Answers are compared with float64 before anything is timed.
Launches are timed in up to three ways:

    idle     on an idle GPU, L2 as the launch before left it: what one call costs, the launch included
    warm     queued after another kernel, so that the launch is hidden; L2 as the launch before left it
    cold     queued after a fill of 128 MiB, so that the launch is hidden and L2 holds nothing of A and B: what
             ``gemm-lessons bench`` does
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.course import bytes as of_bytes
from checks.course import epilogues, fp64, loops, power
from checks.course.bench import Bench, Call, in_a_row, row_of, tile_of
from checks.course.kernel import Kernel, compiled
from checks.course.tables import COLD, IDLE, WARM, Precise, Problem, Table, tables
from gemm_lessons.gemm.shapes import Shape

MEASURED = "measured"  # the folder of new measurements
COMMAND = "python -m checks.course.measure compile DIR {0}; python -m checks.course.measure run DIR {0}"
IN_FLOAT32 = "cublas float32"  # cuBLAS in float32 on numbers of a narrower type, for its errors alone
SPIN = """
extern "C" __global__ void spin(long long clocks)
{
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}

// On one multiprocessor: its clocks so far, and nanoseconds.
extern "C" __global__ void now(long long* found)
{
    unsigned which;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(which));
    if (which == 0 && threadIdx.x == 0) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(found[1]));
        found[0] = clock64();
    }
}
"""


# -- compiling


def compile_table(table: Table, folder: Path) -> None:
    """Write the machine code of everything that a table needs, for the shapes that it is launched at."""
    shapes = table.shapes()
    compile_kernels(table, [chosen for kernel in table.kernels() for chosen in kernel.chosen(shapes)], folder)
    if table.name == epilogues.TABLE:
        epilogues.compile_unfused(folder)


def compile_kernels(table: Table, kernels: Iterable[Kernel], folder: Path) -> None:
    """Write a cubin for each kernel and loop, and ``kernels.json``, which lists them. Where the host chooses among
    several kernels of one name, the resources of the first are shown."""
    folder.mkdir(parents=True, exist_ok=True)
    spin = compiled(SPIN, Path("spin.cu"), "spin", {})
    (folder / "spin.cubin").write_bytes(spin.cubin)
    listed = {
        "compiler": spin.compiler,
        "kernels": [compile_kernel(table, it, folder / f"{number}.cubin") for number, it in enumerate(kernels)],
        "loops": loops.compile_loops(table, folder),
    }
    (folder / "kernels.json").write_text(json.dumps(listed))


def compile_kernel(table: Table, kernel: Kernel, to: Path) -> dict[str, Any]:
    """Write the cubin; return its entry of ``kernels.json``: name, tile sizes, file and resources."""
    made = kernel.compiled()
    to.write_bytes(made.cubin)
    known = {
        "registers": made.resources.registers,
        "spill_bytes": made.resources.spill_bytes,
        "shared_bytes": made.resources.shared_bytes,
        **(loops.reads_of(made, kernel.entry) if "three" in table.fields else {}),
    }
    resources = {field: known[field] for field in table.fields}
    return {"name": kernel.name, "tile": tile_of(kernel.lesson), "file": to.name, "resources": resources}


# -- measuring


def measure(bench: Bench) -> list[dict[str, Any]]:
    """The rows of a table that has no ``measure`` of its own (``run_table`` lists those that have)."""
    table = bench.table
    check_all(bench)
    bench.settle()
    rows = loops.measure_loops(bench)
    ceilings = {row["kernel"].split()[1]: row[COLD]["tflops"] for row in rows if row["kernel"].startswith("loop")}
    for problem in table.problems():
        rows += shown(measure_problem(bench, problem, ceilings.get(problem.kind, 0.0)))
    if table.precise:
        add_errors(rows, bench, table.precise)
    if table.name in fp64.TABLES:
        fp64.add_errors(rows, bench)
    return rows


def check_all(bench: Bench) -> None:
    """Compare every kernel with float64 at the shapes ``checks`` of the table."""
    for sizes in bench.table.checks:
        for kind in bench.table.kinds:
            problem = Problem("", Shape(*sizes), kind)
            a, b, c = bench.given(kind, problem.shape)
            calls = {name: bench.kernel(name, a, b, c) for name in bench.names(kind, problem.shape)}
            bench.compare(calls, c, bench.product(kind, a, b), problem)


def measure_problem(bench: Bench, problem: Problem, ceiling: float) -> list[dict[str, Any]]:
    """The rows of one problem: cuBLAS, and every kernel that accepts it. ``ceiling``: TFLOP/s of a loop of
    multiply-adds on registers; 0 if there is none."""
    table, kind, shape = bench.table, problem.kind, problem.shape
    a, b, c = bench.given(kind, shape)
    library = table.library(kind)
    names = [name for name in bench.names(kind, shape) if table.launches(name, problem)]
    calls = {library: bench.library(kind, a, b, c, shape.layout)}
    calls |= {name: bench.kernel(name, a, b, c, shape.layout) for name in names}
    if table.compare_sizes:
        bench.compare(calls, c, bench.product(kind, a, b, shape.layout), problem)
    calls |= {
        name: bench.library(kind, a, b, c, layout) for name, layout in table.transposed.items() if kind in name.split()
    }
    if table.torch and kind == "int8":
        calls |= bench.torch(a, b, c)
    if table.hgemm and kind == "float16":
        calls |= bench.hgemm(a, b, c)
    in_a_row([*calls.values()])  # the first launch of each takes longer
    rounds = {name: table.launches(name, problem) for name in calls}
    times = bench.times(calls, c, rounds)
    rows = []
    for name in calls:
        row = row_of(name, problem, rounds[name], times, library)
        for way in (it for it in times if it != IDLE):
            if ceiling:
                row[way]["percent_of_loop"] = round(100 * row[way]["tflops"] / ceiling, 2)
            if table.answers:
                row[way]["answers"] = answers(bench, calls[name], c, table.answers)
        if clocks := bench.clocks.pop(name, None):
            row["clock_ghz"] = round(statistics.median(clocks), 3)
        row |= bench.resources.get(name, {})
        rows.append(row)
    if table.layouts:
        rows = [{**row, "kernel": f"{row['kernel']} {shape.layout}"} for row in rows]
    return rows


def answers(bench: Bench, call: Call, c: Any, times: int) -> int:
    """How many different results, bit for bit, ``times`` calls on the same inputs give."""
    found = set()
    for _ in range(times):
        call()
        found.add(hashlib.sha256(bench.cupy.asnumpy(c).tobytes()).hexdigest())
    return len(found)


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print the percent of cuBLAS of one problem's rows; return the rows."""
    shares = {row["kernel"]: [row[way]["percent_of_cublas"] for way in (WARM, COLD) if way in row] for row in rows}
    print(
        rows[0]["size"],
        *(f"{name} {'/'.join(map(str, found))}" for name, found in shares.items()),
        sep="  ",
        flush=True,
    )
    return rows


def add_errors(rows: list[dict[str, Any]], bench: Bench, precise: Precise) -> None:
    """Add errors to the rows of some sizes, and rows for kernels that were not timed."""
    for n in precise.sizes:
        timed = {row["kernel"]: row for row in rows if row["size"] == n}
        for name, errors in errors_at(bench, precise, n).items():
            if name in timed:
                timed[name].update(errors)
            else:
                rows.append({"kernel": name, "size": n, **errors})


def errors_at(bench: Bench, precise: Precise, n: int) -> dict[str, dict[str, float]]:
    """Errors at n^3 by kernel. If C is float32, cuBLAS in float32 on the same numbers is one of them. A kernel whose C
    has NaN gets no error for that case."""
    kind, library = precise.kind, bench.table.library(precise.kind)
    floats = [bench.normal(n, n) for _ in range(2)]
    c = bench.empty(kind, n, n)
    found: dict[str, dict[str, float]] = {}
    for case in precise.cases:
        suffix = f"_{case}" if case else ""
        a, b = (bench.narrowed(kind, changed(case, it)) for it in floats)
        calls = {name: bench.kernel(name, a, b, c) for name in precise.kernels or bench.lessons}
        if kind not in bench.table.narrow:  # C would be too small
            calls[IN_FLOAT32] = bench.library("float32", a.astype("float32"), b.astype("float32"), c)
        calls[library] = bench.library(kind, a, b, c)
        if bench.table.hgemm:
            calls |= bench.hgemm(a, b, c)
        exact = bench.product(kind, a, b)
        unrounded = bench.product("float32", *floats) if "floats" in precise.errors and not case else None
        magnitudes = bench.product(kind, abs(a), abs(b)) if "worst" in precise.errors else None
        for name, call in calls.items():
            line, error = found.setdefault(name, {}), bench.error(call, c, exact)
            if error != error:
                continue
            line[f"error{suffix}"] = float(f"{error:.3g}")
            if magnitudes is not None:
                line[f"worst{suffix}"] = round(float((abs(c - exact) / magnitudes).max() * 2**24), 2)
            if unrounded is not None:
                line["error_floats"] = float(f"{bench.error(call, c, unrounded):.3g}")
    return found


def changed(case: str, floats: Any) -> Any:
    """The inputs of a case: all ``positive``, or scaled by a power of two (``down_8``: times 2**-8; ``up_8``: 2**8)."""
    if case == "positive":
        return abs(floats)
    if not case:
        return floats
    way, exponent = case.split("_")
    return floats * floats.dtype.type(2.0 ** (int(exponent) if way == "up" else -int(exponent)))


# -- storing


def run_table(table: Table, folder: Path, target: Path) -> None:
    """Measure a table and store its rows."""
    bench = Bench(table, folder)
    special = {
        epilogues.TABLE: epilogues.measure,
        power.TABLE: power.measure,
        **dict.fromkeys(of_bytes.LIBRARY, of_bytes.measure),
    }
    rows = special.get(table.name, measure)(bench)
    if table.name == "order":
        rows = one_more_run(rows, target)
    about = {"command": COMMAND.format(table.name), **bench.about(), "what": table.what, "how": table.how}
    write(target, about, rows)


def one_more_run(rows: Iterable[Mapping[str, Any]], target: Path) -> list[dict[str, Any]]:
    """The stored rows, and these as one more run; of these only the times are kept."""
    before = json.loads(target.read_text())["rows"] if target.exists() else []
    number = 1 + max((row["run"] for row in before), default=0)
    added = []
    for row in rows:
        times = {key: value for key, value in row[WARM].items() if key.endswith("_us")}
        added.append(
            {"kernel": row["kernel"], "size": row["size"], "run": number, "repeats": row["repeats"], WARM: times}
        )
    return [*before, *added]


def write(target: Path, about: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one line per row, so that diffs stay readable."""
    head = json.dumps({"schema": "gemm-lessons/measured/2", **about}, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(found) for found in rows)
    target.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


# -- the command


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.course.measure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("do", choices=("compile", "run"))
    parser.add_argument("folder", type=Path, help="for machine code and what is measured")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(tables())}; all")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=f"of the files; DIR/{MEASURED}")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.tables) - {*tables()}:
        parser.error(f"{', '.join(sorted(unknown))}: only of {', '.join(tables())}")
    names, into = asked.tables or [*tables()], asked.into or asked.folder / MEASURED
    into.mkdir(parents=True, exist_ok=True)
    if len(names) > 1:
        apart(asked.do, asked.folder, names, into)
    elif asked.do == "compile":
        compile_table(tables()[names[0]], asked.folder / names[0])
    else:
        table = tables()[names[0]]
        run_table(table, asked.folder / table.name, into / table.file)


def apart(do: str, folder: Path, names: Sequence[str], into: Path) -> None:
    """Handle the tables one after the other, each in its own process."""
    failed = []
    for name in names:
        print(f"{name}:", flush=True)
        command = [sys.executable, "-m", "checks.course.measure", do, str(folder), name, "--into", str(into)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
