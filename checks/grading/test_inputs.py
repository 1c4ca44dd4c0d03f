"""Submissions: every layout, every platform's file names, and malicious archives."""

from __future__ import annotations

import bz2
import io
import os
import random
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.grading import archives
from gemm_lessons.grading.inputs import LessonSubmission, find_students, one_student, read_student
from gemm_lessons.grading.naming import claim
from gemm_lessons.grading.roster import load_roster

COURSE = packaged_course()
LESSONS = {name: COURSE.lesson(name) for name in COURSE.names}
TILE, NAIVE = "03_block_tile", "01_naive"
KERNEL = b"// mine\n"


def read(folder: Path, student: str = "ana") -> tuple[dict[str, LessonSubmission], tuple[str, ...]]:
    (found,) = (it for it in find_students(folder, COURSE.names).students if it.id == student)
    return read_student(found, LESSONS, COURSE.names)


def lay(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def zipped(path: Path, files: Mapping[str, bytes], modes: Mapping[str, int] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data)
    return path


def tarred(path: Path, members: Mapping[str, bytes | tuple[bytes, str]], kind: str = "") -> Path:
    """``(type, target)`` makes a link or a device."""
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


LAYOUTS = {
    "the course's own": "lessons/03_block_tile/kernel.cu",
    "in a folder": "my-course/lessons/03_block_tile/kernel.cu",
    "by number": "03.cu",
    "by one digit": "3.cu",
    "by folder": "03/mine.cu",
    "by name": "block_tile.cu",
    "lesson03": "Lesson 3.CU",
    "with a name": "03_block_tile_final_v2.cu",
    "a second download": "03 (1).cu",
    "an extension that an editor added": "03.cu.txt",
    "of a homework": "hw2/lesson03.cu",
    "on a day": "2026-03-01/03_tiles.cu",
}


@pytest.mark.parametrize("name", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(tmp_path: Path, name: str) -> None:
    lay(tmp_path / "folder" / "ana", {name: KERNEL, "notes.md": b"-", ".git/03.cu": b"old"})
    zipped(tmp_path / "zip" / "ana.zip", {name: KERNEL, "__MACOSX/._03.cu": b"\0", ".git/03.cu": b"old"})
    for folder in ("folder", "zip"):
        handed, remarks = read(tmp_path / folder)
        assert (handed[TILE].status, handed[TILE].file, handed[TILE].data) == ("graded", name, KERNEL)
        assert [lesson for lesson, it in handed.items() if it.status != "missing"] == [TILE]
        assert not remarks


@pytest.mark.parametrize("kind", ["", "gz", "xz", "bz2"])
def test_tars(tmp_path: Path, kind: str) -> None:
    tarred(tmp_path / f"ana.tar{'.' if kind else ''}{kind}", {"./03.cu": KERNEL, "01.cu": b"a"}, kind)
    handed, remarks = read(tmp_path)
    assert (handed[TILE].data, handed[NAIVE].data, remarks) == (KERNEL, b"a", ())


def test_names_that_mean_nothing_are_not_guessed() -> None:
    for name in ("gemm.cu", "ana2/kernel.cu", "stub.cu", "03_block_tile/stub.cu", "03/notes.txt", "warp.cu", "42.cu"):
        assert claim(name, COURSE.names) is None, name
    found = claim("04_block_tile.cu", COURSE.names)  # numbered as in an older course
    assert found.lesson == TILE


def test_a_kernel_whose_name_says_no_lesson_is_told(tmp_path: Path) -> None:
    lay(tmp_path / "ana", {"01.cu": b"a", "number three.cu": KERNEL, "stub.cu": b"s", "03/notes.txt": b"x"})
    handed, remarks = read(tmp_path)
    assert handed[TILE].status == "missing"
    assert remarks == ("number three.cu was not graded: its name must give a lesson, like 03.cu or 03_block_tile.cu",)
    lay(tmp_path / "ana", {f"kernel {letter}.cu": b"k" for letter in "abcdef"})
    assert read(tmp_path)[1][-1] == "and 4 more .cu files whose names do not give a lesson"


@pytest.mark.parametrize("name", ["03.docx", "block_tile.cu.bak", "block_tile", "03_block_tile.ipynb", "a/naive.pdf"])
@pytest.mark.parametrize("archived", [False, True])
def test_a_lesson_in_a_file_that_is_no_source_is_told(tmp_path: Path, name: str, archived: bool) -> None:
    files = {name: KERNEL, "notes.pdf": KERNEL}
    if archived:
        zipped(tmp_path / "ana" / "mine.zip", files)
    else:
        lay(tmp_path / "ana", files)
    handed, remarks = read(tmp_path)
    assert {it.status for it in handed.values()} == {"missing"}
    (remark,) = remarks
    assert f"{name} was not graded: its name" in remark
    lay(tmp_path / "ana", {"block_tile.cu": KERNEL, "naive.cu": KERNEL})
    assert not read(tmp_path)[1]


def test_what_a_course_folder_brings_along_is_no_kernel(tmp_path: Path) -> None:
    files = {"lessons/01_naive/kernel.cu": KERNEL}
    files |= {f"lessons/11_epilogue/{name}": (COURSE.lessons_dir / "11_epilogue" / name).read_bytes()
              for name in ("unfused.cu", "stub.cu", "README.md")}  # fmt: skip
    files |= {
        f"lessons/common/{path.name}": path.read_bytes() for path in (COURSE.lessons_dir / "common").glob("*.cu*")
    }
    assert {"float4.cuh", "double2.cuh"} <= {Path(name).name for name in files}
    lay(tmp_path / "ana", files)
    handed, remarks = read(tmp_path)
    assert {name for name, it in handed.items() if it.status != "missing"} == {NAIVE}
    assert remarks == ()


def test_platforms_and_loose_files(tmp_path: Path) -> None:
    lay(tmp_path, {
        "Ana Lima_123_assignsubmission_file_/03.cu": KERNEL,
        "Bo Li_1_assignsubmission_file_/01.cu": KERNEL,
        "Bo Li_2_assignsubmission_file_/02.cu": KERNEL,  # another Bo Li
        "limamaria_LATE_77_88_03_block_tile-1.cu": KERNEL,
        "limamaria_77_89_01.cu": KERNEL,
        "chidi_03.cu": KERNEL,
        "readme.txt": b"-",
        "grading.toml": b"",
        "Dan Roe_5_assignsubmission_file_03.cu": KERNEL,
    })  # fmt: skip
    found = find_students(tmp_path, COURSE.names)
    assert [it.id for it in found.students] == ["Ana Lima", "Bo Li_1", "Bo Li_2", "Dan Roe", "chidi", "limamaria"]
    assert found.remarks == ("readme.txt belongs to no student and was not graded",)
    maria, _ = read(tmp_path, "limamaria")
    assert {lesson for lesson, it in maria.items() if it.status == "graded"} == {NAIVE, TILE}


def test_a_roster_names_them_and_those_who_handed_in_nothing(tmp_path: Path) -> None:
    lay(tmp_path / "in", {
        "Ana Lima_123_assignsubmission_file_/03.cu": KERNEL,
        "roebo_77_88_03.cu": KERNEL,
        "stranger/03.cu": KERNEL,
        "d@uni.example/03.cu": KERNEL,
    })  # fmt: skip
    path = tmp_path / "roster.csv"
    path.write_text("\ufeffID;Name;Email;Group\na1;Lima, Ana;;2\nb2;Bo Roe;;\nc3;Chidi;;\nd4;;d@uni.example;\n")
    found = find_students(tmp_path / "in", COURSE.names, load_roster(path))
    assert [(it.id, it.record.name, len(it.parts)) for it in found.students] == [
        ("a1", "Lima, Ana", 1), ("b2", "Bo Roe", 1), ("c3", "Chidi", 0), ("d4", None, 1), ("stranger", None, 1),
    ]  # fmt: skip
    assert found.students[0].record.roster == {"Group": "2"}
    assert found.remarks == ("not in the roster: stranger",)


def test_strangers_are_one_line(tmp_path: Path) -> None:
    lay(tmp_path / "in", {f"s{n:02}/03.cu": KERNEL for n in range(30)})
    path = tmp_path / "roster.csv"
    path.write_text("id\ns00\ns01\n")
    (remark,) = find_students(tmp_path / "in", COURSE.names, load_roster(path)).remarks
    assert remark.startswith("not in the roster: s02, s03, ")
    assert remark.endswith(", s21 and 8 more")
    assert one_student(tmp_path / "in" / "s00", "s00", load_roster(path)).remarks == ()
    assert one_student(tmp_path / "in" / "s00", "who", load_roster(path)).remarks == ("not in the roster: who",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"roster\.csv:1: is empty"),
        ("name,email\n", r"roster\.csv:1: no column is named id; the first line says: name, email"),
        ("id,name\nana,Ana\nbo\n", r"roster\.csv:3: 1 field, but the first line names 2 columns"),
        ("id,name\nana,A\n\nana,B\n", r"roster\.csv:4: the id 'ana' is also in line 2"),
        ("id,name\n,A\n", r"roster\.csv:2: a student without an id"),
        ('id,name\nana,"A\n', r"roster\.csv:2: not valid CSV"),
        ("id,ID\n", r"roster\.csv:1: two columns are named 'id'"),
        (b"id,name\n1,\xff\n", r"roster\.csv:2: not UTF-8 text"),
        ("id,name\n1,\0\n", r"roster\.csv:2: holds a zero byte"),
    ],
)
def test_a_broken_roster_is_named_by_line(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CommandError, match=words):
        load_roster(path)


