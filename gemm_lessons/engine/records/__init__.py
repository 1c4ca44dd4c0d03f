"""Records that the engine's rooms exchange, and the element types of numbers in them.

- ``launch``: arguments, grid and variables of a launch; ``results``: counters, findings, fault and output of one
- ``findings``, ``facts``: a finding; its threads, memory and further facts
- ``metrics``: names of counters; ``elements``, ``encodings``, ``arrays``: types of numbers; ``errors``: exceptions;
  ``hashing``: random bits of integers
- ``toml_file``: TOML with the line of each key; ``words``: corrections of misspelt words, and text safe to print
- ``frozen``: the dataclass decorator of all these records; ``regex``: regular expressions, compiled on first use
"""
