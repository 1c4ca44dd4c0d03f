"""Read a submission as text files by name, from a folder, an archive, or an archive in a folder.

    read_folder(path), read_archive(path) --> SubmittedFiles: {"lessons/03/kernel.cu": SubmittedFile}, remarks

An archive in a folder or in an archive is read as a folder of its name: ``03.zip`` with ``kernel.cu`` is
``03/kernel.cu``. Nothing is unpacked onto the disk and links are not followed. Files that may be sources are read into
memory in order of their names, within limits on their number and size. A link, a device, a name outside the archive or
a decompression bomb is left out with a remark that gives the reason, and the rest of that submission still counts.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Protocol

from gemm_lessons.course import MAX_SOURCE_BYTES, reason
from gemm_lessons.engine.process import open_unlinked
from gemm_lessons.engine.records import dataclass

SOURCES = (".cu", ".cuh", ".h", ".hpp", ".inl", ".inc", ".cpp", ".cc", ".c", ".txt")
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".txz", ".tar.xz", ".tbz2", ".tar.bz2")
FOREIGN_ARCHIVES = (".rar", ".7z", ".tar.zst", ".gz", ".xz", ".bz2", ".zst")  # recognised, but not read
NOT_HANDED_IN = ("__macosx", "__pycache__", "node_modules", "venv")  # folders; hidden ones are skipped as well

MIB = 1 << 20
MAX_ARCHIVE = 100 * MIB  # bytes of an archive file: a clone with its history is smaller
MAX_UNPACKED = 64 * MIB  # bytes of unpacked tars, which can only be read from their beginning
MAX_NESTED = 16 * MIB  # bytes of an archive in an archive
MAX_ARCHIVES = 30  # archives in an archive, those inside of them included
MAX_LEVELS = 3  # archives in archives in archives
MAX_DIRECTORY = 4 * MIB  # bytes of a zip's central directory, about 40,000 names
MAX_NAMES = 20_000  # files and folders of a submission
MAX_TEXT = 16 * MIB  # bytes of all sources of a submission
MAX_DEPTH = 24  # nested folders
MAX_NAME = 500  # characters
MAX_REMARKS = 8
DICTIONARY = 80 * MIB  # bytes that xz may allocate; `xz -9` asks for 65 MiB
WORDS = 80  # characters of an error message about a broken archive

# Exceptions that Python's archive readers raise for a broken archive.
BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError,
    OverflowError, IndexError, KeyError, NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class SubmittedFile:
    """A file of a submission that may be a source: its bytes, or why they were refused."""

    name: str  # path within the submission, with /
    data: bytes = b""
    refusal: str = ""
    unreadable: bool = False  # reading failed, as opposed to a refusal


@dataclass
class SubmittedFiles:
    """The possible source files of a submission by name, and remarks about the other files, ``others`` by name."""

    files: dict[str, SubmittedFile] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)  # no sources by their names
    remarks: list[str] = field(default_factory=list)
    broken: str = ""  # why nothing could be read at all
    refused: bool = False  # the submission itself was refused
    _folded: dict[str, str] = field(default_factory=dict)
    _silent: int = 0
    _text: int = 0

    def remark(self, text: str) -> None:
        """Add a remark, up to ``MAX_REMARKS``; further ones are only counted."""
        if text in self.remarks:
            return
        if len(self.remarks) < MAX_REMARKS:
            self.remarks.append(text)
        else:
            self._silent += 1

    def keep(self, file: SubmittedFile) -> None:
        """Add a file. A file of the same name replaces the first, as unpacking would. A name that differs from an
        earlier one in case only is refused, because a case-insensitive file system would keep one of the two."""
        other = self._folded.get(file.name.casefold(), file.name)
        if other != file.name:
            self.remark(f"{file.name}: refused: {other} differs from it in upper and lower case only")
            return
        if file.name in self.files:
            self.remark(f"{file.name} is there twice: the last one counts")
        if not file.refusal and self._text + len(file.data) > MAX_TEXT:
            file = SubmittedFile(file.name, refusal=f"the submission holds more than {MAX_TEXT // MIB} MB of sources")
        self._text += len(file.data)
        self._folded[file.name.casefold()] = file.name
        self.files[file.name] = file
        if file.refusal:
            self.remark(f"{file.name}: {'unreadable' if file.unreadable else 'refused'}: {file.refusal}")

    def add(self, other: SubmittedFiles) -> None:
        """Add the files and remarks of another part of the same submission; files already here are kept."""
        for file in other.files.values():
            mine = self.files.get(file.name)
            if mine is None:
                self.keep(file)
            elif mine.data != file.data:
                self.remark(f"{file.name} was handed in twice, and not the same: the first one counts")
        for text in other.remarks:
            self.remark(text)
        self.others += other.others
        self.broken, self.refused = self.broken or other.broken, self.refused or other.refused

    def told(self) -> tuple[str, ...]:
        """Return the remarks in a fixed order."""
        more = (f"and {self._silent} more remarks",) if self._silent else ()
        return (*self.remarks, *more)


def printable(text: str) -> str:
    """Return a student's text with unprintable characters escaped."""
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in text)


