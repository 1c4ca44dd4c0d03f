"""Convert the arguments of a launch, from Python or a command line, to the kernel's types, or reject them.

- ``parameters``: values for parameters; ``structs``: values for fields of structs; ``views``: arrays that share
  memory; ``text``: the command line
- ``expression``: arithmetic in sizes, launches and gates
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.arguments.expression import LONGEST, Expression, ExpressionError, Number
else:
    __getattr__ = on_first_use(__name__)
