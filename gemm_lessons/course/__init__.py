"""The course: lessons, their arithmetic and their files, the problem that a lesson poses, the learner's progress.

- ``folder``: where the lessons lie; ``original``: as they came; ``lesson_hash``: which they are
- ``lesson``: the records, read by ``lesson_toml`` and ``toml``, with ``expression`` and ``search_space``; ``tiles``:
  the same lesson otherwise
- ``problem``: what a kernel is to compute: ``data``, a ``formula`` over it, ``inputs``; ``hidden``: at which shapes
- ``text``, ``questions``, ``pitfalls``, ``bugs``, ``todos``, ``measured``: what else a lesson's folder holds
- ``progress``, ``standing``: how far the learner is
"""
