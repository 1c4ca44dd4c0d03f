"""Compile CUDA C++ source to ``Compiled``: PTX, machine code, registers, line table, warnings.

A mistake in the source is returned as ``NotCompiled``. ``KitError`` means that the compiler itself is missing or
broken.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import cached_property, partial
from pathlib import Path

from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import files_read, includes, neutral_paths, nvrtc, nvrtc_child, sass, tools
from gemm_lessons.engine.compiler import source as cuda_source
from gemm_lessons.engine.compiler.diagnostics import Diagnostic, base_name, explain_failure, parse_log
from gemm_lessons.engine.compiler.elf import plain_file_name
from gemm_lessons.engine.compiler.ptxas import read_resources, read_shared_layout, shared_arrays
from gemm_lessons.engine.compiler.sass import SassInstruction
from gemm_lessons.engine.hardware.occupancy import Resources
from gemm_lessons.engine.records.errors import KitError, UnknownArchitecture, UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

__all__ = ["Compiled", "Diagnostic", "NotCompiled", "Resources", "SassInstruction", "compile_source"]

CACHE_FORMAT = "gemm-lessons/compiled/9"
HERE = "\0"  # the file itself in cached data: other runs have another name for it
# The part of the host's C library headers, which nvcc finds, that kernels need.
HEADERS = Path(__file__).parent / "headers"
WITHOUT_CCCL = HEADERS / "without_cccl"  # replacements for NVIDIA's C++ core libraries, if those are missing
WITH_CCCL = HEADERS / "with_cccl"  # the standard library built on them, and those parts of them that kernels need
# Names that nvcc defines on Linux and NVRTC does not. Files that mention one of them may have code for other compilers.
OF_NVCC = ("__NVCC__", "__linux__", "__unix__")
OF_CCCL = regex(r"#[ \t]*include[ \t]*[<\"](?:cuda|cub|thrust)/|\bcuda::")  # nvcc's cooperative groups include some
# A folder with one of these holds CUDA's own headers: it is no library of the user's, even if the user names it.
OF_A_TOOLKIT = ("cuda_runtime_api.h", "cuda/std", "cub/cub.cuh", "thrust/version.h")
# nvcc's preprocessor expands a macro right after a literal; NVRTC takes its name as the literal's suffix.
JOINED_LINKAGE = regex(r'\bextern[ \t]"C"(?=__global__\b)')
PRE_INCLUDED = "nvcc_names.h"
STANDARD = "-std=c++17"
ARCHITECTURE = regex(r"(?:sm|compute)_\d+[af]?")
APART = regex(r"^-*fmad=(false|0)$|-(O|-opt-level=)0$")  # options that fuse no product with a sum
FIRST_WITH_LIST = 13  # the CUDA major that can list the files it reads
UNFINISHED = "177,550"  # variables never referenced, set but never used: normal in an unfinished kernel
# Local memory of one thread, on every GPU since Fermi: "CUDA C++ Programming Guide", technical specifications.
MAX_LOCAL_BYTES = 512 * 1024


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel.

    ``path`` is the file as the caller named it; ``ptx``, ``sass`` and ``diagnostics`` use the same name for it.
    ``entry`` is the lowered (mangled) name, ``arch`` such as ``sm_90``, ``diagnostics`` the warnings.
    """

    source: str
    path: str
    entry: str
    arch: str
    ptx: str
    cubin: bytes
    resources: Resources
    diagnostics: tuple[Diagnostic, ...]
    compiler: str
    shared_layout: tuple[tuple[str, int, int], ...] = ()
    """(PTX name, offset, bytes) of every static shared array, offsets from the start of the block's static arrays."""
    joins: bool = True
    """Whether ptxas may fuse a product and a sum into a multiply-add: not with ``-fmad=false`` or ptxas' ``-O0``."""
    _background: _BackgroundSass = field(
        default_factory=lambda: _BackgroundSass(), init=False, repr=False, compare=False
    )

    @cached_property
    def sass(self) -> tuple[SassInstruction, ...]:
        """Machine instructions, function by function, in address order; empty for a PTX file.

        Raise ``KitError`` without ``nvdisasm``.
        """
        if not self.cubin:
            return ()
        text = self._background.wait() or sass.disassemble(self.cubin)
        code = sass.parse(text, self.entry, {_program_name(self.path): self.path})
        return sass.with_bits_of_nans(code, self.cubin, self.entry)

    def share_sass(self, shared: SharedSass) -> None:
        """Take the disassembly from one that several kernels share."""
        object.__setattr__(self, "_background", _BackgroundSass(shared, self.cubin))

    def start_sass(self, beside: Iterable[Compiled] = ()) -> None:
        """Start disassembling in the background (0.3 s, on another core), for a caller that will need ``sass``.

        Kernels ``beside`` each other in one cubin are disassembled once.
        """
        for other in beside:
            if other.cubin == self.cubin:
                object.__setattr__(self, "_background", other._background)
        if "sass" not in self.__dict__:
            self._background.start(self.cubin)