def test_what_harms_costs_only_itself(tmp_path: Path) -> None:
    """The honest kernel counts, and nothing outside is read."""
    (tmp_path / "secret.cu").write_text("// secret")
    bad: dict[str, bytes | tuple[bytes, str]] = {
        "../02.cu": b"out",
        "/tmp/02.cu": b"absolute",
        "C:\\02.cu": b"absolute",
        "03/../../02.cu": b"out",
        "04.cu": (tarfile.SYMTYPE, str(tmp_path / "secret.cu")),
        "05.cu": (tarfile.LNKTYPE, "01.cu"),
        "06.cu": (tarfile.CHRTYPE, ""),
        "07.cu": (tarfile.FIFOTYPE, ""),
        "08.cu": b"x" * 1_000_001,
        "more.zip": b"PK\3\4",
        "09\x1b[2J.cu": b"escape",
        "01.cu": KERNEL,
    }
    (tmp_path / "in").mkdir()
    tarred(tmp_path / "in" / "ana.tar", bad)
    handed, remarks = read(tmp_path / "in")
    assert handed[NAIVE].data == KERNEL
    statuses = {lesson[:2]: it.status for lesson, it in handed.items()}
    others = dict.fromkeys((name[:2] for name in COURSE.names), "missing")
    assert statuses == others | {"01": "graded", "04": "refused", "05": "refused", "08": "refused"}
    assert handed["04_thread_column"].message == "04.cu: it is a link; hand in the file itself"
    assert "larger than a megabyte" in handed["08_warp_tile"].message
    for word in ("leads out", "absolute", "link"):
        assert any(word in remark for remark in remarks), word
    assert all(remark.isprintable() for remark in remarks)
    assert remarks[-1].startswith("and "), "the rest is counted"


