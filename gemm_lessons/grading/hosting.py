"""Write the files that let another system grade with this kit: Gradescope, GitHub, Classroom 50, a laptop.

    write_host("gradescope", folder, ...)  -->  setup.sh, run_autograder, grading.toml, the kit's wheel, autograder.zip

The templates are in ``hosts/``; each ``@NAME@`` in them is replaced. Nothing else has to be written by hand.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from gemm_lessons.course.folder import CommandError, ReadError, WriteError, shown, write_atomically
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.grading.wheel import write_wheel, write_zip

HOSTS = Path(__file__).parent / "hosts"
GRADING = "grading.toml"
SEEDS = 1 << 31
PLAIN = re.compile(r"[\w ,.:-]+")  # no character that a shell interprets


@dataclass(frozen=True)
class Host:
    """Where the files of a system go: template -> path in the folder. ``tools`` holds the wheel and grading.toml.

    ``seconds`` and ``memory_gib`` bound one kernel, so that all kernels fit the limits of the system.
    """

    files: Mapping[str, str]
    tools: str = "."
    seconds: int = 60
    memory_gib: float = 2.0
    zipped: str = ""
    private: bool = True  # students cannot read grading.toml


HOST: Mapping[str, Host] = {
    # 768 MB and half a CPU for 10 minutes: nine kernels that all time out still leave time for an answer.
    "gradescope": Host(
        {"setup.sh": "setup.sh", "run_autograder": "run_autograder", "README.md": "README.md"},
        seconds=25, memory_gib=0.4, zipped="autograder.zip",
    ),
    "github": Host(
        {"grade.yml": ".github/workflows/grade.yml", "README.md": "README.md"}, tools=".github/grading", private=False
    ),
    "classroom50": Host({"autograder.py": "autograder.py", "README.md": "README.md"}),
    "laptop": Host({"grade.sh": "grade.sh", "README.md": "README.md"}),
}  # fmt: skip


def write_host(kind: str, folder: Path, lessons: str, config: Path | None = None) -> list[Path]:
    """Write the files of a system into a new or empty folder. ``config`` is the teacher's own grading.toml.

    Raises ``CommandError`` and ``WriteError``.
    """
    if kind not in HOST:
        raise CommandError(f'there are no files for "{kind}"; there are some for {", ".join(HOST)}')
    if not PLAIN.fullmatch(lessons):
        raise CommandError(f'"{lessons}" names no lessons; write --lessons 01-09')
    _empty(folder)
    host = HOST[kind]
    values = {
        "LESSONS": lessons, "SEED": _seed() if host.private else "", "SECONDS": str(host.seconds),
        "MEMORY": str(host.memory_gib),
    }  # fmt: skip
    tools = folder / host.tools
    written = [_write(tools / GRADING, _filled(HOSTS / GRADING, values) if config is None else _read(config))]
    written += [_write(folder / path, _filled(HOSTS / kind / name, values)) for name, path in host.files.items()]
    written.append(write_wheel(tools))
    if host.zipped:
        contents = {path.name: (path.read_bytes(), _runs(path)) for path in written if path.name != "README.md"}
        written.append(write_zip(folder / host.zipped, contents))
    return written


def _seed() -> str:
    return f"seed = {secrets.randbelow(SEEDS)}  # of the hidden inputs; another seed, other inputs\n\n"


def _empty(folder: Path) -> None:
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(f"{shown(folder)} already exists; name a new folder")
    except OSError as error:
        raise ReadError(folder, error) from None


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        if _runs(path):
            path.chmod(0o755)
    except OSError as error:
        raise WriteError(path, error) from None
    return path


def _runs(path: Path) -> bool:
    return path.suffix == ".sh" or path.name == "run_autograder"
