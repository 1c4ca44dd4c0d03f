"""Everything that a command does from beginning to end.

- ``pipeline``: run_lesson(), in steps, from a ``plan`` to an ``outcome``: ``builder`` and ``signature``; ``checking``
  and ``asking``; ``second_look``, ``printing``; ``estimating``, ``measuring``; ``lost``: a run that nobody heard from
- ``choose``: the device: ``simulated``, or ``shadowed``, which is a GPU with the simulator beside it
- ``second_core``: makes ``apart`` what the other core can make meanwhile; ``kept_rows``: what need not be made again
- ``contract``: an outcome for scripts; ``bought``, ``predictions``: what it says of the course, of a learner's answers
- the other commands: ``bench``, ``tuning`` with its ``tuning_book``, both with ``kept_lines``; ``comparing``,
  ``inspection``, ``profiling``, ``doctor``
"""