class _Recent:
    """The last translation, for the other kernels of the same program."""

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], nvrtc.Translation, tuple[int, int]] | None = None

    def keep(self, key: tuple[object, ...], entry: str, made: nvrtc.Translation, version: tuple[int, int]) -> None:
        """Keep a translation if it has several kernels with plain names; else keep none."""
        plain = made.ok and made.lowered == entry and made.ptx.count(".entry ") > 1
        self._last = (key, made, version) if plain else None  # one assignment, since other threads compile too

    def beside(self, key: tuple[object, ...], entry: str) -> tuple[nvrtc.Translation, tuple[int, int]] | None:
        """Return the last translation if it has the same key and this kernel."""
        last = self._last
        if last is None or key != last[0]:
            return None
        _, made, version = last
        found = re.search(rf"\.entry {re.escape(entry)}\(", made.ptx)
        return (replace(made, lowered=entry), version) if found else None


_recent = _Recent()


class SharedSass:
    """One disassembly of several kernels, begun when that of one is needed. It takes 0.25 s less for each other one.

    ``kernels`` is called then, and may wait until they are compiled.
    """

    def __init__(self, kernels: Callable[[], Iterable[Compiled]]) -> None:
        self._kernels = kernels
        self._texts: dict[bytes, str] | None = None
        self._turn = threading.Lock()

    def text_of(self, cubin: bytes) -> str | None:
        """Return the disassembly of one cubin; None if it failed."""
        with self._turn:
            if self._texts is None:
                cubins = list(dict.fromkeys(it.cubin for it in self._kernels() if it.cubin))
                self._texts = {}
                with contextlib.suppress(KitError, UnsupportedKernel):
                    self._texts = dict(zip(cubins, sass.disassemble_together(cubins), strict=True))
        return self._texts.get(cubin)


def disassemble_ahead(kernels: Iterable[Compiled]) -> None:
    """Disassemble kernels together into the cache on disk, where each finds its own text. Without a cache, do nothing.
    Where it fails, a kernel's own disassembly gives the reason."""
    if compile_cache.folder() is None:
        return
    cubins: dict[str, dict[bytes, None]] = {}
    for kernel in kernels:
        if kernel.cubin:
            cubins.setdefault(kernel.arch, {})[kernel.cubin] = None
    for alike in cubins.values():
        with contextlib.suppress(KitError, UnsupportedKernel):
            sass.disassemble_together(list(alike))


class _BackgroundSass:
    """A disassembly that runs in a thread, or one that is ``shared``. If it fails, the caller disassembles itself."""

    def __init__(self, shared: SharedSass | None = None, cubin: bytes = b"") -> None:
        self._shared, self._cubin = shared, cubin
        self._thread: threading.Thread | None = None
        self._text: str | None = None

    def start(self, cubin: bytes) -> None:
        if self._thread is None and self._shared is None:
            self._thread = threading.Thread(target=self._run, args=(cubin,), daemon=True)
            self._thread.start()

    def _run(self, cubin: bytes) -> None:
        try:
            self._text = sass.disassemble(cubin)
        except (KitError, UnsupportedKernel):
            self._text = None

    def __reduce__(self) -> tuple[type[_BackgroundSass], tuple[()]]:
        return _BackgroundSass, ()  # a thread cannot be pickled

    def wait(self) -> str | None:
        if self._shared is not None:
            return self._shared.text_of(self._cubin)
        if self._thread is not None:
            self._thread.join()
        return self._text


