"""Compile the device part of a file that NVRTC rejects because it has code of the host.

The file's own host code is blanked out (``whole_file``). Headers of libraries such as CuTe stay as they are: with
``-default-device``, NVRTC compiles their functions without ``__device__`` for the device. The option is not used for
the user's own files, where a missing ``__device__`` is an error, except for lambdas: NVRTC 13.0 treats those with
``auto`` parameters as functions of the host.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path

from gemm_lessons.engine.compiler import neutral_paths, nvrtc, nvrtc_child, whole_file
from gemm_lessons.engine.compiler import source as cuda_source
from gemm_lessons.engine.compiler.diagnostics import (
    HOST_FUNCTION,
    NAME_EXPRESSION_FILE,
    OF_THE_RUNTIME,
    Diagnostic,
    Severity,
    explain_missing,
    parse_log,
)
from gemm_lessons.engine.compiler.includes import Places
from gemm_lessons.engine.compiler.tokens import blanked
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

MOST_ROUNDS = 6  # attempts to compile a file, each without what the last one rejected
# Warnings about libraries that no user can fix: macros that the kit's headers define, too; static members of templates.
DEFAULT_DEVICE = ("-default-device", "-diag-suppress=47,20044")
# Includes parts of std that libraries and files use without including them, because headers of the host do.
STD_NAMES = "--pre-include=std_names.h"
WITH_LIBRARIES = (*DEFAULT_DEVICE, STD_NAMES)
# Headers that a library's headers include, with names that they define: a file uses these without including them.
BY_NAME = {
    "cuda_fp16.h": regex("(?:__)?half2?|__half\\w*|__h\\w+|__float2half\\w*"),
    "cuda_bf16.h": regex("__nv_bfloat16\\w*|__float2bfloat16\\w*|__bfloat16\\w*"),
    "cfloat": regex("(?:FLT|DBL)_[A-Z_0-9]+"),
}
# Errors of a header of the host; other errors may be the kernel's own, reported inside a library's template.
OF_THE_HOST = regex(
    r'cannot open source file|identifier "\w+" is undefined|has no member|must be a class or namespace|^#error'
    r"|__host__ function"
)
BEFORE_LAMBDA = regex(r"(?<!operator)\[[^][]*\][ \t]*$")  # what is before a lambda's parameters
UNDEFINED_NAME = regex(r'identifier "(\w+)" is undefined')
NO_FILE = regex(r'cannot open source file "([^"]*)"')
UNKNOWN_NAME = regex(r"is undefined|has no member|must be a class or namespace")
NO_MEMBER = regex(r'namespace "(\w+)" has no member[a-z ]* "(\w+)"')
NO_NAMESPACE = regex("must be a class or namespace")
# nvcc's int64_t is a long on Linux, NVRTC's a long long: code may take one for the other.
MIXED_INT64 = regex(r'"[^"]*\blong [^"]*" \(aka "|"[^"]*int64_t[^"]*"')
LONG_INT64 = "-DGEMM_LESSONS_LONG_INT64"
# Initialisers of C++20 that nvcc takes in every standard, as GCC does: {.name = value}.
DESIGNATED = regex(r"[{,]\s*\.[A-Za-z_]\w*\s*=(?!=)")
EXPRESSION = "expected an expression"
NARROWING = "invalid narrowing conversion"  # an error of NVRTC and a warning of nvcc
STANDARD, LATER_STANDARD = "-std=c++17", "-std=c++20"
NARROWING_WARNS = "-diag-warn=2361"
MOST_NAMED = 3  # missing files in one message
LARGEST = 2 << 20  # characters of a file with all its headers that are searched for host code

Result = tuple[nvrtc.Translation, tuple[Diagnostic, ...]]


def translate(
    failed: nvrtc.Translation, source: str, places: Places, arguments: Sequence[str], entry: str, major: int
) -> Result:
    """Compile again without the host's code, if the file has any; else return ``failed`` again.

    Also return diagnostics about missing included files: warnings if the rest compiles without them, errors if they may
    be the cause. Files that only the host needs are not reported.
    """
    job = _Job(failed, source, places, arguments, entry, major)
    try:
        result, left_out = job.device_part()
    except _Unfinished as problem:
        result, left_out = nvrtc.Translation(False, f"{places.name}(1): error: {problem}"), ()
    return replace(result, read=(*failed.read, *job.read)), left_out


class _Unfinished(Exception):
    """The compiler took too long, or crashed. Errors of other attempts are not reported: they are not the cause."""


@dataclass(frozen=True)
class _Job:
    """One file to compile, and NVRTC's answer to the whole of it."""

    failed: nvrtc.Translation
    source: str
    places: Places
    arguments: Sequence[str]
    entry: str
    major: int
    read: set[str] = field(default_factory=set)  # files that the result depends on, by neutral names
    of_its_own: list[nvrtc.Translation] = field(default_factory=list)  # errors in lines that the kernel's name needs

    def device_part(self) -> Result:
        """Return the first attempt that compiles; if there is none, the one whose errors explain the failure best."""
        if any(NARROWING in d.message for d in self._errors(self.failed)):
            answer = self.compiled(self.source)
            if answer is not None and answer.ok:
                return answer, ()
        if self.only_lambdas_fail(self.failed):
            return self.compiled(self.source, DEFAULT_DEVICE) or self.failed, ()
        other = self._in_another_dialect(self.source, (), self.failed)
        if other is not None and other.ok:
            return other, ()
        if self._misses_std(self.failed):
            answer = self.compiled(self.source)
            if answer is not None and answer.ok:
                return answer, ()
        found = self.with_libraries()
        if found is not None and (found[0].ok or found[0] in self.of_its_own):
            return found
        whole = self._gathered(self.places)
        if found is not None and len(whole.text) > LARGEST:
            return found
        alone = self.without_host_code(whole)
        if found is None or alone[0].ok or (self._only_name_fails(alone[0]) and not self._only_name_fails(found[0])):
            return alone
        return alone if self._only_lacks_a_host_header(found[0], alone[0]) else found

    def _only_lacks_a_host_header(self, result: nvrtc.Translation, without: nvrtc.Translation) -> bool:
        """Return whether an attempt stopped at ``#include <pthread.h>`` or the like, where the attempt ``without`` it
        lacks only names of the user's own."""
        names = (NO_FILE.match(d.message) for d in self._errors(result))
        stopped = any(m and m[1].endswith(".h") and whole_file.is_of_the_host(m[1]) for m in names)
        errors = self._errors(without)
        return stopped and all(d.file == self.places.name and UNDEFINED_NAME.match(d.message) for d in errors)

    def _gathered(self, places: Places) -> whole_file.WholeFile:
        whole = whole_file.gather(self.source, places)
        self.read.update({file for file, _ in whole.origins} - {self.places.name})
        return whole

    def without_host_code(self, gathered: whole_file.WholeFile) -> Result:
        """Compile the file and its headers as one text, without the host's functions."""
        whole = whole_file.kernels_only(gathered)
        if whole.text == self.source:
            return self.failed, ()
        result = self.failed
        included: list[str] = []
        for _ in range(MOST_ROUNDS):
            answer = self.compiled(whole.text, included)
            if answer is None:
                raise _Unfinished("NVIDIA's compiler crashes on this file when the code of the host is left out")
            result = answer
            if gathered.missing and (more := [it for it in self._headers_by_name(result) if it not in included]):
                included += more
                continue
            smaller = None if result.ok else whole_file.without(whole, ((d.file, d.line) for d in self._errors(result)))
            if smaller is None:
                break
            whole = smaller
        if self._calls_removed_function(result, whole.removed):
            return self.failed, ()  # a kernel calls a function without __device__: the first error says so
        return result, self._left_out(result, whole.missing)

    def with_libraries(self) -> Result | None:
        """Compile the user's own files without the host's functions, libraries as they are; None without libraries."""
        first = self._errors(self.failed)
        complaints = [d for d in first if d.message == HOST_FUNCTION]
        inside = [d for d in complaints if self._is_of_a_library(d.file)]
        mine = [it for it in self.places.folders if str(it) in self._own]
        others = [it for it in self.places.folders if str(it) not in self._own]
        places = replace(self.places, folders=mine, system=(*others, *self.places.system))
        whole = self._gathered(places)
        stopped = any(NO_FILE.match(d.message) for d in first)
        if not inside and not (stopped and any(self._libraries(whole.text))):
            return None
        if len(inside) == len(first):  # only libraries have functions without __device__
            result = self.compiled(self.source, WITH_LIBRARIES)
            if result is None or result.ok:
                return (result, ()) if result else None
        whole = whole_file.kernels_only(whole)
        dropped: list[str] = []
        failed: list[nvrtc.Translation] = []
        smaller: whole_file.WholeFile | None = whole
        while smaller is not None and len(failed) < MOST_ROUNDS:
            whole = smaller
            result = self.compiled(whole.text, WITH_LIBRARIES)
            if result is None:
                return None
            if result.ok:
                return result, (*self._left_out(result, whole.missing), *self._dropped(dropped))
            failed.append(result)
            errors = self._errors(result)
            smaller = whole_file.without(whole, ((d.file, d.line) for d in errors))
            smaller = smaller or self._without_includes(whole, errors, dropped)
        if self._calls_removed_function(failed[-1], whole.removed):  # a kernel calls a function without __device__
            own = (f"{d.file}({d.line}): error: {d.message}" for d in complaints if d not in inside)
            return nvrtc.Translation(False, "\n".join(own)), ()
        last = self._errors(failed[-1])
        tells = self._only_name_fails(failed[-1]) and not self._has_kernels(dropped)
        # No header of the host causes them: they are the kernel's own.
        tells = tells or not any(OF_THE_HOST.search(d.message) and not OF_THE_RUNTIME.match(d.message) for d in last)
        tells = tells or self._lacks_names_of_its_own(last, dropped)
        self.of_its_own.extend(self._of_its_own(failed))
        told = next(iter(self.of_its_own), failed[-1] if tells else failed[0])
        return told, self._left_out(told, whole.missing)

    def _of_its_own(self, failed: Sequence[nvrtc.Translation]) -> Iterator[nvrtc.Translation]:
        """Yield errors in lines of the user's own that define a name of the requested kernel: without these lines, only
        that name is missing at the end."""
        missing = self._undefined(failed[-1]) if self._only_name_fails(failed[-1]) else set()
        for result in failed[:-1] if any(re.search(rf"\b{name}\b", self.source) for name in missing) else ():
            own = [d for d in self._errors(result) if d.file == self.places.name and d.message != HOST_FUNCTION]
            if own:
                yield nvrtc.Translation(False, "\n".join(f"{d.file}({d.line}): error: {d.message}" for d in own))

    def compiled(self, text: str, options: Sequence[str] = ()) -> nvrtc.Translation | None:
        """Compile a text, with further options; None if the compiler crashes. Raise ``_Unfinished``."""
        answer = nvrtc_child.translate(
            self.major, text, self.places.name, [*options, NARROWING_WARNS, *self.arguments], self.entry
        )
        if isinstance(answer, nvrtc_child.Broken):
            if answer.hung:
                raise _Unfinished(answer.reason)
            return None
        self.read.update(answer[0].read)
        if not options and self.only_lambdas_fail(answer[0]):
            return self.compiled(text, DEFAULT_DEVICE)
        if STD_NAMES not in options and self._misses_std(answer[0]):
            return self.compiled(text, (*options, STD_NAMES))
        return self._in_another_dialect(text, options, answer[0])

    def _in_another_dialect(
        self, text: str, options: Sequence[str], answer: nvrtc.Translation
    ) -> nvrtc.Translation | None:
        """Compile again as nvcc would on Linux, if the errors show a difference; else return ``answer``."""
        errors = self._errors(answer)
        if LONG_INT64 not in options and any(MIXED_INT64.search(d.message) for d in errors):
            other = self.compiled(text, (*options, LONG_INT64))
            return other if other is not None and other.ok else answer
        if STANDARD in self.arguments and any(d.message == EXPRESSION for d in errors) and DESIGNATED.search(text):
            arguments = [it for it in self.arguments if it != STANDARD]
            other = replace(self, arguments=(*arguments, LATER_STANDARD)).compiled(text, options)
            return other if other is not None and other.ok else answer
        return answer

    def _misses_std(self, result: nvrtc.Translation) -> bool:
        """Return whether a name of the standard library is missing because the file does not include its header."""
        named = itertools.chain.from_iterable(NO_MEMBER.findall(d.message) for d in self._errors(result))
        return any(space == "std" for space, _ in named)

    def only_lambdas_fail(self, result: nvrtc.Translation) -> bool:
        """Return whether every error is about a lambda that NVRTC treats as a function of the host."""
        errors = self._errors(result)
        return not result.ok and bool(errors) and all(map(self._is_at_lambda, errors))

    def _headers_by_name(self, result: nvrtc.Translation) -> Iterator[str]:
        """Yield options that include the headers of undefined names."""
        for header, names in BY_NAME.items():
            if any(map(names.fullmatch, self._undefined(result))):
                yield f"--pre-include={header}"

    def _only_name_fails(self, result: nvrtc.Translation) -> bool:
        """Return whether the file compiles but has no kernel of the requested name."""
        errors = self._errors(result)
        return bool(errors) and all(d.file == NAME_EXPRESSION_FILE for d in errors)

    def _has_kernels(self, dropped: Sequence[str]) -> bool:
        """Return whether an included file that was left out has kernels."""
        headers = (header for match, header in self._libraries(self.source) if (match[1] or match[2]) in dropped)
        return any(b"__global__" in (cuda_source.content_of(header) or b"") for header in headers)

    def _lacks_names_of_its_own(self, errors: Sequence[Diagnostic], dropped: Sequence[str]) -> bool:
        """Return whether every error is an undefined name that no included file that was left out mentions."""
        found = [UNDEFINED_NAME.search(d.message) for d in errors]
        headers = [header for match, header in self._libraries(self.source) if (match[1] or match[2]) in dropped]
        files = set().union(*map(self._closure, headers))
        cuda = tuple(f"{os.path.realpath(folder)}/" for folder in self.places.system)  # these were never left out
        text = b"".join(cuda_source.content_of(Path(file)) or b"" for file in files if not file.startswith(cuda))
        return bool(found) and all(match is not None and match[1].encode() not in text for match in found)

    def _is_at_lambda(self, error: Diagnostic) -> bool:
        if error.message != HOST_FUNCTION or not error.column:
            return False
        text = self.source
        if error.file != self.places.name:
            text = (cuda_source.content_of(Path(error.file)) or b"").decode(errors="replace")
        return bool(BEFORE_LAMBDA.search("".join(text.split("\n")[error.line - 1 : error.line])[: error.column - 1]))

    def _errors(self, result: nvrtc.Translation) -> list[Diagnostic]:
        log = neutral_paths.restore_names(result).log
        return [d for d in parse_log(log, self.places.name, self.source) if d.severity == "error"]

    def _calls_removed_function(self, result: nvrtc.Translation, names: frozenset[str]) -> bool:
        """Return whether an undefined name is among those that were removed as host code."""
        return not result.ok and any(name in names for name in self._undefined(result))

    def _undefined(self, result: nvrtc.Translation) -> set[str]:
        errors = self._errors(result)
        return {name for d in errors for name in UNDEFINED_NAME.findall(d.message)}

    def _left_out(self, result: nvrtc.Translation, missing: Iterable[str]) -> tuple[Diagnostic, ...]:
        """Report missing files: those that may cause an error as errors, the others in one warning."""
        files = list(dict.fromkeys(missing))
        others = [file for file in files if not whole_file.is_of_the_host(file)]
        if result.ok:
            return tuple(self._about("warning", file) for file in others)
        errors = self._errors(result)
        if not any(UNKNOWN_NAME.search(d.message) for d in errors):
            return ()
        unknown = set(itertools.chain.from_iterable(map(self._unknown, errors)))
        causes = [
            file
            for file in files
            if unknown & {file, file.split("/")[0]} or (file in others and whole_file.is_of_a_device_library(file))
        ]
        rest = [file for file in others if file not in causes]
        warning = [self._about("warning", rest[0], rest[1:])] if rest else []
        return (*(self._about("error", file) for file in causes), *warning)

    def _unknown(self, error: Diagnostic) -> Iterator[str]:
        """Yield the undefined namespace of an error, or the undefined member of the standard library."""
        for space, member in NO_MEMBER.findall(error.message):
            yield member if space == "std" else space
        if NO_NAMESPACE.search(error.message) and error.file == self.places.name and error.column:
            line = self.source.split("\n")[error.line - 1 : error.line]
            yield from re.findall(r"\A\w+", line[0][error.column - 1 :] if line else "")

    def _dropped(self, files: Iterable[str]) -> tuple[Diagnostic, ...]:
        return tuple(
            self._at(file, "warning", f"{file} has code of the host; compiled without it")
            for file in files
            if not whole_file.is_of_the_host(file)
        )

    def _about(self, severity: Severity, file: str, others: Sequence[str] = ()) -> Diagnostic:
        """Report a missing file, and others by name only."""
        named = ", ".join(f'"{it}"' for it in others[:MOST_NAMED])
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        also = f", nor {named}{more}" if others else ""
        return self._at(file, severity, f"{explain_missing(file)}{also}; compiled without it")

    def _at(self, file: str, severity: Severity, message: str) -> Diagnostic:
        """Return a message at the line that includes a file."""
        line = cuda_source.line_of(self.source, max(0, self.source.find(file)))
        return Diagnostic(self.places.path, line, None, severity, message)

    # --- libraries ---

    @property
    def _own(self) -> tuple[str, ...]:
        """Return the folders of the user's own files: the source's, and include folders that contain the source."""
        own = os.path.dirname(self.places.name)
        return (own, *(root for root in map(str, self.places.folders) if own.startswith(f"{root}/")))

    def _is_of_a_library(self, file: str) -> bool:
        """Return whether a file belongs to an include folder that does not contain the source."""
        roots = [*self._own, *map(str, self.places.folders), *map(str, self.places.system)]
        around = [root for root in roots if file.startswith(f"{root}/")]
        return max(around, key=len, default=self._own[0]) not in self._own

    def _libraries(self, text: str) -> Iterator[tuple[re.Match[str], Path]]:
        """Yield the includes of library headers in the user's own files, each with the header."""
        for match in cuda_source.INCLUDE.finditer(text):
            name = match[1] or match[2]
            found = next((place / name for place in self.places.folders if (place / name).is_file()), None)
            if found is None and re.match("(?:cuda|cub|thrust)/", name):
                found = next((place / name for place in self.places.system if (place / name).is_file()), None)
            if found is not None and self._is_of_a_library(str(found)):
                yield match, found

    def _without_includes(
        self, whole: whole_file.WholeFile, errors: Iterable[Diagnostic], dropped: list[str]
    ) -> whole_file.WholeFile | None:
        """Return the file without the includes that need the host, also added to ``dropped``; None if there are none.

        If several includes reach the file of an error, the one that reaches the fewest files is removed.
        """
        failing = {os.path.realpath(d.file) for d in errors if OF_THE_HOST.search(d.message)}
        reached = [(match, self._closure(header)) for match, header in self._libraries(whole.text)]
        blamed = {}
        for file in failing:
            candidates = [(len(closure), match.start(), match) for match, closure in reached if file in closure]
            if candidates:
                _, start, match = min(candidates)
                blamed[start] = match
        if not blamed:
            return None
        dropped += (match[1] or match[2] for match in blamed.values())
        return replace(whole, text=blanked(whole.text, ((at, blamed[at].end()) for at in sorted(blamed))))

    def _closure(self, header: Path) -> frozenset[str]:
        """Return the names of a header and of all headers that it may include, directly or not."""
        found = {os.path.realpath(header)}
        waiting = [*found]
        folders = tuple(map(str, (*self.places.folders, *self.places.system)))
        while waiting:
            inner = _included(waiting.pop(), folders) - found
            found |= inner
            waiting += inner
        return frozenset(found)


@lru_cache(maxsize=4096)
def _included(file: str, folders: tuple[str, ...]) -> frozenset[str]:
    """Return the files that a header names, each in the first folder that has it."""
    text = (cuda_source.content_of(Path(file)) or b"").decode(errors="replace")
    names = dict.fromkeys(match[1] or match[2] for match in cuda_source.INCLUDE.finditer(text))
    places = (os.path.dirname(file), *folders)
    found = (next(filter(os.path.isfile, (os.path.join(it, name) for it in places)), None) for name in names)
    return frozenset(os.path.realpath(it) for it in found if it is not None)
