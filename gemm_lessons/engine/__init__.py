"""The engine: compile, run, check, count and estimate any CUDA kernel without a GPU. It imports nothing else
of the kit.

In the order in which one room uses another, from the ground up:

- ``report``: the sentences of findings
- ``records``: launches, findings, counters, numbers: what all rooms hand to each other
- ``process``: child processes, and what they may use of this machine
- ``hardware``: data sheets and occupancy
- ``compiler``: CUDA C++ -> PTX, machine code, diagnostics
- ``semantics``: what each PTX instruction computes
- ``ptx``: PTX text -> basic blocks and steps
- ``events``: what a running kernel reports to its observers
- ``machine``: executes PTX: values, memories, divergence, barriers
- ``checkers``: races, uninitialised reads, misused barriers
- ``costs``: wavefronts and sectors of one access
- ``sass``: follows the machine code, for what hardware would count
- ``counters``: counts a launch in Nsight Compute's names
- ``second_opinion``: do the PTX engine and the machine-code engine agree?
- ``simulator``: the device made of these
- ``arguments``: Python values and command-line texts -> launch arguments
- ``estimate``: traced machine code + a data sheet -> time
- ``api``: ``simulate()``
"""
