"""Convert the arguments of a launch, from Python or a command line, to the kernel's types, or reject them.

- ``parameters``: values for parameters; ``structs``: values for fields of structs; ``views``: arrays that share
  memory; ``text``: the command line
- ``expression``: arithmetic in sizes, launches and gates
"""