def test_a_zip_that_harms(tmp_path: Path) -> None:
    files = {"01.cu": KERNEL, "02.cu": b"/etc/passwd", "../03.cu": b"out", "LESSON04.cu": b"1", "lesson04.CU": b"2",
             "05.cu": b"first", "bomb/06.cu": b" " * 50_000_000}  # fmt: skip
    path = zipped(tmp_path / "in" / "ana.zip", files, {"02.cu": stat.S_IFLNK | 0o777})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("05.cu", "second")
    handed, remarks = read(tmp_path / "in")
    assert handed[NAIVE].data == KERNEL
    assert handed["02_coalesced"].status == "refused"
    assert handed["04_thread_column"].data == b"1"
    assert handed["05_thread_tile"].data == b"second"
    assert "larger than a megabyte" in handed["06_vector_loads"].message
    assert any("upper and lower case only" in it for it in remarks)
    assert any("05.cu is there twice: the last one counts" in it for it in remarks)


def packed(files: Mapping[str, bytes], kind: str = "zip") -> bytes:
    """An archive as bytes."""
    into = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=into, mode="w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return into.getvalue()


def test_archives_in_archives(tmp_path: Path) -> None:
    inner = {"03.zip": packed({"kernel.cu": KERNEL}), "naive.tar.gz": packed({"kernel.cu": b"n"}, "tar"),
             "all.zip": packed({"02.zip": packed({"mine.cu": b"c"})}), "01.txt": b""}  # fmt: skip
    zipped(tmp_path / "zip" / "ana.zip", inner)
    tarred(tmp_path / "ana.tar", inner)
    (tmp_path / "tar").mkdir()
    (tmp_path / "ana.tar").rename(tmp_path / "tar" / "ana.tar")
    lay(tmp_path / "folder", {f"ana/{name}": data for name, data in inner.items()})
    for kind in ("zip", "tar", "folder"):
        handed, remarks = read(tmp_path / kind)
        found = {it.file: it.data for it in handed.values() if it.status == "graded"}
        assert found == {"03/kernel.cu": KERNEL, "naive/kernel.cu": b"n", "all/02/mine.cu": b"c"}, kind
        assert remarks == ()