@dataclass(frozen=True)
class NotCompiled:
    """The source did not compile. ``diagnostics`` holds at least one error; ``log`` is NVRTC's own text."""

    diagnostics: tuple[Diagnostic, ...]
    log: str


def compile_source(
    source: str,
    *,
    path: str,
    entry: str,
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Sequence[Path] = (),
    arch: str = "sm_90",
    options: Sequence[str] = (),
    cuda_major: int | None = None,
    withheld: Sequence[Path] = (),
    assembled: bool = True,
) -> Compiled | NotCompiled:
    """Compile one kernel to PTX and machine code of a real GPU, in one step. Without machine code (``assembled`` False)
    it takes half the time, and registers are unknown.

    ``entry`` is the kernel's plain name, with or without ``extern "C"``, or a template instance (``tile<64, 8>``).
    ``path`` names the file in messages and line tables; its folder is searched for ``#include "..."`` first.
    ``options`` are further NVRTC options. ``cuda_major`` (13, 12) selects the toolkit; by default the newest that
    knows ``arch``. A file outside of these folders cannot be included, nor one that is ``withheld``. The result comes
    from the cache on disk if source, name, options, every included file and the compiler are the same. Raise
    ``KitError`` if NVRTC is missing or does not support an option, and ``UnknownArchitecture``.
    """
    if problem := _unreadable(source, path, entry):
        return problem
    if not ARCHITECTURE.fullmatch(arch):
        raise UnknownArchitecture(f'"{arch}" is not an architecture; write one like sm_90')
    major = nvrtc.choose_major(arch) if cuda_major is None else cuda_major
    name = _program_name(path)
    source = source.removeprefix("\ufeff")  # a byte order mark, as some editors write
    source = JOINED_LINKAGE.sub(r'extern"C" ', source)
    given = [Path(os.path.abspath(folder)) for folder in include_dirs]
    toolkits = [folder for folder in given if any((folder / it).exists() for it in OF_A_TOOLKIT)]
    folders = [*(folder for folder in given if folder not in toolkits), HEADERS]
    cuda_folders = [*toolkits, *nvrtc.include_folders(major)]
    without_cccl = not any((folder / "cuda" / "std").is_dir() for folder in (*folders, *cuda_folders))
    cuda_folders += [WITHOUT_CCCL] * without_cccl
    places = includes.Places(
        name, path, folders[:-1], (HEADERS, *[WITH_CCCL] * (not without_cccl), *cuda_folders), withheld
    )
    folders[:0] = [] if without_cccl else [WITH_CCCL]
    if outside := includes.forbidden(source, places, defines):
        return NotCompiled((outside,), "")
    # Cooperative groups then include what they need themselves, and compile in a tenth of the time.
    limited = without_cccl or not _names_cccl(source, name, folders)
    defined = ["-D_CG_LIMIT_INCLUDED_DEPENDENCIES"] * limited
    defined += [f"-D{it}=1" for it in _names_of_nvcc(source, name) if it not in (defines or {})]
    defined += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    arguments = _arguments(arch, [*defined, *options], [*folders, *cuda_folders])
    if not assembled:
        arguments = [it for it in arguments if not it.startswith("--ptxas-options")]
        arguments[0] = f"-arch={arch.replace('sm', 'compute')}"
    names = neutral_paths.expected(tools.folders_read(major, name, arguments))
    started = time.time_ns()
    identity = partial(_cache_key, source, name, arguments, major, folders, cuda_folders, names)
    program, listed = identity(), None
    if program is None and major == FIRST_WITH_LIST:
        arguments.append(files_read.LIST_FILES)
        listed = identity(read=())
    if listed:
        program = identity(read=read) if (read := json.loads(compile_cache.get(listed) or b"[]")) else None
    finish = partial(_compiled, source, path, name, arch, entry, (*cuda_folders, HEADERS), options)
    if program and (kept := _from_cache(program, entry, path)):
        translation, version, left_out = kept
        return finish(replace(translation, called=names.called), version, left_out)

    key = (major, source, name, *arguments)
    if (beside := _recent.beside(key, entry)) is not None:
        return finish(*beside, ())
    answer = nvrtc_child.translate(major, source, name, arguments, entry)
    if isinstance(answer, nvrtc_child.Broken) and not answer.hung:  # try once more: the file may not be the cause
        answer = nvrtc_child.translate(major, source, name, arguments, entry)
    if isinstance(answer, nvrtc_child.Broken):
        return _explain_broken(answer, major, source, name, arguments, entry, path)
    result, version = answer
    left_out = ()
    _recent.keep(key, entry, result, version)
    if not result.ok and not result.log.startswith("nvrtc: error"):
        from gemm_lessons.engine.compiler import device_part  # needed only if the first attempt failed

        result, left_out = device_part.translate(result, source, places, arguments, entry, major)
    made = finish(result, version, left_out)
    if isinstance(made, NotCompiled):
        return made
    # An included file may have changed meanwhile; then it is unknown which version was compiled.
    if listed and result.read:
        read = sorted({*map(names.of_any, result.read)})
        program = identity(read=read) if files_read.is_older(read, names, started) else None
        compile_cache.put(listed, json.dumps(read).encode())
    elif program != identity():
        program = None
    same = result.called == names.called and nvrtc.is_library_of(major, version)
    if program and same:
        _to_cache(program, entry, result, version, left_out, path)
    return made