def is_source(name: str) -> bool:
    """Return whether a file of this name may be a source file."""
    return name.lower().endswith(SOURCES)


def is_archive(name: str) -> bool:
    """Return whether a file of this name is an archive, readable here or not."""
    return name.lower().endswith((*ARCHIVES, *FOREIGN_ARCHIVES))


def stem_of_archive(name: str) -> str:
    """Return ``ana`` for ``ana.tar.gz``."""
    ending = next((end for end in sorted((*ARCHIVES, *FOREIGN_ARCHIVES), key=len, reverse=True)
                   if name.lower().endswith(end)), "")  # fmt: skip
    return name[: len(name) - len(ending)]


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name.lower() in NOT_HANDED_IN


def read_file(path: Path, name: str) -> SubmittedFile:
    """Read a submitted file; refuse anything but a regular file."""
    try:
        with open(path, "rb", opener=open_unlinked) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return SubmittedFile(name, refusal="it is not a regular file")
            return _limited(name, file)
    except OSError as error:
        if path.is_symlink():
            return SubmittedFile(name, refusal="it is a link; hand in the file itself")
        return SubmittedFile(name, refusal=reason(error), unreadable=True)


def _limited(name: str, file: IO[bytes]) -> SubmittedFile:
    data = file.read(MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        return SubmittedFile(name, refusal="it is larger than a megabyte; a kernel is a text file of a few kilobytes")
    return SubmittedFile(name, data)


def read_folder(root: Path) -> SubmittedFiles:
    """Read all sources below a folder, also those in archives."""
    found, archives = SubmittedFiles(), []
    for seen, (path, name, trouble) in enumerate(_walk(root, "", 0)):
        if seen >= MAX_NAMES:
            found.remark(f"more than {MAX_NAMES:,} files and folders: the rest was not looked at")
            break
        if trouble:
            found.remark(f"{name}: {trouble}")
        elif is_archive(name):
            archives.append((path, name))
        elif is_source(name):
            found.keep(read_file(path, name))
        else:
            found.others.append(name)
    for path, name in archives:
        found.add(_moved(read_archive(path, name), stem_of_archive(name)))
    if found.files:
        found.broken = ""
    return found


def _moved(inside: SubmittedFiles, folder: str) -> SubmittedFiles:
    """Return what an archive holds as the content of ``folder``."""
    moved = SubmittedFiles(remarks=inside.remarks, broken=inside.broken)
    moved.others += (f"{folder}/{name}" for name in inside.others)
    for file in inside.files.values():
        place = f"{folder}/{file.name}"
        moved.files[place] = SubmittedFile(place, file.data, file.refusal, file.unreadable)
    return moved


def _walk(folder: Path, prefix: str, depth: int) -> Iterator[tuple[Path, str, str]]:
    """Yield (path, name, what is wrong with it), in order of names."""
    try:
        entries = sorted(os.scandir(folder), key=lambda it: os.fsencode(it.name))
    except OSError as error:
        yield folder, printable(prefix.rstrip("/")) or "the folder", f"cannot be read: {reason(error)}"
        return
    for entry in entries:
        if _is_skipped(entry.name):
            continue
        path, name = folder / entry.name, f"{prefix}{printable(entry.name)}"
        if entry.is_symlink():
            if is_source(name):
                yield path, name, ""  # read_file refuses the link
            else:
                yield path, name, "refused: it is a link; hand in the file itself"
        elif entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH:
                yield from _walk(path, f"{name}/", depth + 1)
            else:
                yield path, name, "refused: folders are nested too deeply"
        else:
            yield path, name, ""


class _Stream(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _CappedReads:
    """A file that refuses single reads larger than ``MAX_DIRECTORY``, which only a hostile archive needs."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1, /) -> bytes:
        if size > MAX_DIRECTORY:
            raise zipfile.BadZipFile("its table of contents is too large")
        return self._file.read(size if size >= 0 else MAX_DIRECTORY)


class _TooMuch(Exception):
    """Raised when an archive exceeds ``MAX_UNPACKED`` bytes after unpacking."""


@dataclass
class _Room:
    """What one submitted archive may still unpack, with the archives in it."""

    unpacked: int
    archives: int = MAX_ARCHIVES


class _Bounded:
    """A stream of unpacked bytes that raises ``_TooMuch`` when there is no more room."""

    def __init__(self, stream: _Stream, room: _Room) -> None:
        self._stream, self._room = stream, room

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(min(size, MIB) if size >= 0 else MIB)
        self._room.unpacked -= len(data)
        if self._room.unpacked < 0:
            raise _TooMuch
        return data


class _Xz:
    """An xz reader that limits its memory to ``DICTIONARY`` bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = lzma.LZMADecompressor(memlimit=DICTIONARY)

    def read(self, size: int = -1, /) -> bytes:
        while not self._unpacker.eof:
            packed = self._file.read(1 << 16) if self._unpacker.needs_input else b""
            if not packed and self._unpacker.needs_input:
                raise EOFError("it ends too early")
            if data := self._unpacker.decompress(packed, size):
                return data
        return b""


def read_archive(path: Path, name: str = "") -> SubmittedFiles:
    """Read all sources in an archive. Its first bytes decide the format, not its name."""
    name, found = name or printable(path.name), SubmittedFiles()
    try:
        with open(path, "rb", opener=open_unlinked) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return _unread(found, name, "it is not a regular file")
            if status.st_size > MAX_ARCHIVE:
                return _unread(found, name, f"it is larger than {MAX_ARCHIVE // MIB} MB")
            _read_bounded(file, name, found, _Room(MAX_UNPACKED), 0)
    except OSError as error:
        link = path.is_symlink()
        return _unread(found, name, "it is a link; hand in the file itself" if link else reason(error))
    if found.files:
        found.broken = ""
    return found


def _read_bounded(file: IO[bytes], name: str, found: SubmittedFiles, room: _Room, level: int) -> None:
    """Read the archive ``name``, ``level`` archives deep; remark on what cannot be read."""
    try:
        _read_any(file, found, room, level)
    except _TooMuch:
        found.remark(f"{name}: unpacked it is larger than {MAX_UNPACKED // MIB} MB: the rest was not read")
        if not found.files:
            found.broken = found.remarks[-1]
    except BROKEN as error:
        what = (reason(error) if isinstance(error, OSError) else str(error)) or type(error).__name__
        _unread(found, name, printable(what)[:WORDS])


def _read_nested(member: IO[bytes], name: str, found: SubmittedFiles, room: _Room, level: int) -> None:
    """Read an archive that is a member of another."""
    room.archives -= 1
    if level >= MAX_LEVELS or room.archives < 0:
        found.remark(f"{name}: refused: too many archives in archives; hand in the files themselves")
        return
    data = member.read(MAX_NESTED + 1)
    if len(data) > MAX_NESTED:
        found.remark(f"{name}: refused: an archive in an archive may have at most {MAX_NESTED // MIB} MB")
        return
    inside = SubmittedFiles()
    _read_bounded(io.BytesIO(data), name, inside, room, level + 1)
    found.add(_moved(inside, stem_of_archive(name)))


def _unread(found: SubmittedFiles, name: str, why: str) -> SubmittedFiles:
    """Record that the archive, or the rest of it, cannot be read."""
    found.remark(f"{name} cannot be read: {why}")
    if not found.files:
        found.broken = f"{name} cannot be read: {why}"
    return found


def _read_any(file: IO[bytes], found: SubmittedFiles, room: _Room, level: int) -> None:
    start = file.read(512)
    file.seek(0)
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        _read_zip(file, found, room, level)
    elif start.startswith(b"\x1f\x8b"):
        _read_tar(gzip.GzipFile(fileobj=file), found, room, level)
    elif start.startswith(b"BZh"):
        _read_tar(bz2.BZ2File(file), found, room, level)
    elif start.startswith(b"\xfd7zXZ\0"):
        _read_tar(_Xz(file), found, room, level)
    elif start[257:262] == b"ustar" or _is_old_tar(start):
        _read_tar(file, found, room, level)
    else:
        foreign = {b"Rar!": "a RAR archive", b"7z\xbc\xaf": "a 7z archive", b"(\xb5/\xfd": "packed with zstd"}
        kind = foreign.get(start[:4])
        raise ValueError(f"it is {kind}; hand in a .zip or .tar.gz" if kind else "it is not an archive")


def _is_old_tar(start: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _read_zip(file: IO[bytes], found: SubmittedFiles, room: _Room, level: int) -> None:
    with zipfile.ZipFile(_CappedReads(file)) as archive:  # ZipFile needs read, seek and tell
        for info in sorted(archive.infolist(), key=lambda it: it.filename):  # stable sort
            kind = stat.S_IFMT(info.external_attr >> 16)
            name = _taken(found, info.filename, kind if kind else stat.S_IFREG)
            if name is None or info.is_dir():
                continue
            if info.flag_bits & 1:
                found.keep(SubmittedFile(name, refusal="it is encrypted"))
                continue
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                found.keep(SubmittedFile(name, refusal="it is packed in a way that only some programs can read"))
                continue
            try:
                with archive.open(info) as member:
                    if is_archive(name):
                        _read_nested(member, name, found, room, level)
                    else:
                        found.keep(_limited(name, member))
            except BROKEN as error:
                why = f"it is damaged: {printable(str(error))[:WORDS] or type(error).__name__}"
                found.keep(SubmittedFile(name, refusal=why, unreadable=True))


def _read_tar(stream: _Stream, found: SubmittedFiles, room: _Room, level: int) -> None:
    source: Any = _Bounded(stream, room)
    with tarfile.open(fileobj=source, mode="r|", errorlevel=0) as archive:
        for number, info in enumerate(archive):
            if number >= MAX_NAMES:
                found.remark(f"more than {MAX_NAMES:,} files and folders: the rest was not looked at")
                break
            kind = {tarfile.SYMTYPE: stat.S_IFLNK, tarfile.LNKTYPE: stat.S_IFLNK, tarfile.DIRTYPE: stat.S_IFDIR}
            sort = stat.S_IFREG if info.isreg() else kind.get(info.type, stat.S_IFCHR)
            name = _taken(found, info.name, sort)
            if name is None or not info.isreg():
                continue
            member = archive.extractfile(info)
            assert member is not None, "it is a regular file"
            if is_archive(name):
                _read_nested(member, name, found, room, level)
            else:
                found.keep(_limited(name, member))


def _taken(found: SubmittedFiles, raw: str, kind: int) -> str | None:
    """Return a member's name if it is a source or an archive that may be read, else None; remark on those refused."""
    shown = printable(raw)[:MAX_NAME]
    parts = [part for part in raw.replace("\\", "/").split("/") if part not in ("", ".")]
    refusal = ""
    if ".." in parts:
        refusal = "its name leads out of the archive"
    elif raw.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[/\\]", raw):
        refusal = "its name is an absolute path"
    elif not parts or any(_is_skipped(part) for part in parts):
        return None
    elif kind == stat.S_IFLNK:
        refusal = "it is a link; hand in the file itself"
    elif kind not in (stat.S_IFREG, stat.S_IFDIR):
        refusal = "it is a device or a pipe"
    elif not all(letter.isprintable() for letter in raw):
        refusal = "its name is not text"
    elif len(raw) > MAX_NAME or len(parts) > MAX_DEPTH:
        refusal = "its name is too long"
    name = "/".join(parts)
    if refusal:
        if kind == stat.S_IFLNK and is_source(name) and ".." not in parts and not raw.startswith(("/", "\\")):
            found.keep(SubmittedFile(printable(name), refusal=refusal))  # reported with the lesson
        else:
            found.remark(f"{shown}: refused: {refusal}")
        return None
    if not is_source(name) and not is_archive(name):
        found.others.append(printable(name))
        return None
    return name
