"""``gemm-lessons run``: build, check, count, judge, estimate.

    RunRequest --RunPlan.of--> RunPlan --run_lesson--> RunOutcome: one Row per kernel, the kernel under test first

    Row.built     Built      compiled kernels of every launch, with occupancies
    Row.checked   Checked    verdict, findings, counters, gates
    Row.speed     Speed      estimate or measurement
    Row.hints     up to three sentences

- ``pipeline``: ``run_lesson()``, in steps, from a ``plan`` to an ``outcome``
- ``builder``: a lesson's kernels compiled; ``machine_dependence``: macros and registers on which a graded kernel must
  not depend
- ``variants``: a kernel as the host compiles it for each shape, beside the launches of a graded run
- ``counted_shapes``, ``far_shapes``, ``checked_shapes``: hidden shapes of a graded run; ``drawing``: how to draw sizes;
  ``few_variants``: those that need the fewest compilations
- ``rare_blocks``: more blocks to run of a far shape, for which decisions in the kernel's code have rare outcomes
- ``rare_sizes``: more shapes to run, at which tests of sizes in the kernel's code have an outcome of their own,
  among the ``size_candidates``
- ``checking``: right on every shape, and by the lesson's method; ``sampling``: some blocks of a far shape;
  ``debug_build``: the source as written, on one block, and whether ``wgmma`` reads what the copies put there
- ``estimating``, ``measuring``: a kernel's time
- ``jobs``: work of a second process, and results kept between runs; ``kept_rows``: rows kept on disk
- ``predictions``: a run's answers to a lesson's questions; ``speedup``: the gain over the first lesson
- ``contract``: an outcome as JSON
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.running import contract
    from gemm_lessons.running.builder import Builder, WrongGpu, builder_for, missing_capability, variant_of
    from gemm_lessons.running.checked_shapes import hidden_and_checked
    from gemm_lessons.running.contract import EXIT_NOT_PASSED, JSON, SCHEMA, as_json
    from gemm_lessons.running.counted_shapes import hidden_and_counted
    from gemm_lessons.running.estimating import estimator_of
    from gemm_lessons.running.jobs import Jobs, Kept
    from gemm_lessons.running.machine_dependence import fixed
    from gemm_lessons.running.measuring import steps_of
    from gemm_lessons.running.outcome import ended_early, refused
    from gemm_lessons.running.outcome import Role, Row, RunOutcome, row_of_launch
    from gemm_lessons.running.pipeline import row_of, run_lesson, run_plan, shared
    from gemm_lessons.running.plan import KernelPlan, RunPlan, RunRequest, label_for
    from gemm_lessons.running.predictions import names_of, scored
    from gemm_lessons.running.speedup import GPU, STORED_CUBLAS, Gain, gain_of, load_measured
else:
    __getattr__ = on_first_use(__name__)