def _names_cccl(source: str, name: str, folders: Sequence[Path]) -> bool:
    """Return whether a source or its own headers may use NVIDIA's C++ core libraries."""
    own = cuda_source.include_closure(source, Path(name).parent, folders, [])
    texts = () if own is None else (source, *(content.decode(errors="replace") for content in own.values()))
    return own is None or any(OF_CCCL.search(text) for text in texts)


def _names_of_nvcc(source: str, name: str) -> list[str]:
    """Return the names of ``OF_NVCC`` that a source, or a header in its folder, mentions.

    Libraries in other folders are left out: they know NVRTC by its own name.
    """
    own = cuda_source.include_closure(source, Path(name).parent, (), ())
    texts = (source, *(content.decode(errors="replace") for content in (own or {}).values()))
    return [it for it in OF_NVCC if any(it in text for text in texts)]


def _compiled(
    source: str,
    path: str,
    name: str,
    arch: str,
    entry: str,
    theirs: Sequence[Path],
    options: Sequence[str],
    result: nvrtc.Translation,
    version: tuple[int, int],
    left_out: tuple[Diagnostic, ...],
) -> Compiled | NotCompiled:
    """Turn NVRTC's answer into a result. Warnings in the folders ``theirs`` are left out: users cannot fix them."""
    result = neutral_paths.restore_names(result)
    compiler = f"NVRTC {version[0]}.{version[1]}"
    _check_options(result.log, arch, compiler)
    ptx = with_file_names(result.ptx, {name: path})
    found = parse_log(result.log, path, source, ptx, {name: path})
    inside = tuple(f"{folder}/" for folder in theirs)
    found = tuple(d for d in found if d.severity == "error" or not d.file.startswith(inside))
    if not result.ok:
        failure = explain_failure(found, result.log, path, source, entry)
        causes = [d for d in left_out if d.severity == "error"]
        return NotCompiled((*causes, *failure, *(d for d in left_out if d not in causes)), result.log)
    resources = read_resources(result.log, result.lowered)
    layout = read_shared_layout(ptx, result.lowered, resources.shared_bytes)
    if not result.cubin:
        layout = shared_arrays(ptx, result.lowered)
        resources = replace(resources, shared_bytes=max((offset + size for _, offset, size in layout), default=0))
    return Compiled(
        source=source,
        path=path,
        entry=result.lowered,
        arch=arch,
        ptx=ptx,
        cubin=result.cubin,
        resources=resources,
        diagnostics=(*found, *left_out, *_too_much_local(resources, source, path, entry)),
        compiler=compiler,
        shared_layout=layout,
        joins=not any(APART.search(option) for option in options),
    )


