"""The exception of this package."""


class Uncountable(Exception):
    """The kernel's machine code cannot be followed. The message gives the obstacle."""
