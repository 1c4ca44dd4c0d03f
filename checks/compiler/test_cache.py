"""A compilation comes from the disk only when nothing that it depends on has changed, and the disk may fail."""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.compiling import must_compile
from checks.forks import ROOT
from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import files_read, nvrtc, nvrtc_child, sass
from gemm_lessons.engine.compiler import source as cuda_source
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source

SOURCE = '#include "scale.cuh"\n__global__ void gemm(float *x)\n{\n    x[0] == 1;\n    x[0] = scale(x[1]) * BM;\n}\n'
HEADER = "__device__ float scale(float x) { return 2 * x; }\n"


class Counting:
    """The real compiler, with a count of its calls."""

    def __init__(self):
        self.calls, self.version = 0, None

    def translate(self, *arguments):
        self.calls += 1
        answer = TRANSLATE(*arguments)
        assert isinstance(answer, tuple)
        result, version = answer
        return result, self.version or version


TRANSLATE = nvrtc_child.translate


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gemm-lessons"


@pytest.fixture
def compiler(monkeypatch):
    counting = Counting()
    monkeypatch.setattr(nvrtc_child, "translate", counting.translate)
    return counting


@pytest.fixture
def disassembled(monkeypatch):
    """The cubins that are disassembled, which happens as usual."""
    seen, real = [], sass._disassembled

    def disassemble(program, cubin):
        seen.append(cubin)
        return real(program, cubin)

    monkeypatch.setattr(sass, "_disassembled", disassemble)
    return seen


@pytest.fixture
def build(tmp_path):
    (tmp_path / "scale.cuh").write_text(HEADER)

    def compile_it(source=SOURCE, **changed) -> Compiled:
        settings = {"path": "kernel.cu", "entry": "gemm", "defines": {"BM": 4}, "include_dirs": [tmp_path]} | changed
        return must_compile(source, **settings)

    return compile_it


def test_the_second_time_is_from_the_disk_and_equal(folder, compiler, build):
    first = build()
    second = build()
    assert compiler.calls == 1
    assert second == first
    assert second.diagnostics[0].line == 4
    assert second.sass == first.sass
    assert second.shared_layout == first.shared_layout


TWO = """#include "scale.cuh"
extern "C" __global__ void gemm(float *x) { __shared__ float s[8]; s[threadIdx.x] = x[1]; x[0] = scale(s[0]) * BM; }
extern "C" __global__ void combine(float *x) { x[2] = scale(x[3]); }
__global__ void mangled(float *x) { x[4] = 1; }
"""


def test_runs_in_other_folders_call_the_file_otherwise(folder, compiler, build, tmp_path, monkeypatch):
    whole = build(path=str(tmp_path / 'a"b.cu'))
    monkeypatch.chdir(tmp_path)
    short = build(path='a"b.cu')
    assert compiler.calls == 1
    assert short.ptx != whole.ptx
    folder.rename(tmp_path / "cleared")
    assert build(path='a"b.cu') == short
    assert compiler.calls == 2
    assert (short.path, short.diagnostics[0].file) == ('a"b.cu', 'a"b.cu')


def test_kernels_of_one_program_are_compiled_and_disassembled_once(folder, compiler, build, tmp_path, disassembled):
    first, second = build(TWO), build(TWO, entry="combine")
    assert compiler.calls == 1
    first.start_sass()
    second.start_sass([first])
    assert {it.opcode for it in second.sass} != {it.opcode for it in first.sass}
    assert len(disassembled) == 1
    build(TWO, entry="mangled")
    assert compiler.calls == 2, "its name is for the compiler to say"
    alone = build(TWO.replace("x[4] = 1", "x[4] = 2"), entry="combine")
    assert compiler.calls == 3
    assert (alone.resources, alone.shared_layout) == (second.resources, second.shared_layout) != (
        first.resources, first.shared_layout
    )  # fmt: skip
    (tmp_path / "scale.cuh").write_text(HEADER.replace("2", "3"))
    assert build(TWO, entry="combine").ptx != second.ptx, "what it includes has changed"


