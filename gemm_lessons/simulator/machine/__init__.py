"""Running a program: registers, memories, divergence, barriers."""