def test_archives_in_archives_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = {"04.cu": KERNEL}
    for _ in range(6):
        deep = {"in.zip": packed(deep)}
    broken = {"bad.zip": b"PK\3\4", "x.rar": b"Rar!" + bytes(600), "out.zip": packed({"../02.cu": b"x"})}
    huge = {"huge.zip": packed({"05.cu": os.urandom(3 << 20)})}
    monkeypatch.setattr(archives, "MAX_NESTED", 2 << 20)
    zipped(tmp_path / "deep" / "ana.zip", {"01.cu": KERNEL, **deep, **broken, **huge})
    handed, remarks = read(tmp_path / "deep")
    assert [it.lesson for it in handed.values() if it.status != "missing"] == [NAIVE]
    for word in ("too many archives", "bad.zip cannot be read", "RAR", "leads out of", "at most 2 MB"):
        assert any(word in remark for remark in remarks), word

    zipped(tmp_path / "many" / "ana.zip", {f"{n}.zip": packed({"01.cu": KERNEL}) for n in range(50)})
    assert any("too many archives" in remark for remark in read(tmp_path / "many")[1])

    monkeypatch.setattr(archives, "MAX_UNPACKED", 3 << 20)
    bomb = packed({"big.bin": bytes(2 << 20)}, "tar")
    zipped(tmp_path / "bomb" / "ana.zip", {f"{n}.tgz": bomb for n in range(5)} | {"01.cu": KERNEL})
    handed, remarks = read(tmp_path / "bomb")
    assert handed[NAIVE].status == "graded"
    assert any("larger than 3 MB" in remark for remark in remarks)


def test_bombs_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED", 3 << 20)
    tarred(tmp_path / "ana.tar.gz", {"01.cu": KERNEL, "big.bin": b"\0" * (8 << 20), "02.cu": b"behind"}, "gz")
    handed, remarks = read(tmp_path)
    assert (handed[NAIVE].data, handed["02_coalesced"].status) == (KERNEL, "missing")
    assert remarks == ("ana.tar.gz: unpacked it is larger than 3 MB: the rest was not read",)

    monkeypatch.setattr(archives, "MAX_DIRECTORY", 10_000)
    zipped(tmp_path / "zip" / "ana.zip", {f"{i}.bin": b"" for i in range(300)})
    assert "table of contents is too large" in read(tmp_path / "zip")[0][NAIVE].message

    (tmp_path / "xz").mkdir()
    greedy = tarred(tmp_path / "xz" / "ana.tar", {"01.cu": KERNEL})
    import lzma

    packed = lzma.compress(greedy.read_bytes(), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}])
    greedy.rename(tmp_path / "tar")
    (tmp_path / "xz" / "ana.tar.xz").write_bytes(packed)
    assert "cannot be read" in read(tmp_path / "xz")[0][NAIVE].message