def test_a_hit_needs_no_compiler_at_all(folder, build, tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    script = (
        "import sys; from pathlib import Path; from gemm_lessons.engine.compiler.compile import compile_source\n"
        "source = Path('k.cu').read_text()\n"
        "result = compile_source(source, path='k.cu', entry='gemm', defines={'BM': 4}, include_dirs=[Path('.')])\n"
        "result.sass\n"
        "from gemm_lessons.engine.compiler import nvrtc_child\n"
        "print(result.entry, len(nvrtc_child._children), 'cuda.bindings' in sys.modules, 'numpy' in sys.modules)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0].split() == ["_Z4gemmPf", "1", "False", "False"]
    assert runs[1].split() == ["_Z4gemmPf", "0", "False", "False"]


@pytest.mark.parametrize(
    "changed",
    [
        {"source": SOURCE + "\n"},
        {"defines": {"BM": 8}},
        {"defines": {"BM": 4, "BN": 4}},
        {"path": "other.cu"},
        {"arch": "sm_80"},
        {"options": ["--maxrregcount=32"]},
    ],
    ids=["source", "define", "one more define", "path", "arch", "option"],
)
def test_whatever_changes_the_result_is_compiled_anew(folder, compiler, build, changed):
    build()
    build(**changed)
    assert compiler.calls == 2
    build(**changed)
    assert compiler.calls == 2


def test_another_entry_of_the_same_file(folder, compiler, build):
    source = "__global__ void a(int *x) { x[0] = 1; } __global__ void b(int *x) { x[0] = 2; }"
    assert build(source, entry="a").entry == "_Z1aPi"
    assert build(source, entry="b").entry == "_Z1bPi"


def test_a_changed_include_is_noticed(folder, compiler, build, tmp_path):
    before = build()
    (tmp_path / "scale.cuh").write_text(HEADER.replace("2", "3"))
    after = build()
    assert compiler.calls == 2
    assert before.ptx != after.ptx


def test_an_include_that_changes_while_the_compiler_runs_leaves_nothing_behind(
    folder, compiler, build, tmp_path, monkeypatch
):
    def meanwhile(*arguments):
        (tmp_path / "scale.cuh").write_text(HEADER.replace("2", "3"))
        return compiler.translate(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(nvrtc_child, "translate", meanwhile)
        changed = build()
    (tmp_path / "scale.cuh").write_text(HEADER)
    assert build().ptx != changed.ptx
    assert compiler.calls == 2


def test_a_changed_include_of_an_include_is_noticed(folder, compiler, build, tmp_path):
    (tmp_path / "scale.cuh").write_text('#include "deeper.h"\n' + HEADER.replace("2", "FACTOR"))
    (tmp_path / "deeper.h").write_text("#define FACTOR 5\n")
    build()
    (tmp_path / "deeper.h").write_text("#define FACTOR 6\n")
    assert "0f40C00000" in build().ptx  # 6.0f
    assert compiler.calls == 2


def test_a_file_that_comes_to_stand_in_front_is_noticed(folder, compiler, build, tmp_path):
    nearer = tmp_path / "nearer"
    nearer.mkdir()
    build(include_dirs=[nearer, tmp_path])
    (nearer / "scale.cuh").write_text(HEADER.replace("2", "7"))
    assert "0f40E00000" in build(include_dirs=[nearer, tmp_path]).ptx  # 7.0f
    assert compiler.calls == 2


HIDDEN = [
    '#define WHICH "scale.cuh"\n#include WHICH',
    "#define IN(name) <name>\n#include IN(scale.cuh)",
    '#if __has_include("scale.cuh")\n#endif\n#include "scale.cuh"',
    '/* */ #include "scale.cuh"',
]


@pytest.mark.parametrize("line", HIDDEN)
def test_includes_that_cannot_be_read_off_the_text_are_known_from_the_compiler(
    folder, compiler, build, tmp_path, line, monkeypatch
):
    monkeypatch.setattr(files_read, "is_older", lambda *_: True)  # else the test would have to wait
    source = SOURCE.replace('#include "scale.cuh"', line)
    nearer = tmp_path / "nearer"
    nearer.mkdir()
    first = build(source, include_dirs=[nearer, tmp_path])
    assert build(source, include_dirs=[nearer, tmp_path]).cubin == first.cubin
    assert compiler.calls == 1
    (tmp_path / "scale.cuh").write_text(HEADER.replace("2", "5"))
    assert "0f40A00000" in build(source, include_dirs=[nearer, tmp_path]).ptx  # 5.0f
    (nearer / "scale.cuh").write_text(HEADER.replace("2", "7"))
    assert "0f40E00000" in build(source, include_dirs=[nearer, tmp_path]).ptx  # 7.0f
    assert compiler.calls == 3


def test_a_hidden_include_that_is_new_is_not_trusted(folder, compiler, build, tmp_path):
    """It may have changed while the compiler ran."""
    source = SOURCE.replace('#include "scale.cuh"', HIDDEN[0])
    future = time.time() + 100
    os.utime(tmp_path / "scale.cuh", (future, future))
    build(source)
    build(source)
    assert compiler.calls == 2


def test_an_include_in_a_comment_is_harmless(folder, compiler, build):
    source = '// this file does not include much\n/* #include "nowhere.h" */\n' + SOURCE
    build(source)
    build(source)
    assert compiler.calls == 1


def _compilations(folder: Path) -> list[Path]:
    """Without the hashes of NVRTC's libraries."""
    return [path for path in folder.iterdir() if path.stat().st_size > 1000]


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["emptied", "overwritten", "one bit"])
def test_a_damaged_entry_is_compiled_anew_and_repaired(folder, compiler, build, damage):
    first = build()
    (entry,) = _compilations(folder)
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(bytes(data) if damage is None else damage)
    assert build() == first
    assert compiler.calls == 2
    assert build() == first
    assert compiler.calls == 2


def test_an_entry_of_an_earlier_version_is_none(folder):
    """It was not compressed; some keys are the same."""
    compile_cache.put("a", b"new")
    (folder / "a").write_bytes(hashlib.sha256(b"old").digest() + b"old")
    assert compile_cache.get("a") is None


def test_a_damaged_disassembly_is_done_again(folder, compiler, build):
    first = build()
    expected = first.sass
    for entry in folder.iterdir():
        entry.write_bytes(b"junk")
    assert build().sass == expected


def test_a_folder_that_cannot_be_made_is_no_cache(compiler, build, monkeypatch, tmp_path):
    # A file where the folder should be: this also holds for root, who may write into read-only folders.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert build() == build()
    assert compiler.calls == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_no_cache(folder, compiler, build):
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    assert build() == build()
    assert compiler.calls == 2
    assert list(folder.iterdir()) == []


def test_a_disk_that_is_full_leaves_nothing_behind(folder, compiler, build, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    build()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("value", ["1", "yes"])
def test_it_can_be_switched_off(folder, compiler, build, monkeypatch, value):
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", value)
    build()
    build()
    assert compiler.calls == 2
    assert not folder.exists()


def test_failures_are_not_kept(folder, compiler, build):
    for _ in range(2):
        assert isinstance(compile_source("oops", path="k.cu", entry="gemm"), NotCompiled)
    assert compiler.calls == 2


def test_a_nvrtc_that_is_not_the_one_of_the_key_stores_nothing(folder, compiler, build):
    compiler.version = (13, 99)
    build()
    assert not folder.exists()


def test_the_size_is_bounded_and_the_least_recently_used_goes_first(folder, monkeypatch):
    """In bytes: a large entry takes the place of several small ones."""
    monkeypatch.setattr(compile_cache, "LOOKS", 1)
    monkeypatch.setattr(compile_cache, "BYTES", 12 << 10)
    for age, key in enumerate("abc"):
        compile_cache.put(key, key.encode())
        os.utime(folder / key, (1000 + age, 1000 + age))
    assert sorted(p.name for p in folder.iterdir()) == ["a", "b", "c"]
    assert compile_cache.get("a") == b"a"  # used: now the youngest
    compile_cache.put("d", b"d")
    assert sorted(p.name for p in folder.iterdir()) == ["a", "d"], "a tenth less than what is allowed"
    os.utime(folder / "a", (1000, 1000))
    compile_cache.put("e", random.Random(1).randbytes(6 << 10))
    assert sorted(p.name for p in folder.iterdir()) == ["e"]


def test_one_new_entry_of_many_measures_the_folder(folder, monkeypatch):
    looks: list[Path] = []
    monkeypatch.setattr(compile_cache, "_trim", looks.append)
    keys = [compile_cache.key_of(str(number)) for number in range(20 * compile_cache.LOOKS)]
    for key in keys:
        compile_cache.put(key, b"")
    assert 10 < len(looks) < 40
    looks.clear()
    key = next(it for it in keys if it > "1")
    monkeypatch.setattr(compile_cache, "BYTES", compile_cache.LOOKS << 10)
    compile_cache.put(key, random.Random(1).randbytes(2 << 10))
    assert len(looks) == 1, "a large one does at once"


def test_many_processes_write_and_trim_at_once(folder, monkeypatch):
    """A concurrent reader finds a whole entry or none."""
    script = (
        "import random, sys\nfrom gemm_lessons.engine.compiler import cache\ncache.BYTES, cache.LOOKS = 64 << 10, 4\n"
        "draw = random.Random(int(sys.argv[1]))\n"
        "for _ in range(400):\n"
        "    number = draw.randrange(40)\n"
        "    key, data = cache.key_of(str(number)), random.Random(number).randbytes(8000)\n"
        "    assert cache.get(key) in (None, data)\n"
        "    cache.put(key, data)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(seed)], cwd=ROOT) for seed in range(4)]
    assert [it.wait(60) for it in writers] == [0, 0, 0, 0]
    names = [path.name for path in folder.iterdir()]
    assert names
    assert not [name for name in names if name.startswith(".")]


def test_an_identity_is_the_content_and_is_remembered(folder, monkeypatch, tmp_path):
    here, there = tmp_path / "here.so", tmp_path / "there.so"
    for file in (here, there):
        file.write_bytes(b"library")
    os.utime(there, (1000, 1000))
    assert compile_cache.identity(here) == compile_cache.identity(there)
    compile_cache._identity.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)
        first = compile_cache.identity(here)  # another process, without a look into the file
    for damaged in folder.iterdir():
        damaged.write_bytes(b"junk")
    compile_cache._identity.cache_clear()
    assert compile_cache.identity(here) == first
    here.write_bytes(b"another")
    assert compile_cache.identity(here) != first


ELSEWHERE = """
import hashlib, sys
from pathlib import Path
from gemm_lessons.engine.compiler import cache, nvrtc, nvrtc_child, sass
from gemm_lessons.engine.compiler.compile import compile_source
started = []
real = sass._disassembled
sass._disassembled = lambda *arguments: started.append(1) or real(*arguments)
home = Path(sys.argv[1])
file = home / "kernel.cu"
made = compile_source(file.read_text(), path=str(file), entry="gemm", defines={"BM": 4}, include_dirs=[home])
its = repr((made, made.sass))
print(nvrtc.library(13), nvrtc.disassembler(), nvrtc.include_folders(13)[0], cache.__file__)
print(len(nvrtc_child._children), len(started), hashlib.sha256(its.encode()).hexdigest())
"""


def test_another_clone_with_another_environment_finds_what_is_there(folder, tmp_path):
    """The kernel, its headers, the kit's and CUDA's, NVRTC and nvdisasm lie elsewhere and were installed later. What
    comes from the disk is what the compiler there makes."""
    first, clone = tmp_path / "first", tmp_path / "another" / "clone"
    first.mkdir()
    (first / "gemm_lessons").symlink_to(ROOT / "gemm_lessons")
    (first / "nvidia").symlink_to(nvrtc.wheel_folders()[0])
    shutil.copytree(ROOT / "gemm_lessons", clone / "gemm_lessons")
    library, program = nvrtc.library(13), nvrtc.disassembler()
    assert library is not None
    assert program is not None
    originals = (nvrtc.include_folders(13)[0], *nvrtc.library_files(library), program)
    for original, place in zip(originals, ("", "lib", "lib", "bin"), strict=True):
        copy = clone / "nvidia" / "cu13" / place / original.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if original.is_dir() else shutil.copyfile)(original, copy)
        copy.chmod(0o755)
    for home in (first / "kernels", clone / "my" / "own"):
        home.mkdir(parents=True, exist_ok=True)
        (home / "scale.cuh").write_text(HEADER)
        source = SOURCE.replace("BM;", "BM + __FILE__[0] + float(__half(x[2]));")
        (home / "kernel.cu").write_text(f"#include <cuda_fp16.h>\n#include <assert.h>\n{source}")

    def run(place: Path, home: Path, without: str = "0") -> tuple[list[str], list[str]]:
        environment = {**os.environ, "PYTHONPATH": str(place), "GEMM_LESSONS_NO_CACHE": without}
        command = [sys.executable, "-P", "-c", ELSEWHERE, str(home)]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        used, result = (line.split() for line in out.splitlines())
        return used, result

    assert run(first, first / "kernels")[1][:2] == ["1", "1"]
    used, there = run(clone, home)
    assert all(path.startswith(f"{clone}/") for path in used)
    assert there[:2] == ["0", "0"]
    assert run(clone, home, "1")[1] == ["1", "1", there[2]]
    deep = clone / "nvidia" / "cu13" / "include" / "vector_types.h"  # cuda_fp16.h includes it
    deep.write_text(deep.read_text() + "\n")
    assert run(clone, home)[1] == ["1", "0", there[2]]
    with open(clone / "nvidia" / "cu13" / "lib" / library.name, "ab") as file:
        file.write(b"another build")
    assert run(clone, home)[1][0] == "1"


def test_keys_do_not_run_together():
    assert compile_cache.key_of("ab", "c") != compile_cache.key_of("a", "bc")
    assert compile_cache.key_of("a", "") != compile_cache.key_of("a")


def test_a_relative_cache_home_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compile_cache.folder() == tmp_path / ".cache" / "gemm-lessons"


def test_the_disassembly_is_kept_too(folder, build, monkeypatch):
    it = build()
    first = it.sass

    def gone(*_, **__):
        raise AssertionError("nvdisasm was run again")

    monkeypatch.setattr("gemm_lessons.engine.compiler.sass.subprocess.run", gone)
    assert build().sass == first


@pytest.mark.parametrize("moved", ["", "über ", 'quo"te'])
def test_the_same_code_of_another_folder_is_disassembled_once_and_names_its_own_files(
    folder, build, disassembled, tmp_path, moved
):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "scale.cuh").write_text(HEADER)
    first = build(path=str(tmp_path / "kernel.cu"))
    there = tmp_path / "deeper" / f"{moved}k.cu"
    second = build(path=str(there), include_dirs=[tmp_path / "deeper"])
    places = [{(it.file, it.line) for it in made.sass} for made in (first, second)]
    assert {file for file, _ in places[1]} == {str(there), str(tmp_path / "deeper" / "scale.cuh")}
    assert {file for file, _ in places[0]} == {str(tmp_path / "kernel.cu"), str(tmp_path / "scale.cuh")}
    assert sorted(line for _, line in places[0]) == sorted(line for _, line in places[1])
    assert [it.text for it in first.sass] == [it.text for it in second.sass]
    assert len(disassembled) == (2 if moved == "über " else 1), "names that are printed otherwise are left alone"


def test_other_lines_are_other_code(folder, build, disassembled):
    lines = [[it.line for it in build(source).sass] for source in (SOURCE, f"\n{SOURCE}")]
    assert lines[1] == [line + 1 if line != 1 else 1 for line in lines[0]]
    assert len(disassembled) == 2


def test_an_endless_chain_of_includes_is_given_up(tmp_path):
    for number in range(600):
        (tmp_path / f"{number}.h").write_text(f'#include "{number + 1}.h"\n')
    assert cuda_source.include_closure('#include "0.h"', tmp_path, [], []) is None


def test_an_empty_file_is_a_file_and_what_the_system_writes_is_none(tmp_path):
    (tmp_path / "empty.cuh").write_text("")
    assert cuda_source.content_of(tmp_path / "empty.cuh") == b""
    assert cuda_source.content_of(Path("/proc/self/status")) is None


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.h")
    assert cuda_source.include_closure('#include "pipe.h"', Path(tmp_path), [], []) == {}
