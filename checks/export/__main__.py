"""``python -m checks.export OUT`` exports every lesson, lessons of other types and layouts, and wrong kernels.

``bash OUT/run.sh`` on a machine with a GPU and nvcc then builds them all and runs them at several shapes; it ends with
exit code 1 when one program ends otherwise than it should.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from checks.export.kinds import KINDS, lesson_of
from checks.usage import help_if_asked
from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.export.folder import export_lesson
from gemm_lessons.export.program import LARGE
from gemm_lessons.gemm.shapes import Shape

SPLIT_K = Path(__file__).parents[1] / "course" / "kernels" / "90_split_k"
RUN = """\
cd "$(dirname "$0")"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
nvcc --version | tail -2
failures=0
expect() { # the exit code, the folder, the sizes
    local code=$1 folder=$2 got=0
    shift 2
    echo "-- $folder $*"
    (cd "$folder" && ./gemm "$@") || got=$?
    if [ "$got" != "$code" ]; then echo "EXIT $got, not $code"; failures=$((failures + 1)); fi
}
ls -d */ | tr -d / | xargs -P 8 -I{} sh -c 'make -s -C {} 2>&1 && echo built {}' || exit 1
nvcc first.cu -o first && ./first || exit 1
"""


def without_barriers(lesson: Lesson) -> str:
    """The reference without its barriers: a kernel that a program must call wrong."""
    return lesson.solution_path.read_text().replace("__syncthreads();", "")


def write(out: Path) -> None:
    """Export all of them, and write the script that runs them."""
    course = packaged_course()
    lines = []
    plain = [load_lesson(course.lessons_dir / name) for name in course.names]
    for lesson in (*plain, *(load_lesson(it.directory, type_) for it in plain for type_ in it.types)):
        name = "_".join(filter(None, (lesson.name, lesson.type)))
        try:
            export_lesson(lesson, lesson.solution_path, out / name, course.architecture_of(lesson))
        except CommandError as refused:
            print(f"{name}: {refused}")
            continue
        lines += [f"expect 0 {name}", f"expect 2 {name} 1024 x 8"]
        if lesson.type:
            continue
        for shape in (Shape(512, 256, 128), Shape(4096, 2048, 1024), Shape(33, 31, 29)):
            takes = lesson.shapes.refusal(shape) is None and lesson.at(shape) == lesson.at(LARGE)
            lines.append(f"expect {0 if takes else 2} {name} {shape.m} {shape.n} {shape.k}")
    with TemporaryDirectory() as folder:
        for lesson in [*(lesson_of(kind, Path(folder)) for kind in KINDS), load_lesson(SPLIT_K)]:
            export_lesson(lesson, lesson.solution_path, out / lesson.name, course.architecture)
            lines += [f"expect 0 {lesson.name} 1000 1004 996", f"expect 0 {lesson.name} 2048 2048 2048"]
    tiled = load_lesson(course.lessons_dir / course.resolve("thread_tile"))
    (out / "wrong.cu").write_text(without_barriers(tiled))
    export_lesson(tiled, out / "wrong.cu", out / "wrong", course.architecture)
    lines.append("expect 1 wrong 1024 1024 1024")
    (out / "first.cu").write_text((course.lessons_dir / "common" / "first.cu").read_text())
    (out / "run.sh").write_text(f'{RUN}{chr(10).join(lines)}\necho "$failures failures"\n[ "$failures" = 0 ]\n')


if __name__ == "__main__":
    help_if_asked(__doc__)
    if len(sys.argv) != 2 or Path(sys.argv[1]).exists():
        sys.exit("python -m checks.export OUT, a folder that is not there yet")
    write(Path(sys.argv[1]))
