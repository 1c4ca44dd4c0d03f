"""Traced machine code + a data sheet -> the time of a launch on a GPU that is not here."""
