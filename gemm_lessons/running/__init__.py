"""``gemm-lessons run``: build, check, count, judge, estimate.

- ``pipeline``: ``run_lesson()``, in steps, from a ``plan`` to an ``outcome``
- ``builder``, ``signature``: a lesson's kernels compiled; ``machine_dependence``: what a
  graded kernel may not read
- ``checking``: right on every shape, and by the lesson's method; ``debug_build``: the source as written, on one block
- ``printing``: what the kernel prints; ``estimating``, ``measuring``: its time
- ``jobs``: what a second worker computes meanwhile, and what is kept from run to run; ``sharing``: who gets which
- ``predictions``: a run's answers to a lesson's questions; ``speedup``: what a pass gained over the first lesson
- ``contract``: an outcome as JSON; ``no_outcome``: the outcome of a run that crashed or was stopped
"""
