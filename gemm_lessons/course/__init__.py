"""The course: lessons and their files, the learner's folder and progress.

- ``folder``: where the lessons are; ``original``: as they were installed; ``lesson_hash``: which version
- ``lesson``: the records, read by ``lesson_toml`` with ``toml`` and ``search_space``
- ``tiles``: ``--tile``, ``--layout``
- ``hidden``: shapes of a graded run
- ``text``, ``questions``, ``pitfalls``, ``bugs``, ``todos``, ``measured``: what else a lesson's folder holds
- ``progress``, ``position``: how far the learner is; ``csv_log``: lines that a long command adds to a file
"""
