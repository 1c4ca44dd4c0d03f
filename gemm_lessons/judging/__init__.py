"""Judge answers and counters: the verdict, the mistake behind a wrong answer, gates and hints.

    Problem, answer --verdict.judge--> Judgement: errors, tile map, and a Pattern if a mistake is recognised
    Gate, Counters --gates.judge_launches--> GateResult --verdict_of--> GateMissed
    Evidence (lesson, source, Built, Checked, Speed) --hints_for--> at most three sentences

``Wrong``, a wrong answer as the mistakes see it:

    problem    inputs, right answer and tolerance
    stored     (M, N), the answer in its own type; ``got``: the same in float64
    wrong      (M, N) bool, the elements out of tolerance
    tiles      the block tile and the depth of a K tile
    left       buffer name -> array after the last launch

- ``verdict``: the verdicts, and an answer compared with NumPy's; ``evidence``: what is known of a kernel
- ``mistakes``: the table of mistakes, with rows of ``pattern`` and sentences of ``named_sentence``
- transformations of a right answer by a mistake: ``factors``, ``sums``, ``misplaced``, ``epilogues``, ``scales``,
  ``widths``; ``residues`` and ``parts`` for lessons of several launches; ``wrong_elements``: which elements are wrong;
  ``wrong_answer``: the data that they read
- ``gates``: limits on counters; ``figures``: the numbers of a run's table
- ``hints`` with ``remedies`` for findings, ``strides`` of fragments, and ``lost_time``; ``advice``: texts of remedies,
  in ``advice.toml``; ``access_remedies``, ``order_remedies``: rules that choose one; ``unfinished``: how far a kernel
  with open TODOs is
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.judging.evidence import UNTIMED, Built, Checked, Evidence, ShapeResult, Speed, text_of_line
    from gemm_lessons.judging.figures import figures_of, value_of
    from gemm_lessons.judging.gates import CountedLaunch, counted_names, judge_launches, verdict_of
    from gemm_lessons.judging.hints import hints_for
    from gemm_lessons.judging.lost_time import time_lost, waits_longer
    from gemm_lessons.judging.named_sentence import NamedSentence
    from gemm_lessons.judging.pattern import Pattern
    from gemm_lessons.judging.remedies import restated
    from gemm_lessons.judging.unfinished import Unfinished, can_tell, contents, sentence
    from gemm_lessons.judging.verdict import (
        CompileFailed, Faulted, GateMissed, GateResult, Judgement, Kind, Passed, TileMap, TimedOut, Verdict,
        WrongAnswer, judge, judge_sample, stopped,
    )  # fmt: skip
else:
    __getattr__ = on_first_use(__name__)
