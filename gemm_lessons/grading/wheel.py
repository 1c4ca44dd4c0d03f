"""Build a wheel of the installed kit, lessons included, so that another machine grades with the same version.

The wheel follows the binary distribution format
(https://packaging.python.org/en/latest/specifications/binary-distribution-format/). The same files give the same wheel.
"""

from __future__ import annotations

import hashlib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from gemm_lessons import __version__
from gemm_lessons.course import WriteError, packaged_course
from gemm_lessons.engine import KitError

PACKAGE = Path(__file__).resolve().parents[1]
INFO = f"gemm_lessons-{__version__}.dist-info"
NAME = f"gemm_lessons-{__version__}-py3-none-any.whl"
WHEEL = "Wheel-Version: 1.0\nGenerator: gemm-lessons\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
LEARNERS = ("kernel.cu", "bug.cu")
WHEN = (1980, 1, 1, 0, 0, 0)


def write_wheel(folder: Path) -> Path:
    """Write the wheel into a folder. Raises ``KitError`` if the kit is not installed, and ``WriteError``."""
    try:
        installed = distribution("gemm-lessons")
    except PackageNotFoundError:
        raise KitError("the kit is not installed, so it does not know what it needs: pip install .") from None
    contents = dict(_files())
    for name in ("METADATA", "entry_points.txt"):
        contents[f"{INFO}/{name}"] = (installed.read_text(name) or "").encode()
    contents[f"{INFO}/WHEEL"] = WHEEL.encode()
    record = "".join(f"{name},{_hash(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{INFO}/RECORD"] = f"{record}{INFO}/RECORD,,\n".encode()
    return write_zip(folder / NAME, {name: (data, False) for name, data in contents.items()})


def write_zip(path: Path, contents: dict[str, tuple[bytes, bool]]) -> Path:
    """Write a zip archive: name -> (content, whether it is executable). Raises ``WriteError``."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, (data, runs) in contents.items():
                entry = zipfile.ZipInfo(name, WHEN)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o755 if runs else 0o644) << 16
                archive.writestr(entry, data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise WriteError(path, error) from None
    return path


def _files() -> Iterator[tuple[str, bytes]]:
    """Yield the package's files, with its lessons if it has them, but no learner's files."""
    lessons = packaged_course().lessons_dir
    roots = {"gemm_lessons": PACKAGE} | ({} if lessons.is_relative_to(PACKAGE) else {"gemm_lessons/lessons": lessons})
    for prefix, root in roots.items():
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            hidden = any(part.startswith((".", "__pycache__")) for part in inside.parts)
            if path.is_file() and not hidden and path.suffix != ".pyc" and not path.name.startswith(LEARNERS):
                yield f"{prefix}/{inside.as_posix()}", path.read_bytes()


def _hash(data: bytes) -> str:
    return f"sha256={urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()}"
