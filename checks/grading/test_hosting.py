"""Files that make other systems grade: whole, without anything left to fill in, and Gradescope's at work."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from io import StringIO
from pathlib import Path

import pytest

from checks.grading import gradescope
from checks.grading.test_formats import check
from gemm_lessons import __version__
from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.grading.hosting import HOST, smallest_container, write_host
from gemm_lessons.grading.needs import Total, load_needs, total_of
from gemm_lessons.grading.rubric import load_rubric

COURSE = packaged_course()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    for kind in HOST:
        write_host(kind, folder / kind, "02-03")
    return folder


@pytest.mark.parametrize("kind", HOST)
def test_nothing_is_left_to_fill_in(hosts: Path, kind: str) -> None:
    files = [path for path in (hosts / kind).rglob("*") if path.is_file()]
    texts = {path.name: path.read_text() for path in files if path.suffix not in (".whl", ".zip")}
    assert not {name: found for name, text in texts.items() if (found := re.findall(r"@[A-Z]+@", text))}
    assert any("02-03" in text for text in texts.values())
    assert f"gemm_lessons-{__version__}-py3-none-any.whl" in {path.name for path in files}
    (config,) = (path for path in files if path.name == "grading.toml")
    rubric = load_rubric(config, COURSE)
    assert (rubric.seed is None) == (kind == "github"), "students can read that one"
    assert (rubric.seconds, rubric.memory_gib) == (60, 2)
    own = {name: (it.seconds, it.memory_gib) for name, it in rubric.by_lesson.items() if it.seconds}
    needs = {name: load_needs()[name[3:]] for name in ("02_coalesced", "03_block_tile")}
    limits = {name: (need.limit_seconds, need.limit_gib) for name, need in needs.items()}
    assert own == (limits if kind == "gradescope" else {})
    for path in files:
        if path.suffix == ".sh" or path.name == "run_autograder":
            assert os.access(path, os.X_OK) or path.name == "setup.sh"
            subprocess.run(["bash", "-n", path], check=True)
        elif path.suffix == ".py":
            compile(path.read_text(), path, "exec")


def test_every_reference_keeps_its_limits() -> None:
    """By the measurements that ``python -m checks.grading.needs`` stores, with room for slower and larger kernels."""
    needs = load_needs()
    assert set(needs) == {name[3:] for name in COURSE.names}
    for name, need in needs.items():
        assert need.limit_seconds >= 3 * need.seconds, name
        assert need.limit_gib * 1024 >= 1.4 * need.memory_mib, name
        assert need.limit_gib >= 0.25


@pytest.mark.parametrize(
    ("memory_mib", "seconds", "container"),
    [
        (700, 200, (0.5, 0.75, 10)),
        (700, 400, (0.5, 0.75, 20)),
        (800, 200, (1, 1.5, 10)),
        (1400, 2300, (1, 1.5, 40)),
        (4000, 60, (4, 6, 10)),
        (9000, 9000, (4, 6, 40)),
    ],
)
def test_the_smallest_container_that_is_enough(
    memory_mib: int, seconds: float, container: tuple[float, float, int]
) -> None:
    assert smallest_container(Total(0, 0, memory_mib, seconds)) == container


def test_the_readme_is_about_the_lessons_that_were_asked_for(tmp_path: Path) -> None:
    said = {}
    for lessons in ("00", "10"):
        write_host("gradescope", tmp_path / lessons, lessons)
        said[lessons] = " ".join((tmp_path / lessons / "README.md").read_text().split())
        assert f"for lessons {lessons}" in said[lessons]
    total = total_of(["10_any_shape"])
    assert f"up to {total.memory_mib} MiB of memory" in said["10"]
    assert "(768 MB, half a CPU, 10 minutes) is enough" in said["00"]
    assert "is too small: choose " in said["10"]
    own = tmp_path / "mine.toml"
    own.write_text("[limits]\nmemory_gib = 4\n")
    write_host("gradescope", tmp_path / "own", "10", own)
    assert "those of your own" in (tmp_path / "own" / "README.md").read_text()


def test_two_classes_have_two_seeds(hosts: Path, tmp_path: Path) -> None:
    write_host("laptop", tmp_path / "other", "02-03")
    ours, theirs = ((folder / "grading.toml").read_text() for folder in (hosts / "laptop", tmp_path / "other"))
    assert ours != theirs


def test_a_workflow_s_commands_have_no_words_of_students(hosts: Path) -> None:
    """``${{ }}`` in a command is text of the command: a branch's name would run."""
    workflow = (hosts / "github/.github/workflows/grade.yml").read_text()
    commands = re.findall(r"run: (?:>-\n(?:\s{10,}.*\n)+|.*\n)", workflow)
    assert len(commands) == 2
    assert not [it for it in commands if "${{" in it]
    reader = "GRADE_RESULTS: ${{ steps.grade.outputs.result }}"  # the reporter reads ID_RESULTS of its runners
    assert reader in workflow
    assert "runners: grade\n" in workflow