def _arguments(arch: str, options: Iterable[str], folders: Iterable[Path]) -> list[str]:
    """Return NVRTC's options, with C++17 unless ``options`` name another standard."""
    options = list(options)
    return [
        f"-arch={arch}",
        "-lineinfo",
        *[STANDARD] * (not any(option.startswith("-std=") for option in options)),
        "--ptxas-options=-v",
        "--device-int128",
        f"--pre-include={PRE_INCLUDED}",
        f"-diag-suppress={UNFINISHED}",
        *options,
        *(f"--include-path={folder}" for folder in folders),
    ]


def _check_options(log: str, arch: str, compiler: str) -> None:
    """Raise ``KitError`` if the compiler rejected its options rather than the source."""
    if log.startswith("nvrtc: error: invalid value for --gpu-architecture"):
        raise UnknownArchitecture(f"{arch} is not an architecture that {compiler} knows; sm_90 is one")
    if log.startswith("nvrtc: error"):
        raise KitError(f"{compiler} refused its options: {log.strip()} (arch {arch})")


def _unreadable(source: str, path: str, entry: str) -> NotCompiled | None:
    """Report a source that the compiler cannot take: NUL bytes, invalid Unicode, PTX, control bytes in a name."""
    line, message = 1, ""
    if "\0" in source:
        line = cuda_source.line_of(source, source.index("\0"))
        message = "the file holds a NUL byte: it is not a text file"
    elif head := cuda_source.PTX_HEAD.search(source):
        line = cuda_source.line_of(source, head.start(1))
        message = "this is PTX, which compilers write: a kernel is CUDA C++ here; gemm-lessons inspect runs PTX"
    elif bad := re.search(r"[\ud800-\udfff]", source):
        line = cuda_source.line_of(source, bad.start())
        message = "the file is not UTF-8 text"
    elif not entry.strip() or not entry.isprintable():
        message = f"{entry!r} is not the name of a kernel"
    return NotCompiled((Diagnostic(path, line, None, "error", message),), "") if message else None


def _program_name(path: str) -> str:
    """Return the file name for NVRTC: absolute, so that includes are found; PTX allows no quotes in it."""
    return re.sub(r'^//|["\\\x00-\x1f]', lambda it: "/" if it[0] == "//" else "_", os.path.abspath(path))


def with_file_names(ptx: str, names: Mapping[str, str]) -> str:
    """Return PTX whose ``.file`` lines use the caller's names; NVRTC writes non-ASCII bytes as octal escapes."""

    def rename(match: re.Match[str]) -> str:
        file = plain_file_name(match[2])
        return f"{match[1]}{quoted(names.get(file, file))}"

    return re.sub(r'^(\s*\.file\s+\d+\s+)"(.*)"', rename, ptx, flags=re.M)


def quoted(name: str) -> str:
    """Return a name as a string of PTX."""
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{escaped}"'


def _too_much_local(resources: Resources, source: str, path: str, entry: str) -> tuple[Diagnostic, ...]:
    """Report local arrays that are too large: ptxas accepts any size, but the launch would fail."""
    if resources.stack_bytes <= MAX_LOCAL_BYTES:
        return ()
    message = (
        f"each thread needs {resources.stack_bytes:,} bytes of local memory for its arrays; "
        f"a GPU has at most {MAX_LOCAL_BYTES:,} for one thread, so the kernel cannot be launched there"
    )
    line = next((kernel.line for kernel in cuda_source.kernels(source) if kernel.name == base_name(entry)), 1)
    return (Diagnostic(path, line, None, "warning", message),)


