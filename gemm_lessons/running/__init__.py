"""``gemm-lessons run``: build, check, count, judge, estimate.

- ``pipeline``: ``run_lesson()``, in steps, from a ``plan`` to an ``outcome``
- ``builder``, ``signature``: a lesson's kernels compiled; ``machine_dependence``: what a
  graded kernel may not read
- ``checking``: right on every shape, and by the lesson's method; ``debug_build``: the source as written, on one block
- ``printing``: what the kernel prints; ``estimating``, ``measuring``: its time
- ``second_process``: computes ``precomputed`` results on another core; ``row_cache``: rows kept from run to run
- ``contract``: an outcome as JSON; ``no_outcome``: the outcome of a run that crashed or was stopped
"""
