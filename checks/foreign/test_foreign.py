"""``python -m checks.foreign`` on a local repository of two kernels, as public ones need a network."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest

from checks.foreign import __main__ as command
from checks.foreign import compare, fetch, hopper, inputs, launcher, manifest, runner, search, table
from gemm_lessons.engine.records.launch import Grid

SOURCE = (Path(__file__).parent / "sources" / "foreign.cu").read_text()
REPOSITORY = "someone/kernels"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, fetched from a folder as it would be from GitHub; beside it ``manifest.json``."""
    origin, sources = tmp_path_factory.mktemp("origin") / REPOSITORY, tmp_path_factory.mktemp("sources")
    (origin / "src").mkdir(parents=True)
    (origin / "src" / "all.cu").write_text(SOURCE)
    (origin / "src" / "sizes.h").write_text("const int LENGTH = 4096;\n")
    (origin / "notes.txt").write_text("not a source")

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e")
        done = subprocess.run(["git", *identity, *arguments], cwd=origin, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "--quiet", "-m", "kernels")
    commit = git("rev-parse", "HEAD")
    x, y = inputs.Pointer("f4", 1000, "dyadic"), inputs.Pointer("f4", 1000, "real")
    numbers = (inputs.Number(np.float32(3)), inputs.Number(np.int32(990)))
    counts = (inputs.Pointer("i4", 1, "zero"), inputs.Pointer("i4", 512, "100"))
    cases = (
        manifest.Case(REPOSITORY, "src/all.cu", "scale", Grid((8, 1, 1), (128, 1, 1)), (x, y, *numbers)),
        manifest.Case(REPOSITORY, "src/all.cu", "missing", Grid((1, 1, 1), (32, 1, 1)), counts[:1]),
        manifest.Case(REPOSITORY, "src/all.cu", "total<128>", Grid((4, 1, 1), (128, 1, 1)), counts),
    )
    manifest.save(sources / "manifest.json", manifest.Manifest({REPOSITORY: commit}, cases))
    url = f"file://{origin.parent.parent}/{{}}"
    assert fetch.fetch({REPOSITORY: commit}, sources, url) == []
    assert fetch.fetch({REPOSITORY: commit}, sources, "file:///nowhere/{}") == [], "fetched once"
    assert "git fetch" in fetch.fetch({"someone/else": commit}, sources, url)[0]
    return sources


def test_a_launch_is_a_line_of_the_manifest(sources: Path) -> None:
    read = manifest.load(sources / "manifest.json")
    manifest.save(sources / "again.json", read)
    assert (sources / "again.json").read_text() == (sources / "manifest.json").read_text()
    assert [case.kernel for case in read.cases] == ["scale", "missing", "total"]


@pytest.mark.parametrize("text", ["*f4:8:dyadic", "*f8:8:real", "*i4:9:zero", "*u1:9:256", "*i4:9:rise/4", "*u2:4:bf16",
                                  "=i4:-7", "=f4:0.5", "=raw:00ff"])  # fmt: skip
def test_inputs_are_what_their_words_say(text: str) -> None:
    argument = inputs.parse(text)
    assert str(argument) == text
    if isinstance(argument, inputs.Pointer):
        assert argument.values(3).shape == (argument.count,)
        assert (argument.values(3).view("u1") == argument.values(3).view("u1")).all()


def test_the_data_is_the_same_everywhere() -> None:
    assert inputs.digest(inputs.parse("*f4:1000:dyadic").values(1)) == "09de0be5d0f4d166"