def _explain_broken(
    broken: nvrtc_child.Broken, major: int, source: str, name: str, arguments: Sequence[str], entry: str, path: str
) -> NotCompiled:
    """Explain a compiler that crashed or hung. A crash is at the last line of the shortest beginning that crashes."""
    if broken.hung:
        message = f"{broken.reason}: look for a template or a constexpr that never ends, or a loop unrolled too far"
        return NotCompiled((Diagnostic(path, 1, None, "error", message),), broken.reason)
    lines = source.split("\n")
    first, last = 1, len(lines)
    while first < last:
        middle = (first + last) // 2
        start = "\n".join(lines[:middle])
        if isinstance(nvrtc_child.translate(major, start, name, arguments, entry), nvrtc_child.Broken):
            last = middle
        else:
            first = middle + 1
    message = "NVIDIA's compiler crashes here, and so cannot say what is wrong: look for a typing slip in this line"
    return NotCompiled((Diagnostic(path, last, None, "error", message),), broken.reason)


# --- the cache -----------------------------------------------------------------------------------------------------


def _cache_key(
    source: str,
    name: str,
    arguments: Sequence[str],
    major: int,
    folders: Sequence[Path],
    cuda_folders: Sequence[Path],
    names: neutral_paths.NeutralNames,
    read: Sequence[str] | None = None,
) -> str | None:
    """Return the hash of everything the result depends on except the kernel; None if unknown, or without a cache.

    Folders are named as for NVRTC, so that copies of a file share one key in any folder. ``read``: the files that the
    compiler listed; without them, the text must show what it includes.
    """
    library = nvrtc.library(major)
    if compile_cache.folder() is None or library is None:
        return None
    whole = f"#include <{PRE_INCLUDED}>\n{source}"
    included: Mapping[Path, bytes] | None = {}
    if read is None:
        included = cuda_source.include_closure(whole, Path(name).parent, folders, cuda_folders)
    if included is None:
        return None
    searched = (*folders, *cuda_folders)
    state = files_read.state_of(read, whole, name, searched, names) if read is not None else ()
    identity = [part for file in nvrtc.library_files(library) for part in (file.name, compile_cache.identity(file))]
    pairs = sorted((names.of_any(str(file)), content) for file, content in included.items())
    given = tools.renamed(arguments, names)
    counted = [str(len(it)) for it in (given, identity, names.nested)]
    return compile_cache.key_of(
        CACHE_FORMAT, source, names.of_file(name), *counted, *given, *identity, *names.nested,
        *(part for pair in pairs for part in pair), *state,
    )  # fmt: skip


def _to_cache(
    program: str,
    entry: str,
    made: nvrtc.Translation,
    version: tuple[int, int],
    left_out: Sequence[Diagnostic],
    path: str,
) -> None:
    """Store a program under its own key if other kernels of it may be requested by their plain names."""
    record = {
        "version": version,
        "log": made.log,
        "lowered": made.lowered,
        "ptx": made.ptx,
        "cubin": base64.b64encode(made.cubin).decode(),
        "left_out": [asdict(d) | ({"file": HERE} if d.file == path else {}) for d in left_out],
    }
    shared = made.lowered == entry and not left_out and made.ptx.count(".entry ") > 1
    compile_cache.put(compile_cache.key_of(program, "" if shared else entry), json.dumps(record).encode())


def _from_cache(
    program: str, entry: str, path: str
) -> tuple[nvrtc.Translation, tuple[int, int], tuple[Diagnostic, ...]] | None:
    """Return NVRTC's answer, its version, and the diagnostics about code left out.

    A program of several kernels has one entry for all whose names are neither mangled nor of a template.
    """
    for of in (entry, ""):
        data = compile_cache.get(compile_cache.key_of(program, of))
        record = json.loads(data or b"null")
        if record is None or not (of or re.search(rf"\.entry {re.escape(entry)}\(", record["ptx"])):
            continue
        lowered = record["lowered"] if of else entry
        made = nvrtc.Translation(True, record["log"], lowered, record["ptx"], base64.b64decode(record["cubin"]))
        left_out = tuple(Diagnostic(**d | ({"file": path} if d["file"] == HERE else {})) for d in record["left_out"])
        return made, (record["version"][0], record["version"][1]), left_out
    return None
