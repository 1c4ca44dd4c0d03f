"""What computational PTX instructions compute, as tables of functions over all lanes.

    in    opcode, modifiers              such as ``mad``, ("wide", "s32")
    state table: str -> Operation        function(*outs, *sources), with the type codes of results and sources
          DTYPES: type code -> dtype     how the machine views a register; packed pairs and bf16 are raw bits
          UNDERFLOW.seen                 per thread, set by NumPy under ``float_state()``
    out   rows of results, (lanes,)      or, for matrix products, (fragments, m, n)

- ``operation``: the record of an instruction; ``table``: all instructions by full name
- ``integers``, ``bits``, ``comparisons``, ``conversions``, ``float8``: one module per kind of instruction
- ``arithmetic``, ``division``, ``extremes``: floating-point instructions
- ``special_functions``: reciprocals, roots, logarithms, powers and sines as the hardware computes them
- ``floats``, ``doubles``: correct rounding in float32 and float64
- ``matrix_products``: ``mma``, ``wmma.mma`` and ``wgmma``
"""