def test_what_is_there_stays(hosts: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="already exists"):
        write_host("laptop", hosts / "laptop", "02")
    with pytest.raises(CommandError, match="gradescope, github, classroom50, laptop, slurm, kubernetes"):
        write_host("canvas", tmp_path / "x", "02")
    with pytest.raises(CommandError, match="names no lessons"):
        write_host("laptop", tmp_path / "x", "02'; rm -rf /")
    assert not list(tmp_path.iterdir())


def test_the_wheel_is_one(hosts: Path) -> None:
    wheels = [path.read_bytes() for path in hosts.rglob("*.whl")]
    assert len(wheels) == len(HOST)
    assert len(set(wheels)) == 1, "the same files, the same wheel"
    with zipfile.ZipFile(next(hosts.rglob("*.whl"))) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(StringIO(archive.read(record).decode())))
        assert {row[0] for row in rows} == names
        for name, digest, size in rows:
            data = archive.read(name)
            if name != record:
                ours = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={ours}", str(len(data)))
        metadata = archive.read(record.replace("RECORD", "METADATA")).decode()
    assert {f"gemm_lessons/lessons/{name}/solution.cu" for name in COURSE.names} <= names
    assert "gemm_lessons/grading/hosts/gradescope/setup.sh" in names, "the copy can make the next one"
    assert not [name for name in names if "__pycache__" in name or "kernel.cu" in name or "/." in name]
    assert "Requires-Dist: numpy" in metadata


def link_dependencies(folder: Path) -> None:
    """What the kit needs, from here: links to the files, or copies on another disk."""
    here, names, seen = Path(sysconfig.get_path("purelib")), ["gemm-lessons"], set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another Python
        wanted = (it for it in found.requires or () if "extra ==" not in it)
        names += [re.split(r"[^\w.-]", it, maxsplit=1)[0].lower() for it in wanted]
        for file in found.files or () if name != "gemm-lessons" else ():
            source, target = here / file, folder / file
            if ".." not in file.parts and source.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source, target)
                except OSError:
                    shutil.copy(source, target)


