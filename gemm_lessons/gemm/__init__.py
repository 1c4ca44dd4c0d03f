"""The problem: a product of matrices, whatever kernel computes it.

- ``shapes``: M, N, K, the block tile, which shapes a kernel accepts
- ``data``, ``formula``: buffers, and what the answer is; ``rounding``: how far off a formula with functions may be
- ``inputs``, ``problem``: seeded inputs, the right answer, its tolerance
- ``profile``, ``time_model``: a kernel traced at two depths K, and its time at any shape
- ``tile_model``: what tile sizes a GPU's data sheet allows
"""
