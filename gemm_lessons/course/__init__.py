"""The course: lessons and their files, the learner's folder and progress.

    lessons/NN_name/lesson.toml --load_lesson--> Lesson: tile, data, launches, shapes, gates, todos
    .gemm-lessons/progress.json --load_progress--> Progress: lesson name -> LessonProgress

- ``folder``: the course folder; ``course_toml``: its parts; ``carry_over``: a folder from before a move; ``original``:
  the installed course
- ``lesson``: the records, read by ``lesson_toml`` with ``gates_toml``, ``toml`` and ``search_space``
- ``summaries``: what ``list`` shows, kept on disk
- ``tiles``: ``--tile``, ``--layout``
- ``text``, ``questions``, ``drills``, ``pitfalls``, ``todos``: other files of a lesson's folder
- ``documents``: pages about the kit, and a course's other texts, such as the glossary
- ``progress``, ``position``: the learner's progress
"""
