"""PTX as a program: parsed, cut into basic blocks, calls put in place, steps scheduled."""
