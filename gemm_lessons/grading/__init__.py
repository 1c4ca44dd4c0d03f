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
