"""The work of commands other than ``run``.

- ``bench`` with its ``points``, ``tuning`` with its ``tuning_book``: many kernels, shapes, tiles; both can be continued
  from the lines of their ``csv_log``
- ``slower``: why one of two kernels is slower, for ``compare``
- ``comparing``, ``profiling``, ``doctor``: ``compare``, ``profile``, ``doctor``
- ``simulated_report``, in the format of ``ncu_file``: ``profile --report``
"""
