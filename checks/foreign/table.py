"""The table of ``python -m checks.foreign``: verdicts by repository and in all, with reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Results = Mapping[str, Mapping[str, Any]]
COLUMNS = (
    "kernels",
    "ran",
    "equal",
    "contraction",
    "rounding",
    "undefined",
    "wrong",
    "not compared",
    "refused",
    "crashed",
    "accused",
)


def read(path: Path) -> Results:
    """The lines of a results file by kernel."""
    return {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}


def repository(name: str) -> str:
    """``owner/name`` of a kernel's name."""
    return "/".join(name.split("/")[:2])


def errors(row: Mapping[str, Any]) -> list[list[Any]]:
    """Findings that call the kernel wrong."""
    return [found for found in row.get("findings", ()) if found[1] == "error"]


def verdict(name: str, row: Mapping[str, Any], gpu: Mapping[str, str] | None) -> str:
    """One of ``COLUMNS`` between ``equal`` and ``crashed``; ``gpu``: name -> verdict of ``compare``."""
    if row["status"] != "ran":
        return "crashed" if row["status"] in ("crashed", "disagree") else "refused"
    if gpu is None or name not in gpu:
        return "not compared"
    return gpu[name].partition(":")[0].partition(" (")[0]


def show(results: Results, gpu: Mapping[str, str] | None, others: Mapping[str, Results]) -> int:
    """Print the table; return 1 if a value is wrong, a run crashed or two ways to run a kernel disagree."""
    counts: dict[str, Counter[str]] = {}
    for name, row in results.items():
        for key in (repository(name), "all"):
            count = counts.setdefault(key, Counter())
            count["kernels"] += 1
            count["ran"] += row["status"] == "ran"
            count[verdict(name, row, gpu)] += 1
            count["accused"] += bool(errors(row))
    width = max(map(len, counts))
    print(" " * width, *(f"{column:>12}" for column in COLUMNS))
    for key in [*sorted(k for k in counts if k != "all"), "all"]:
        print(f"{key:{width}}", *(f"{counts[key][column]:12}" for column in COLUMNS))
    _reasons(results)
    _list("wrong values", {n: gpu[n] for n in results if gpu and gpu.get(n, "").startswith("wrong")})
    _list("undefined values", {n: gpu[n] for n in results if gpu and gpu.get(n, "").startswith("undefined")})
    _list("contraction", {n: gpu[n] for n in results if gpu and gpu.get(n, "").startswith("contraction")})
    _list("within rounding", {n: gpu[n] for n in results if gpu and gpu.get(n, "").startswith("rounding")})
    _list("not compared", {n: gpu[n] for n in results if gpu and gpu.get(n, "").startswith("not compared")})
    _list("crashed or disagreeing", {n: r["why"] for n, r in results.items() if r["status"] in ("crashed", "disagree")})
    _list("findings", {n: "; ".join(f"{k} {line}: {text[:90]}" for k, _, line, text in errors(r))
                       for n, r in results.items() if errors(r)})  # fmt: skip
    apart = 0
    for title, other in others.items():
        shared = [n for n, r in results.items() if r["status"] == "ran" and other.get(n, {}).get("status") == "ran"]
        different = {n: "other bits" for n in shared if results[n]["digests"] != other[n]["digests"]}
        lost = {n: other[n].get("why", "") for n, r in results.items() if r["status"] == "ran" and n in other
                and other[n]["status"] != "ran"}  # fmt: skip
        print(f"\n{title}: {len(shared) - len(different)} of {len(shared)} kernels have the same bits")
        _list(f"{title}: other bits", different)
        _list(f"{title}: did not run", lost)
        apart += len(different)
    return bool(counts["all"]["wrong"] or counts["all"]["crashed"] or apart)


def _reasons(results: Results) -> None:
    reasons = Counter(row.get("why", "")[:100] for row in results.values() if row["status"] not in ("ran", "crashed"))
    if reasons:
        print("\nrefused, by reason")
        for reason, count in reasons.most_common():
            print(f"{count:5}  {reason}")


def _list(title: str, rows: Mapping[str, str]) -> None:
    if rows:
        print(f"\n{title}")
        for name, text in rows.items():
            print(f"  {name}\n      {text}")
