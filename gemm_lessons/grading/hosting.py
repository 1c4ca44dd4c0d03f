"""Write the files that let another system grade with this kit: Gradescope, GitHub, Classroom 50, a laptop, a cluster.

    write_host("gradescope", folder, ...)  -->  setup.sh, run_autograder, grading.toml, the kit's wheel, autograder.zip

The templates are in ``hosts/``; each ``@NAME@`` in them is replaced. Nothing else has to be written by hand.
"""

from __future__ import annotations

import re
import secrets
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from gemm_lessons.course import CommandError, ReadError, packaged_course, reading, shown, write_atomically, writing
from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.needs import Total, limits_toml, total_of
from gemm_lessons.grading.rubric import Rubric, parse_lessons
from gemm_lessons.grading.wheel import write_wheel, write_zip

HOSTS = Path(__file__).parent / "hosts"
GRADING = "grading.toml"
# Gradescope's containers (CPUs, GB) and its time limits; see "Container Specifications" and "Autograder Timeout" there.
CONTAINERS = ((0.5, 0.75), (1, 1.5), (2, 3), (4, 6))
MINUTES = (10, 20, 30, 40)
START_S = 30  # for the container and the kit to start
WIDTH = 110  # columns of a paragraph
OWN_LIMITS = (
    "The limits are those of your own `grading.toml`; the container must hold the largest of them and 0.5 GB more."
)
SEEDS = 1 << 31
PLAIN = re.compile(r"[\w ,.:-]+")  # no character that a shell interprets


@dataclass(frozen=True)
class Host:
    """Where the files of a system go: template -> path in the folder. ``tools`` holds the wheel and grading.toml.

    ``bounded``: the system has little memory and time, so each lesson has limits of its own, by measurement.
    """

    files: Mapping[str, str]
    tools: str = "."
    bounded: bool = False
    zipped: str = ""
    private: bool = True  # students cannot read grading.toml


HOST: Mapping[str, Host] = {
    "gradescope": Host(
        {"setup.sh": "setup.sh", "run_autograder": "run_autograder", "README.md": "README.md"},
        bounded=True, zipped="autograder.zip",
    ),
    "github": Host(
        {"grade.yml": ".github/workflows/grade.yml", "README.md": "README.md"}, tools=".github/grading", private=False
    ),
    "classroom50": Host({"autograder.py": "autograder.py", "README.md": "README.md"}),
    "laptop": Host({"grade.sh": "grade.sh", "README.md": "README.md"}),
    "slurm": Host({"grade.sbatch": "grade.sbatch", "../shards/shard.sh": "shard.sh", "README.md": "README.md"}),
    "kubernetes": Host({"grade.json": "grade.json", "../shards/shard.sh": "shard.sh", "README.md": "README.md"}),
}  # fmt: skip


def write_host(kind: str, folder: Path, lessons: str, config: Path | None = None) -> list[Path]:
    """Write the files of a system into a new or empty folder. ``config`` is the teacher's own grading.toml.

    ``lessons`` names lessons of the package, such as ``01-09``. Raises ``CommandError`` and ``WriteError``.
    """
    if kind not in HOST:
        raise CommandError(f'there are no files for "{kind}"; there are some for {", ".join(HOST)}')
    if not PLAIN.fullmatch(lessons):
        raise CommandError(f'"{lessons}" names no lessons; write --lessons 01-09')
    _empty(folder)
    host = HOST[kind]
    chosen = parse_lessons(packaged_course(), [lessons])
    values = {
        "LESSONS": lessons, "SEED": _seed() if host.private else "", "SECONDS": f"{Rubric.seconds:g}",
        "MEMORY": f"{Rubric.memory_gib:g}", "LIMITS": "\n" + limits_toml(chosen) if host.bounded else "",
        "CONTAINER": container_for(chosen) if config is None else OWN_LIMITS,
    }  # fmt: skip
    tools = folder / host.tools
    written = [_write(tools / GRADING, _filled(HOSTS / GRADING, values) if config is None else _read(config))]
    written += [_write(folder / path, _filled(HOSTS / kind / name, values)) for name, path in host.files.items()]
    written.append(write_wheel(tools))
    if host.zipped:
        contents = {path.name: (path.read_bytes(), _runs(path)) for path in written if path.name != "README.md"}
        written.append(write_zip(folder / host.zipped, contents))
    return written


def container_for(lessons: Sequence[str]) -> str:
    """Return which of Gradescope's containers and time limits hold kernels at their limits, in words."""
    total = total_of(lessons)
    said = [
        f"The references of these lessons take up to {total.memory_mib} MiB of memory, the kit included, and together "
        f"{total.seconds:.0f} s of processor time.",
        f"Kernels at their limits take up to {total.most_memory_mib} MiB and {total.most_seconds:.0f} s.",
    ]
    processors, gigabytes, minutes = smallest_container(total)
    if (processors, minutes) == (CONTAINERS[0][0], MINUTES[0]):
        said.append("The standard container (768 MB, half a CPU, 10 minutes) is enough.")
    else:
        said.append(
            f"The standard container (768 MB, half a CPU, 10 minutes) is too small: choose {processors:g} CPU with "
            f"{gigabytes:g} GB and a time limit of {minutes} minutes in the settings of the autograder."
        )
    if total.unknown:
        said.append(f"Not measured, and with the limits for all lessons: {', '.join(total.unknown)}.")
    return "\n".join(textwrap.wrap(" ".join(said), WIDTH))


def smallest_container(total: Total) -> tuple[float, float, int]:
    """Return CPUs, GB and minutes of the smallest container in which kernels at their limits end; else the largest."""
    for processors, gigabytes in CONTAINERS:
        needed = total.most_seconds / min(1.0, processors) + START_S
        minutes = next((it for it in MINUTES if needed <= 60 * it), None)
        if minutes is not None and total.most_memory_mib <= 1000 * gigabytes:
            return processors, gigabytes, minutes
    return *CONTAINERS[-1], MINUTES[-1]


def _seed() -> str:
    return f"seed = {secrets.randbelow(SEEDS)}  # of the hidden inputs; another seed, other inputs\n\n"


def _empty(folder: Path) -> None:
    with reading(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(f"{shown(folder)} already exists; name a new folder")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(path, error if isinstance(error, OSError) else OSError("not UTF-8 text")) from None


def _filled(path: Path, values: Mapping[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _write(path: Path, text: str) -> Path:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        if _runs(path):
            path.chmod(0o755)
    return path


def _runs(path: Path) -> bool:
    return path.suffix == ".sh" or path.name == "run_autograder"
