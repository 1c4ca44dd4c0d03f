"""PTX as a program: parsed, calls inlined, cut into basic blocks, steps scheduled.

- ``opcodes``: what is known of each instruction; ``records``: PTX as records; ``operand_check``: operands per opcode
- ``parser``, with ``lexer``, ``operand_text`` and ``declarations``: text -> records; ``variables``: those it reaches
- ``inline``, ``wide_registers``, ``wmma``, ``fma_contraction``: rewrite (``rewrite``) what the machine does not execute
- ``cfg``: basic blocks; ``schedule``: their steps
- analyses: ``anticipated`` expressions, ``common_subexpressions``; ``provenance``: which array an address points into;
  ``synchronising_accesses``: which accesses cannot race; ``fragments``: which lane holds which element of a matrix
"""
