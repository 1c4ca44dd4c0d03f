"""PTX as a program: parses the text, inlines calls, builds basic blocks and schedules their steps.

    in    PTX text
    state records.Module   kernels and functions by name, parsed on first use; module-level variables
          records.Kernel   instructions (tuple), labels -> instruction index, registers -> type, variables
          cfg.Block        consecutive instructions; number (order of reconvergence), fallthrough, targets
    out   schedule.Step    Single, FmaGroup, ProductGroup, LoadGroup, MoveGroup; and the analyses below, by instruction

- ``opcodes``: the table of instruction properties; ``records``: PTX as records; ``operand_check``: operands per opcode
- ``parser``, with ``operand_text``: text -> records; ``variables``: module variables that a kernel reaches
- ``inline`` with ``pointer_calls`` and ``recursion``, ``wide_registers``, ``wmma``, ``expansions``,
  ``fma_contraction``: rewrite (``rewrite``) instructions that the machine does not execute itself
- ``cfg``: basic blocks; ``schedule``: their steps; ``addresses``: uses of addresses beyond accesses
- analyses: ``anticipated`` expressions, ``common_subexpressions``; ``unset``: registers that may be read unwritten;
  ``provenance``: which array an address points into; ``synchronising_accesses``: which accesses cannot race;
  ``fragments``: which lane holds which element of a matrix; ``dead_products``: products that nothing uses
"""
