"""PTX as a program: parsed, cut into basic blocks, calls put in place, steps scheduled.

- ``opcodes``: what is known of an instruction; ``ptx``: the records; ``shape``: has one the operands that it takes?
- ``parser``, with ``lexer``, ``operand_text`` and ``declarations``: text -> records; ``variables``: those that it needs
- ``inline``, ``wide``, ``wmma``, ``joining``: what the machine does not know, said in what it does, by ``rewrite``
- ``cfg``: basic blocks; ``schedule``: their steps
- read off the code: ``demand``, ``repeats``: what a compiler leaves out or makes once; ``provenance``: which array is
  meant; ``meant_to_meet``: who may meet without a race; ``fragments``: which lane holds what of a matrix
"""