def test_every_kernel_has_its_verdict(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, launches, gpu = tmp_path / "results.jsonl", tmp_path / "launches", tmp_path / "gpu"
    head = ["--sources", str(sources)]
    listed = str(sources / "manifest.json")
    assert command.main([*head, "run", listed, str(results), "--write-launches", str(launches)]) == 0
    rows = table.read(results)
    assert [row["status"] for row in rows.values()] == ["ran", "refused", "ran"]
    first = next(iter(rows.values()))
    assert first["changed"] > 990
    assert not table.errors(first)

    # A GPU that answers one kernel with the same bits and the other with a wrong sum.
    carried = json.loads((launches / "launches.json").read_text())
    assert [row["kernel"][:3] for row in carried] == ["_Z5", "_Z5"]
    assert all((launches / row["cubin"]).exists() for row in carried)
    gpu.mkdir()
    other = ["other", carried[1]["expected"][1]]
    answers = [{"name": carried[0]["name"], "digests": first["digests"], "steady": True},
               {"name": carried[1]["name"], "digests": other, "steady": True}]  # fmt: skip
    (gpu / "results.jsonl").write_text("\n".join(map(json.dumps, answers)))
    wrong = np.array([12345], np.int32).view(np.uint8)
    np.savez_compressed(gpu / "kept_1.npz", **launcher.changes(carried[1], [wrong, np.zeros(2048, np.uint8)]))
    launcher.pack(launches, gpu)
    assert command.main([*head, "compare", listed, str(results), str(gpu)]) == 0
    plain = tmp_path / "plain.jsonl"
    assert command.main([*head, "run", listed, str(plain), "--plain"]) == 0
    capsys.readouterr()
    assert command.main([*head, "table", str(results), "--gpu", str(gpu), "--other", str(plain)]) == 1
    said = capsys.readouterr().out
    assert "on the GPU 12345" in said
    assert "no kernel is called missing" in said
    assert "2 of 2 kernels have the same bits" in said


def test_rounding_is_told_from_wrong() -> None:
    case = manifest.Case("a/b", "c.cu", "d", Grid((1, 1, 1), (1, 1, 1)), (inputs.Pointer("f4", 4, "zero"),))
    ours = np.array([1.0, 2.0, np.nan, -0.0], np.float32)
    for theirs, explained in (([1.000001, 2.0, np.nan, 0.0], True), ([1.0, 2.01, np.nan, 0.0], False)):
        changed = {0: np.array(theirs, np.float32).view(np.uint8)}
        (found,) = compare.differences(case, (ours,), changed)
        assert found.elements == 1
        assert found.explained == explained
    assert not compare.differences(case, (ours,), {0: ours.view(np.uint8)})


def test_launches_are_guessed_from_the_host_code(sources: Path) -> None:
    root = manifest.folder_of(sources, REPOSITORY)
    found = {row["kernel"]: row for row in search.search(REPOSITORY, root, set())}
    assert [row["status"] for row in found.values()] == ["clean", "clean"]
    case = manifest.read(found["total"]["row"])
    assert (case.entry, case.shape.block) == ("total<128>", (128, 1, 1))
    assert [str(a)[:4] for a in manifest.read(found["scale"]["row"]).arguments] == ["*f4:", "*f4:", "=f4:", "=i4:"]
    assert len(list(runner.run([case], sources))) == 1


LIST = """
[repositories]
"someone/kernels" = "0123"
[[kernel]]
repository = "someone/kernels"
name = "scale"
file = "src/all.cu"
entry = "scale"
grid = [8]
block = [128]
args = "x=out f32[1000],y=f32[1000],factor=2,n=1000"
expect = "x = 2 * y"
shape = "1,000"
[[kernel]]
repository = "someone/kernels"
name = "totals"
file = "src/all.cu"
entry = "totals<128>"
grid = [4]
block = [128]
args = "out=inout zeros i32[1],given=i32[512]"
values = {given = "np.arange(512)"}
expect = "out = given.sum()"
"""


def test_launches_beside_numpy_are_a_list(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launches, results, written = (tmp_path / name for name in ("launches.toml", "results.json", "list.md"))
    monkeypatch.setattr(hopper, "LIST", written)
    command = [str(launches), str(results), "--sources", str(sources)]
    launches.write_text(LIST)
    assert hopper.main([*command, "--launches", str(tmp_path)]) == 0
    (stored,) = tmp_path.glob("*.pickle")
    launch = pickle.loads(gzip.decompress(stored.read_bytes()))
    assert launch["name"] == "someone/kernels: scale"
    assert launch["cubin"].startswith(b"\x7fELF")
    assert hopper.main([*command, "--write"]) == 0
    text = written.read_text()
    assert "| someone/kernels | 0123 |" in text
    assert "| someone/kernels | scale | 1,000 | 0 | not measured | none | not measured |" in text
    assert "| someone/kernels | totals | all.cu:" in text
    assert "no kernel is called totals" in text
    counters = json.loads(results.read_text())["someone/kernels: scale"]["counters"]
    name = next(iter(counters))
    counters[name] += 1
    measured = tmp_path / "measured.json"
    measured.write_text(json.dumps({"someone/kernels: scale": {"equal": True, "counters": counters}}))
    assert hopper.main([*command, "--write", str(measured)]) == 0
    of = len(counters)
    assert (
        f"| equal | none | {of - 1} of {of} equal; not marked: {hopper.SHORT[name].replace('_', ' ')} |"
        in written.read_text()
    )
    launches.write_text(LIST.replace("2 * y", "4 * y").replace("totals<", "total<"))
    assert hopper.main(command) == 1
    found = json.loads(results.read_text())
    assert [(row["right"], round(row["error"], 2)) for row in found.values()] == [(False, 0.5), (True, 0)]
