"""Arguments of a launch, from Python or from a command line: convert them to the kernel's types, or reject them.

- ``parameters``: values for parameters; ``structs``: values for fields of structs; ``views``: arrays that share
  memory; ``text``: the command line
- ``expression``: arithmetic in sizes, launches and gates
"""