BROKEN = {
    "not an archive": b"hello",
    "empty": b"",
    "cut": b"PK\3\4" + b"\0" * 40,
    "a wrong table": b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 9, 9, 9999, 0, 0),
    "rar": b"Rar!\x1a\x07\0",
    "a cut gz": zlib.compress(b"x" * 5000, wbits=31)[:20],
    "gz of nothing": zlib.compress(b"", wbits=31),
    "a cut bz2": bz2.compress(b"x" * 5000)[:20],
    "a cut xz": b"\xfd7zXZ\0\0\4",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_unreadable_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    lay(tmp_path, {"ana.zip": data, "bo/01.cu": KERNEL})
    handed, remarks = read(tmp_path)
    assert {it.status for it in handed.values()} == {"unreadable"}
    assert "ana.zip cannot be read: " in handed[NAIVE].message
    assert len(remarks) == 1
    assert read(tmp_path, "bo")[0][NAIVE].data == KERNEL
    lay(tmp_path, {"bo/rest.zip": data})  # beside what can be read it takes nothing away
    assert read(tmp_path, "bo")[0][NAIVE].data == KERNEL
    assert read(tmp_path, "bo")[0][TILE].status == "missing"


def test_a_folder_with_links_pipes_and_more(tmp_path: Path) -> None:
    secret = tmp_path / "secret.cu"
    secret.write_text("// secret")
    ana = lay(tmp_path / "in" / "ana", {"01.cu": KERNEL, "deep/er/06.cu": b"6", "07.cu": b"-"})
    (ana / "02.cu").symlink_to(secret)
    (ana / "lessons").symlink_to(tmp_path)
    os.mkfifo(ana / "03.cu")
    (ana / "04.cu").mkdir()
    (ana / "loop").symlink_to(ana / "loop")
    (tmp_path / "in" / "eve").symlink_to(ana)
    handed, remarks = read(tmp_path / "in")
    assert {lesson[:2]: it.status for lesson, it in handed.items() if it.status != "missing"} == {
        "01": "graded", "02": "refused", "03": "refused", "06": "graded", "07": "graded"}  # fmt: skip
    assert sum("it is a link" in it for it in remarks) == 3
    eve, _ = read(tmp_path / "in", "eve")
    assert {it.status for it in eve.values()} == {"refused"}, "the work of another is not hers"


def test_the_best_of_several_files(tmp_path: Path) -> None:
    stub = COURSE.lesson(TILE).stub_path.read_bytes()
    lay(tmp_path / "ana", {
        "lessons/03_block_tile/kernel.cu": stub.replace(b"\n", b"\r\n"),  # untouched: the other one is the work
        "03.cu": KERNEL,
        "01.cu": b"one", "01 (2).cu": b"newer",
        "lessons/02_coalesced/kernel.cu": b"kernel", "02.cu": b"other",
        "checks/counters/kernels/warp_tile.cu": b"of the kit", "lessons/03_block_tile/stub.cu": stub,
    })  # fmt: skip
    handed, remarks = read(tmp_path)
    assert (handed[TILE].data, handed[NAIVE].data, handed["02_coalesced"].data) == (KERNEL, b"newer", b"kernel")
    assert handed["08_warp_tile"].status == "missing"
    assert remarks == (
        "lesson 01_naive: of several files 01 (2).cu was graded, not 01.cu",
        "lesson 02_coalesced: of several files lessons/02_coalesced/kernel.cu was graded, not 02.cu",
    )


