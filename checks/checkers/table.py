"""Prints the comparison with compute-sanitizer: ``python -m checks.checkers.table``.

The simulator runs every kernel now; the sanitizer's verdicts are the stored readings (``checks/readings``).
"""

from __future__ import annotations

from checks.checkers.launcher import findings, launch
from checks.checkers.manifest import CASES, Case
from checks.checkers.verdicts import hardware, measured, readings, verdicts
from checks.readings.checkers.renew import TOOLS
from checks.usage import help_if_asked


def _ours(case: Case) -> str:
    found = findings(launch(case))
    if not found:
        return "clean"
    first = found[0]
    lines = ",".join(str(n) for n in sorted({n for n in (first.line, first.other_line) if n is not None}))
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    return f"{first.kind} ({first.severity}) {lines}{more}"


def _theirs(case: Case) -> str:
    if not measured(case):
        return "not measured"
    said = sorted(verdicts(case), key=lambda v: ["error", "warning", "note"].index(v.severity))
    if not said:
        return "clean"
    first = said[0]
    lines = ",".join(map(str, sorted(first.lines)))
    return f"{first.tool} ({first.severity}) {lines}" if first.lines else f"{first.message} ({', '.join(TOOLS)})"


def main() -> None:
    """Print one row per kernel, then the sums."""
    versions = readings()["versions"]
    print(
        "compute-sanitizer", versions["sanitizer"][0], versions["gpu"], versions["nvcc"][-1], versions["date"], sep=", "
    )
    width = max(len(case.name) for case in CASES)
    print(f"\n{'kernel':{width}}  {'on hardware':22} {'compute-sanitizer':34} simulator")
    both = only_ours = missed = accused = unmeasured = unmeasured_found = 0
    for case in CASES:
        ours, theirs = _ours(case), _theirs(case)
        on_hardware = hardware(case) if measured(case) else "not measured"
        print(f"{case.name:{width}}  {on_hardware:22} {theirs:34} {ours}")
        if case.severity is None:
            accused += ours != "clean"
        elif theirs == "not measured":
            unmeasured += 1
            unmeasured_found += ours != "clean"
        elif theirs == "clean":
            only_ours += ours != "clean"
        elif ours == "clean":
            missed += 1
        else:
            both += 1
    broken = sum(case.severity is not None for case in CASES)
    print(
        f"\n{broken} broken kernels: {both} found by both, {only_ours} by the simulator only,"
        f" {missed} by compute-sanitizer only, {unmeasured_found} of {unmeasured} by the simulator where"
        f" compute-sanitizer was not asked yet; {len(CASES) - broken} clean kernels: {accused} accused"
    )


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
