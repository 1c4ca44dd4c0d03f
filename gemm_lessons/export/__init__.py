"""Export a lesson as a stand-alone program, for a GPU machine without this kit.

    Lesson, kernel file --program.context--> values in C++ --folder.export_lesson--> main.cu, headers, Makefile,
    README.md

- ``program``: the values of the templates, of a kernel file with the headers that it includes; ``cplusplus``:
  expressions and formulas in C++; ``folder``: the files written
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.export.folder import Exported, export_lesson
else:
    __getattr__ = on_first_use(__name__)
