"""The work of commands other than ``run``.

- ``bench`` with its ``points``, ``tuning`` with its ``tuning_book``: many kernels, shapes, tiles; both can be continued
- ``comparing``, ``inspection``, ``profiling``, ``doctor``: ``compare``, ``inspect``, ``profile``, ``doctor``
- ``simulated_report``, in the format of ``ncu_file``: ``profile --report``
"""
