"""Proofs for lesson authors: a lesson's kernels, its text and its numbers do what they should.

    lesson's folder --Candidate--> texts, runs on demand --prove--> Proven for each Proof: its flaws, one sentence each

A proof is a generator of flaws; its docstring states the requirement that it proves.

- ``prove``: the list of proofs, and what each depends on; ``candidate``: a lesson with its runs
- ``kernels``, ``texts``, ``questions``, ``pitfalls``: the proofs; ``numbers``: tables in texts that are computed
- ``skeleton``: the files of a new lesson
"""
