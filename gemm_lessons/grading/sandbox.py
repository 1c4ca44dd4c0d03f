"""What a submission may read in its sandbox: the kit, CUDA's files and its own lesson, without the solution."""

from __future__ import annotations

import glob
import os
import site
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course import Lesson, for_learners
from gemm_lessons.engine.compiler import nvrtc
from gemm_lessons.engine.process import Reach, with_libraries

PACKAGE = Path(__file__).resolve().parents[1]


def reach_of(lesson: Lesson, folder: Path) -> Reach:
    """Return a submission's access in its ``folder``: no solutions, no other users' files, no files of the system."""
    lessons = lesson.directory.parent
    paths = sysconfig.get_paths()
    installed = {Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {Path(place) for place in (*site.getsitepackages(), site.getusersitepackages())}
    cuda = [place for major in nvrtc.CUDA_MAJORS for place in nvrtc.include_folders(major)]
    cuda += [place for major in nvrtc.CUDA_MAJORS for place in nvrtc.library_folders(major)]
    program = nvrtc.disassembler()
    folders = [PACKAGE, *installed, *with_libraries(cuda)]
    closed = (lessons, PACKAGE / "lessons")
    around = [place for one in dict.fromkeys(folders) for place in _around(one.resolve(), closed)]
    records = [Path(it) for it in glob.glob(f"{glob.escape(str(lessons))}/*/lesson.toml")]
    own = [lesson.directory / name for name in for_learners(os.listdir(lesson.directory))]
    files = [*records, *own, lessons / "course.toml", lesson.stub_path, Path("/etc/ld.so.cache")]
    shared = [place for place in lesson.include_dirs if place != lesson.directory]
    return Reach(folder, files, [*around, *shared], [program] if program else [])


def _around(folder: Path, closed: Sequence[Path]) -> list[Path]:
    """Return the paths that Landlock may allow: everything below ``folder`` except ``closed``. A Landlock rule for a
    folder covers everything below it, so the siblings of a closed path are listed one by one."""
    inside = [it for it in closed if folder == it.resolve() or folder in it.resolve().parents]
    if not inside:
        return [folder]
    if any(folder == it.resolve() for it in inside) or not folder.is_dir():
        return []
    return [place for entry in sorted(folder.iterdir()) for place in _around(entry, inside)]
