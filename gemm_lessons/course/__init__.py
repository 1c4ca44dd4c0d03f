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

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.course.carry_over import CarriedOver, carried_over
    from gemm_lessons.course.documents import GLOSSARY, all_documents, entries, entry_of
    from gemm_lessons.course.drills import FIELD, Drawn, Drill, in_words, load_drills
    from gemm_lessons.course.folder import (
        MAX_SOURCE_BYTES, CommandError, Course, NotText, ReadError, Reset, Started, WriteError, any_course, find_course,
        for_learners, init_course, own_course, packaged_course, read_bytes, read_source, reading, reason,
        replace_with_backup, reset_lesson, shown, start_lesson, text_of, write_atomically, writing,
    )  # fmt: skip
    from gemm_lessons.course.gates_toml import GateReader, id_of
    from gemm_lessons.course.lesson import (
        LESSON_NAME, CoursePart, Figure, Gate, LaunchSpec, Lesson, LessonError, LessonSummary, tile_sizes,
    )  # fmt: skip
    from gemm_lessons.course.lesson_toml import load_lesson
    from gemm_lessons.course.original import remarks_on, restore_course, restore_lesson, restore_settings
    from gemm_lessons.course.pitfalls import Pitfall, a_bug, bugs_of, load_pitfalls, resized, without_steps, write_bug
    from gemm_lessons.course.position import (
        HintLevel, Position, hint_level, lesson_at, lesson_to_run, marks_left, next_hint, position_in,
    )  # fmt: skip
    from gemm_lessons.course.progress import (
        LessonProgress, Progress, keeps_reference, load_progress, progress_path, save_progress, waits_for_predictions,
    )  # fmt: skip
    from gemm_lessons.course.questions import BEFORE, FACTS, Answer, Question, Score, load_questions, scores
    from gemm_lessons.course.text import BLOCK, RESULTS, folded, numbered, section
    from gemm_lessons.course.tiles import UnfitTile, in_layout, parse_tile, retiled, typed
    from gemm_lessons.course.todos import Stub, TodoMark, open_todos, skipped_todos, todo_marks, todo_state
    from gemm_lessons.course.toml import TomlReader, is_text, read_toml
else:
    __getattr__ = on_first_use(__name__)
