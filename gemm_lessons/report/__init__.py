"""Print records for the user. Only this package imports rich; it makes no decisions.

- ``console``: colours, widths, the pager, progress, reports as HTML; ``links``: places in files
- ``screen``: a run on one screen: ``figures``, a table, or ``trouble``, in ``blocks``;
  for editors, its problems
- ``run``: everything about a run, with its ``table``
- ``course``, ``practice``: lessons, the next step, differences to a reference; questions and bugs
- ``bench``, ``compare``, ``inspect``, ``proofs``, ``tune``, ``watch``: those commands; ``bench`` has ``profile``, too
- ``view``, ``roles``, ``stalls``, ``page``: pictures of one run; ``plot``: of many runs
- ``grading``: a class in the terminal; ``grades``, ``student``: pages
- ``site``: the course as web pages, with ``drawing``, ``chart``; ``reference``: on the engine; ``site_parts``: search,
  the glossary's words, drills, a recording, and what search engines and links need
- ``markdown``: lessons' texts in the terminal; ``template``: what all pages are made from
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.report.bench import progress_bar, show_bench, show_plan, show_profile, show_report_file
    from gemm_lessons.report.compare import show_comparison, show_difference
    from gemm_lessons.report.console import HtmlConsole, Working, make_console, show_error, show_note
    from gemm_lessons.report.course import (
        body_of, show_carried_over, show_diff, show_doctor, show_editor_files, show_export, show_hint, show_home,
        show_init, show_list, show_page, show_reset, show_restored, show_started, show_text, show_todos,
    )  # fmt: skip
    from gemm_lessons.report.grades import write_pages
    from gemm_lessons.report.grading import ahead, show_again, show_class, show_remarks, show_start, written_lines
    from gemm_lessons.report.inspect import estimated, show_inspection, show_opcodes
    from gemm_lessons.report.page import page_of
    from gemm_lessons.report.plot import draw, need_matplotlib
    from gemm_lessons.report.practice import (
        scores_in_words, show_asked, show_bug, show_drilled, show_drills, show_fixed, show_judged, show_predicted,
        show_question, show_questions, show_refused, show_scores,
    )  # fmt: skip
    from gemm_lessons.report.proofs import show_checked, show_filled, show_new_lesson, show_proofs
    from gemm_lessons.report.reference import engine_reference
    from gemm_lessons.report.run import ScreenContext
    from gemm_lessons.report.screen import printed, show_problems, show_screen
    from gemm_lessons.report.site import write_site
    from gemm_lessons.report.tune import draw_tuning, show_model, show_tuning
    from gemm_lessons.report.view import show_line, show_requests, show_timeline
    from gemm_lessons.report.watch import Part, Screen, Status, lines_above, show_notice, show_status
else:
    __getattr__ = on_first_use(__name__)