def test_headers_of_their_own_come_along_but_none_of_the_course(tmp_path: Path) -> None:
    files = {
        "03.cu": '#include "mine.cuh"\n#include "matrix.cuh"\n#include "../out.cuh"\n#include "sub/deep.cuh"\n',
        "mine.cuh": '#include "more.h"\n#include "mine.cuh"\n', "more.h": "", "matrix.cuh": "", "unused.h": "",
        "sub/deep.cuh": "", "lesson.toml": "",
    }  # fmt: skip
    lay(tmp_path / "in" / "ana", files)
    lay(tmp_path / "in", {"out.cuh": ""})
    handed, remarks = read(tmp_path / "in")
    assert list(handed[TILE].headers) == ["mine.cuh", "more.h"]
    assert remarks == ("matrix.cuh was ignored: lessons have their own matrix.cuh",)


def test_one_student_s_folder(tmp_path: Path) -> None:
    lay(tmp_path, {"kernel.cu": KERNEL, "stub.cu": b"-"})
    with pytest.raises(CommandError, match="contains no student's folder or archive"):
        find_students(tmp_path, COURSE.names)
    lay(tmp_path, {"03.cu": KERNEL})
    with pytest.raises(CommandError, match="--student NAME"):
        find_students(tmp_path, COURSE.names)
    (tmp_path / "03.cu").unlink()
    (ana,) = one_student(tmp_path, "ana").students
    handed, remarks = read_student(ana, {TILE: LESSONS[TILE]}, COURSE.names)
    assert handed[TILE].data == KERNEL, "of one lesson the only kernel is the kernel"
    assert "does not say which lesson" in remarks[0]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    zipped(tmp_path / "all.zip", {"ana/03.cu": KERNEL})
    for path, words in (("all.zip", "unpack it into a folder first"), ("nowhere", "no such file")):
        with pytest.raises(CommandError, match=words):
            find_students(tmp_path / path, COURSE.names)
    lay(tmp_path / "course", {"lessons/03_block_tile/lesson.toml": "", "lessons/03_block_tile/kernel.cu": KERNEL})
    with pytest.raises(CommandError, match="is a course folder"):
        find_students(tmp_path / "course", COURSE.names)
    lay(tmp_path / "ana", {"03_block_tile/kernel.cu": KERNEL, "naive/kernel.cu": KERNEL})
    with pytest.raises(CommandError, match=r"holds folders of lessons, not of students.*--student NAME"):
        find_students(tmp_path / "ana", COURSE.names)
    lay(tmp_path / "numbers", {"03/kernel.cu": KERNEL, "1/kernel.cu": KERNEL})
    assert len(find_students(tmp_path / "numbers", COURSE.names).students) == 2, "students may be numbered"


def test_damaged_archives_break_nothing(tmp_path: Path) -> None:
    """A sample of damages: the archive is read, or reported as damaged."""
    files = {f"{number:02}.cu": KERNEL * 50 for number in range(1, 9)}
    whole = [zipped(tmp_path / "whole.zip", files).read_bytes()]
    whole += [tarred(tmp_path / "whole.tar", files, kind).read_bytes() for kind in ("", "gz", "xz", "bz2")]
    draw, ways = random.Random(1), set()
    for number in range(120):
        data = bytearray(whole[number % len(whole)])
        for _ in range(draw.choice((1, 2, 10))):
            at = draw.randrange(len(data))
            cut, more = draw.choice(((1, 1), (9, 0), (0, 9), (4, 4)))
            data[at : at + cut] = bytes(draw.choice((0, 255, draw.randrange(256))) for _ in range(more))
        path = tmp_path / "damaged"
        path.write_bytes(data)
        found = archives.read_archive(path)
        assert found.files or found.broken or data.startswith(b"PK")
        assert all(remark.isprintable() for remark in found.told())
        ways.add(bool(found.broken))
    assert ways == {True, False}
