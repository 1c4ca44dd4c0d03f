"""Proofs for lesson authors: a lesson's kernels, its text and its numbers do what they should.

    lesson's folder --Candidate--> texts, runs on demand --prove--> Proven for each Proof: its flaws, one sentence each

A proof is a generator of flaws; its docstring states the requirement that it proves.

- ``prove``: the list of proofs, and what each depends on; ``candidate``: a lesson with its runs
- ``kernels``, ``texts``, ``questions``, ``pitfalls``: the proofs; ``numbers``: tables in texts that are computed
- ``skeleton``: the files of a new lesson
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.authoring.candidate import Shared
    from gemm_lessons.authoring.numbers import Numbers
    from gemm_lessons.authoring.prove import Proven, prove_lesson
    from gemm_lessons.authoring.questions import fill_in
    from gemm_lessons.authoring.skeleton import new_lesson
else:
    __getattr__ = on_first_use(__name__)
