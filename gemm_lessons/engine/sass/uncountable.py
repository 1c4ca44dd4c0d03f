"""The one exception of this package."""


class Uncountable(Exception):
    """This kernel's machine code cannot be followed; the message says what stands in the way."""
