"""Compile CUDA C++ to PTX, machine code, resources and diagnostics, by NVRTC, ptxas and nvdisasm.

    in:   source text, its path, entry name, macros, include folders, architecture, NVRTC options
    held: nothing; compilations are cached on disk under a hash of everything they depend on
    out:  Compiled (PTX, cubin, machine code, Resources, warnings), or NotCompiled (Diagnostic records)

- ``compile``: source -> Compiled; ``ptx_file``: the same for PTX of another compiler; ``cache``: the cache on disk;
  ``files_read``: its key for includes that the text does not show; ``derived``: records of later rooms in that cache
- ``nvrtc``: bindings of the library, which run in a process started by ``nvrtc_child`` or, in a sandbox, by ``tools``;
  ``neutral_paths``: the same folder names in every run; ``toolkit``: which headers are CUDA's
- ``device_part``: files with code of the host, and libraries
- ``source``, ``tokens``, ``includes``, ``whole_file``, ``local_bounds``: the source as text
- ``diagnostics``, ``ptxas``: the compiler's log; ``layouts``: fields of structs
- ``elf``, ``cubin``, ``sass``: the cubin, its data, and its disassembly; ``joined_cubins``: that of several in one call
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import cache, derived, elf, nvrtc, tools
    from gemm_lessons.engine.compiler.compile import (
        Compiled, NotCompiled, SharedSass, compile_source, disassemble_ahead,
    )  # fmt: skip
    from gemm_lessons.engine.compiler.derived import kept_between_runs
    from gemm_lessons.engine.compiler.diagnostics import Diagnostic
    from gemm_lessons.engine.compiler.includes import Places, forbidden
    from gemm_lessons.engine.compiler.local_bounds import may_run_past
    from gemm_lessons.engine.compiler.nvrtc import choose_major
    from gemm_lessons.engine.compiler.source import (
        PASTED, PRINTF_OPTIONS, PTX_HEAD, GlobalFunction, content_of, entries, include_closure, included_names, kernels,
        line_of, names_in, without_printf,
    )  # fmt: skip
    from gemm_lessons.engine.compiler.tokens import OPENING, Lexed, Token, blanked, tokens_of, without_comments
else:
    __getattr__ = on_first_use(__name__)
