"""What commands other than ``run`` do.

- ``bench``, ``tuning`` with its ``tuning_book``: many kernels, shapes, tiles; both continue a ``csv_log``
- ``comparing``, ``inspection``, ``profiling``, ``doctor``: ``compare``, ``inspect``, ``profile``, ``doctor``
- ``predictions``: a run's answers to a lesson's questions; ``speedup``: what a pass gained over the first lesson
"""