@pytest.mark.slow
def test_gradescope_from_scratch(tmp_path: Path) -> None:
    """With what the tests' environment has, instead of the same from PyPI; with the lesson that is judged soonest."""
    root = tmp_path / "autograder"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    link_dependencies(root / "venv" / "lib" / python / "site-packages")
    gradescope.build(root, "00,03", {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"})
    solution = (COURSE.lessons_dir / COURSE.resolve("first_kernel") / "solution.cu").read_text() + "// mine\n"
    files = {"00.cu": solution, "03.cu": "this is no kernel \x1b[31m"}
    results, printed, peak, _ = gradescope.submit(root, files, {})
    check("gradescope", results)
    assert "submission" in printed
    assert peak is None or peak < 400, "MiB of 768"
    points = {lesson: sum(it["score"] for it in results["tests"] if it["tags"] == [lesson]) for lesson in COURSE.names}
    assert (points["00_first_kernel"], points["03_block_tile"], results["score"]) == (10, 0, 10)
    assert results["stdout_visibility"] == "hidden"
    again = gradescope.submit(root, files, {})[0]
    assert again["tests"] == results["tests"], "the same submission, the same grade"
    (root / "venv/bin/gemm-lessons").write_text("#!/bin/sh\nexit 3\n")
    broken = gradescope.submit(root, files, {})[0]
    check("gradescope", broken)
    assert "no fault of yours" in broken["output"]


def script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
def test_parts_of_a_cluster_are_all_of_the_class(hosts: Path, tmp_path: Path, kind: str) -> None:
    """The commands that each part and the merge run, as the cluster starts them."""
    folder = tmp_path / "class"
    shutil.copytree(hosts / kind, folder)
    (folder / "venv/bin").mkdir(parents=True)
    script(folder / "venv/bin/gemm-lessons", 'echo "$@" >> log')
    base = {"PATH": os.environ["PATH"]}
    for part in (1, 2, 8):
        if kind == "slurm":
            command: list[str] = ["bash", str(folder / "grade.sbatch")]
            array = {"SLURM_ARRAY_TASK_ID": str(part), "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_CPUS_PER_TASK": "2"}
            more = {"SLURM_SUBMIT_DIR": str(folder), **array}
        else:
            spec = json.loads((folder / "grade.json").read_text())["spec"]
            (container,) = spec["template"]["spec"]["containers"]
            command = [it.replace("/class/", f"{folder}/") for it in container["command"]]
            assert spec["completions"] == spec["parallelism"] == 8
            more = {"JOB_COMPLETION_INDEX": str(part - 1)}
        subprocess.run(command, env={**base, **more}, cwd=tmp_path, check=True)
        (folder / f"shard-{part}").mkdir()
    subprocess.run([folder / "shard.sh", "merge"], env=base, cwd=tmp_path, check=True)
    options = "grade submissions --lessons 02-03 --config grading.toml"
    parts = [f"{options} --shard {part}/8 --out shard-{part} --processes 2" for part in (1, 2, 8)]
    assert (folder / "log").read_text().splitlines() == [*parts, "grade merge shard-1 shard-2 shard-8 --out grades"]
    usage = subprocess.run([folder / "shard.sh", "3"], env=base, capture_output=True, text=True, check=False)
    assert (usage.returncode, usage.stderr.split()[:3]) == (2, ["./shard.sh", "I", "N"])


@pytest.mark.parametrize("image", ["22.04", "24.04 without venv", "24.04"])
def test_setup_finds_a_python_or_gets_one(hosts: Path, tmp_path: Path, image: str) -> None:
    """On machines that have nothing but what stands here: what is asked of apt-get, and which Python makes the venv."""
    programs, log, root = tmp_path / "bin", tmp_path / "log", tmp_path / "autograder"
    programs.mkdir()
    for name in ("bash", "mkdir", "cp", "chmod", "sh"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    good = tmp_path / "good"
    tool = f'#!/bin/sh\\necho "$(basename $0) $*" >> {log}\\n'
    script(
        good,
        '[ "$1" = -m ] || exit 0',
        f'echo "${{0##*/}} $*" >> {log}',
        'mkdir -p "$3/bin"',
        *(f'printf \'{tool}\' > "$3/bin/{name}"; chmod +x "$3/bin/{name}"' for name in ("pip", "gemm-lessons")),
    )
    script(programs / "python3", "exit 1")
    has_venv = {"22.04": "python3.11", "24.04 without venv": "python3", "24.04": "python3"}[image]
    wanted = "python3.11-venv" if image == "22.04" else "python3-venv"
    # The package of this name makes the Python usable; others change nothing.
    script(
        programs / "apt-get",
        f'echo "apt-get $*" >> {log}',
        f'case " $* " in *" {wanted} "*) cp {good} {programs / has_venv};; esac',
    )
    if image == "24.04":
        shutil.copy(good, programs / "python3")
    shutil.copytree(hosts / "gradescope", root / "source")
    environment = {"PATH": str(programs), "AUTOGRADER": str(root)}
    subprocess.run(["bash", root / "source" / "setup.sh"], env=environment, check=True, timeout=60)
    lines = log.read_text().splitlines()
    assert f"{has_venv} -m venv {root}/venv" in lines
    asked = [line.split()[-1] for line in lines if line.startswith("apt-get")]
    assert asked == {"24.04": [], "24.04 without venv": ["update", "python3-venv"]}.get(
        image, ["update", "python3-venv", "python3.11-venv"]
    )
    assert (root / "source").stat().st_mode & 0o077 == 0, "points and hidden shapes are nobody else's"
