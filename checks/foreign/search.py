"""Searches a launch without faults for every kernel of a checkout: ``python -m checks.foreign search``.

One JSON line a kernel: the frozen launch, or why there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.foreign import guess
from checks.foreign.build import compiled, gathered
from checks.foreign.execute import Outcome, TooSlow, launch
from checks.foreign.inputs import Number, parse
from checks.foreign.manifest import Case
from checks.foreign.runner import CRASHES
from gemm_lessons.engine.compiler import source as cuda_source
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.simulator import Setting

SECONDS = 10
PATIENCE = 25
PER_FILE = 8  # kernels at most, so that many files are searched
BUDGET = 150_000
ALIAS = re.compile(r"\btypedef\s+([\w\s:*]+?)\s*\b(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s:*]+?)\s*;|"
                   r"#[ \t]*define[ \t]+(\w+)[ \t]+((?:unsigned |const )?[a-z_]\w*)[ \t]*$", re.M)  # fmt: skip


def files(root: Path) -> Iterator[Path]:
    """Files of a checkout that define kernels."""
    for file in sorted(root.rglob("*"), key=lambda f: hashlib.sha256(f.name.encode()).digest()):  # a wide choice first
        if file.suffix in (".cu", ".cuh", ".h", ".hpp") and file.is_file():
            text = file.read_text(errors="replace")
            if "__global__" in text and len(text) < 300_000:
                yield file


def aliases(text: str) -> dict[str, str]:
    """typedef, using and #define of types."""
    found: dict[str, str] = {}
    for old, new, using, meant, macro, value in ALIAS.findall(text):
        name, target = (new, old) if new else (using, meant) if using else (macro, value)
        found[name] = target  # the last, as in `#if ... double ... #else ... float`
    return found


def search(repository: str, root: Path, seen: set[str], limit: int = 10_000) -> Iterator[dict[str, Any]]:
    """Yield the result for each kernel that is not in ``seen``, which holds hashes of definitions."""
    count = 0
    for file in files(root):
        text = without_comments(file.read_text(errors="replace"))
        host = guess.Host(text)
        here = refused = 0
        for kernel in cuda_source.kernels(text):
            body = _body(text, kernel.name)
            key = hashlib.sha256(re.sub(r"\s+", "", body).encode()).hexdigest()
            if not body or key in seen or here >= PER_FILE or refused > 1:
                continue
            seen.add(key)
            start = time.monotonic()
            answer = _one(repository, file, root, kernel, body, host)
            yield {
                "repository": repository,
                "file": str(file.relative_to(root)),
                "kernel": kernel.name,
                **answer,
                "seconds": round(time.monotonic() - start, 2),
            }
            here += 1
            refused += answer["status"] == "compile" and not kernel.template
            count += 1
            if count >= limit:
                return


def _body(text: str, name: str) -> str:
    """The kernel's definition, from ``__global__`` on."""
    for match in re.finditer(rf"__global__[^;{{}}]*\b{re.escape(name)}\s*\([^;{{]*\{{", text):
        depth, position = 1, match.end()
        while position < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        return text[match.start() : position]
    return ""


def _one(
    repository: str, file: Path, root: Path, kernel: cuda_source.GlobalFunction, body: str, host: guess.Host
) -> dict[str, Any]:
    dynamic = re.search(r"\bextern\s+__shared__|\bSharedMemory\s*<", body) is not None
    best: dict[str, Any] = {"status": "no candidate"}
    try:
        known = aliases(gathered(file, root))
        candidates = list(guess.tries(kernel, body, host, known, dynamic))
    except NotImplementedError as problem:
        return {"status": "arguments", "why": str(problem)}
    failed: set[str] = set()
    slow, start = 0, time.monotonic()
    for candidate in candidates:
        case = Case(repository, str(file.relative_to(root)), candidate.entry, candidate.shape, candidate.arguments,
                    candidate.defines)  # fmt: skip
        if candidate.entry in failed:
            continue
        result = compiled(file, root, candidate.entry, candidate.defines)
        if isinstance(result, NotCompiled):
            failed.add(candidate.entry)
            complaints = [f"{d.line}: {d.message}" for d in result.diagnostics if d.severity == "error"]
            message = "; ".join(complaints[:2]) or result.log[:200]
            best = {"status": "compile", "why": message[:300]}
            if kernel.template:
                continue
            return best
        case = _fitting(case, result)
        for shared in (16384, 48 << 10) if dynamic else (0,):
            case = replace(case, shape=replace(case.shape, dynamic_shared=shared))
            answer = attempt(case, result)
            if answer["status"] == "clean":
                return {**answer, "row": case.row()}
            if answer["status"] in ("unsupported", "crash"):
                return {**answer, "row": case.row()}
            if _rank(answer) > _rank(best):
                best = {**answer, "row": case.row()}
            if answer["status"] != "found" or answer["kinds"] != ["out_of_bounds"]:
                break
        slow += best["status"] == "slow"
        if slow > 2 or time.monotonic() - start > PATIENCE:
            break
    return best


def _fitting(case: Case, result: Compiled) -> Case:
    """Replace doubles by floats if the size of a parameter in PTX shows that a type was guessed wrong."""
    try:
        sizes = [p.size for p in parser.parse(result.ptx).kernels[result.entry].parameters]
    except ptx.PtxSyntaxError:
        return case
    pairs = zip(case.arguments, sizes, strict=False)
    if any(isinstance(a, Number) and str(a).startswith("=f8") and size == 4 for a, size in pairs):
        arguments = tuple(parse(re.sub(r"^([=*])f8", r"\1f4", str(a))) for a in case.arguments)
        return replace(case, arguments=arguments)
    return case


def _rank(answer: dict[str, Any]) -> int:
    if answer["status"] == "found":
        return 3 - ("out_of_bounds" in answer["kinds"])
    return {"unchanged": 4, "slow": 1}.get(answer["status"], 0)


def attempt(case: Case, result: Compiled, counting: bool = False) -> dict[str, Any]:
    """Launch once; return a status and the reasons for it."""
    try:
        outcome = launch(result, case.shape, case.arguments, Setting(counting=counting, budget=BUDGET), SECONDS)
    except UnsupportedKernel as problem:
        return {"status": "unsupported", "why": str(problem)[:300]}
    except TooSlow:
        return {"status": "slow"}
    except CRASHES as problem:
        return {"status": "crash", "why": f"{type(problem).__name__}: {problem}"[:300]}
    found = errors(outcome)
    if found:
        kinds = sorted({f.kind for f in found})
        status = "slow" if kinds == ["timeout"] else "found"
        return {"status": status, "kinds": kinds, "why": "; ".join(f"{f.line}: {f.message}"[:160] for f in found[:3])}
    notes = sorted({f"{f.kind} ({f.severity})" for f in outcome.launched.findings})
    return {"status": "clean" if outcome.changed else "unchanged", "notes": notes, "changed": outcome.changed}


def errors(outcome: Outcome) -> list[Finding]:
    """The fault and every finding that is an error."""
    launched = outcome.launched
    return [*([launched.fault] if launched.fault else []), *(f for f in launched.findings if f.severity == "error")]


def write(wanted: list[tuple[str, int]], sources: Path, target: Path) -> None:
    """Search these checkouts for so many kernels each; append to ``target``."""
    seen: set[str] = set()
    for repository, limit in wanted:
        root = sources / repository.replace("/", "+")
        with target.open("a") as file:
            for row in search(repository, root, seen, limit):
                file.write(json.dumps(row) + "\n")
                file.flush()
