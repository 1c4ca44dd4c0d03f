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
- ``tile_blocks``: all blocks that a tile of C needs, where one launch adds what another leaves
- ``checking``: right on every shape, and by the lesson's method; ``sampling``: some blocks of a far shape; ``merging``:
  findings of several launches as one; ``debug_build``: the source as written, on one block
- ``misread_tiles``: after a wrong answer, whether ``wgmma`` reads what the copies put there
- ``printing``: what the kernel prints; ``estimating``, ``measuring``: its time
- ``jobs``: work of a second process, and results kept between runs; ``sharing``: which jobs that process gets;
  ``kept_rows``: rows kept on disk
- ``predictions``: a run's answers to a lesson's questions; ``speedup``: the gain over the first lesson
- ``contract``: an outcome as JSON; ``no_outcome``: the outcome of a run that crashed or was stopped
"""
