"""Grade a class: read untrusted submissions, judge each kernel in its own sandboxed process, and write the grades.

    folder --inputs--> Student, LessonSubmission --Classroom.job--> Job --judging.judge--> Judged --score--> Grade
    Grading, Grades --gradebook--> Gradebook --decisions--> grades.csv, ``formats``, the pages of ``report``

    OUT/grading.json                   Grading: lessons, students, rubric, seed, versions
    OUT/results/STUDENT/NN_name.json   Grade; beside it NN_name.cu, the judged source
    OUT/decisions.csv                  the teacher's decisions, applied to every output

- ``request``: an assignment from paths and options; ``rubric``: points and limits; ``needs``: measured limits
- ``inputs``: submissions, from ``archives``, by the names of files (``naming``, ``lesson_names``) and the class list
  (``roster``); ``tables``: the teacher's CSV files
- ``classroom``: the jobs of a class, run by ``executors``; ``judging``: one job
- ``worker`` -> ``fork_server`` -> ``job``: the processes that judge it, in a ``sandbox``
- ``score``: points of an outcome; ``results``, ``sources``: the stored files; ``lesson_hash``; ``merge``: shards
- ``gradebook``, ``decisions``, ``statistics``; ``formats``: files for other systems, with text made safe by
``escaping``
- ``similarity``, ``reference``, ``pairs``: kernels that are alike
- ``hosting``: files that let another system grade, with the kit as a ``wheel``; ``plugin``, ``suite``: under pytest
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.grading.classroom import Assignment, Classroom, Tell
    from gemm_lessons.grading.decisions import load_decisions, write_template
    from gemm_lessons.grading.escaping import amount, markdown, one_line
    from gemm_lessons.grading.executors import open_executor
    from gemm_lessons.grading.formats import check_format, write_csv, write_format, write_text
    from gemm_lessons.grading.gradebook import Gradebook, GradebookRow, gradebook_of
    from gemm_lessons.grading.hosting import write_host
    from gemm_lessons.grading.merge import merge_shards
    from gemm_lessons.grading.pairs import pairs_of
    from gemm_lessons.grading.reference import REFERENCE
    from gemm_lessons.grading.request import assignment_of
    from gemm_lessons.grading.results import Grade, load_grades, load_grading
    from gemm_lessons.grading.rubric import load_rubric, parse_lessons
    from gemm_lessons.grading.similarity import SimilarPair
    from gemm_lessons.grading.statistics import REACHED, middle, reached, slowest, spread, stumbles
    from gemm_lessons.grading.worker import walls_around_grading
else:
    __getattr__ = on_first_use(__name__)
