"""The problem: a product of matrices, independent of the kernel that computes it.

    DataSpec (from lesson.toml), Shape (M, N, K), seed --> Problem --trial()--> Trial --launches--> answer, damage

State of a ``Problem`` at one shape:

    arrays      buffer name -> array as stored: (batch, lines, leading) without undeclared dimensions, in its own type
    scalars     name -> number
    values      name -> Value: float64, rows x columns, with the magnitude that rounding errors scale with
    reference   (M, N), the right answer; float64, or the integer type of C
    tolerance   (M, N) float64, the largest error of a right kernel

- ``shapes``: M, N, K, the block tile, and which shapes a kernel accepts
- ``data``, ``formula``: the buffers and the formula of the answer; ``rounding``: error bounds of functions;
  ``promotion``: what sums of 8-bit floats lose
- ``inputs``, ``problem``: seeded inputs, the right answer and its tolerance; ``far``: too large to keep, sampled
- ``profile``, ``time_model``: a kernel traced at two depths K, and its time at any shape
- ``tile_model``: the tile sizes that a GPU's data sheet allows
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.gemm.data import (
        ALIKE, DRAWN, LAYOUTS, OF_BUFFERS, POINTER_SIZE, SCALARS, SIZES, Alike, BufferLayout, BufferSpec, DataSpec,
        Fill, Leading, Order, Parameter, Role, TensorMapSpec, leading_name, prototype,
    )  # fmt: skip
    from gemm_lessons.gemm.far import FarProblem, Sampled
    from gemm_lessons.gemm.formula import PROBABLE, Formula, Product, Value, constant_error, roundings
    from gemm_lessons.gemm.problem import (
        DEFAULTS, EPILOGUE, GUARD_BYTE, GUARD_BYTES, Guarded, Problem, Trial, fresh_seed, unit,
    )  # fmt: skip
    from gemm_lessons.gemm.profile import Movement, Subject, tiles_of
    from gemm_lessons.gemm.rounding import DIVISION_ROUNDINGS, FUNCTION_ROUNDINGS
    from gemm_lessons.gemm.shapes import Shape, ShapeError, Shapes, Tile, TileSizes, astuple, transposed
    from gemm_lessons.gemm.tile_model import OTHER_REGISTERS, TileModel, tile_model_of
    from gemm_lessons.gemm.time_model import Estimate, Estimator, estimator_for
else:
    __getattr__ = on_first_use(__name__)
