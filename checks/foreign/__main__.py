"""Public kernels on the simulator, compared with a GPU. Their sources are fetched, never stored here.

    python -m checks.foreign fetch MANIFEST                       the repositories, at their commits, from GitHub
    python -m checks.foreign run MANIFEST RESULTS [--plain]       every kernel on the simulator
    python -m checks.foreign run MANIFEST RESULTS --write-launches DIR
    python DIR/launcher.py DIR OUT                                on a machine with a GPU and cupy, DIR carried there
    python -m checks.foreign compare MANIFEST RESULTS OUT         compare with the GPU, into OUT/verdicts.json;
                             [--strict RESULTS OUT]   the same without contraction (run --option=-fmad=false)
    python -m checks.foreign table RESULTS [--gpu OUT] [--other RESULTS]
    python -m checks.foreign search OWNER/NAME[=KERNELS] ... --to FILE      guess launches for a manifest

``--sources DIR``: the folder of the checkouts, each in ``owner+name``; by default in the user's cache.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from checks.foreign import compare, fetch, manifest, runner, search, table


def main(arguments: list[str]) -> int:
    """Run one of the commands above; return 1 if a fetch failed, a value is wrong, or a run crashed."""
    parser = argparse.ArgumentParser(prog="python -m checks.foreign", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--sources", type=Path, default=fetch.default_folder())
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fetch")
    one.add_argument("manifest", type=Path)
    one.add_argument("--url", default=fetch.GITHUB)
    one = commands.add_parser("run")
    one.add_argument("manifest", type=Path)
    one.add_argument("results", type=Path)
    one.add_argument("--write-launches", type=Path)
    one.add_argument("--uncounted", action="store_true", help="values and findings alone")
    one.add_argument("--plain", action="store_true", help="one instruction at a time; uncounted")
    one.add_argument("--option", action="append", default=[], help="of the compiler, such as --option=-fmad=false")
    one.add_argument("--only", default="", help="kernels whose name contains this")
    one = commands.add_parser("compare")
    one.add_argument("manifest", type=Path)
    one.add_argument("results", type=Path)
    one.add_argument("gpu", type=Path)
    one.add_argument("--strict", type=Path, nargs=2, action="append", default=[], metavar=("RESULTS", "OUT"))
    one = commands.add_parser("table")
    one.add_argument("results", type=Path)
    one.add_argument("--gpu", type=Path)
    one.add_argument("--other", type=Path, action="append", default=[])
    one = commands.add_parser("search")
    one.add_argument("repositories", nargs="+")
    one.add_argument("--to", type=Path, required=True)
    given = parser.parse_args(arguments)
    if given.command == "fetch":
        failed = fetch.fetch(manifest.load(given.manifest).repositories, given.sources, given.url)
        print("\n".join(failed) or "all there")
        return bool(failed)
    if given.command == "run":
        cases = [case for case in manifest.load(given.manifest).cases if given.only in case.name]
        how = runner.How(not (given.uncounted or given.plain), tuple(given.option), given.plain)
        runner.write(cases, given.sources, given.results, how, given.write_launches)
    elif given.command == "compare":
        compare.write(manifest.load(given.manifest).cases, given.sources, given.results, given.gpu, given.strict)
    elif given.command == "search":
        wanted = [(name, int(count or 10_000)) for name, _, count in (r.partition("=") for r in given.repositories)]
        search.write(wanted, given.sources, given.to)
        return 0
    if given.command == "table":
        others = {path.name: table.read(path) for path in given.other}
        verdicts = json.loads((given.gpu / "verdicts.json").read_text()) if given.gpu else None
        return table.show(table.read(given.results), verdicts, others)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
