"""Property tests of the machine's optimiser: random programs run three ways must agree bit for bit.

programs.py  random PTX          kernels.py  random CUDA C++, compiled
comparison.py   grouped and remembered  =  one instruction, one block at a time (the same machine, all tricks off)
                                        =  scalar.py, one thread at a time (an interpreter of its own)
shrinking.py    a failure made small

python -m checks.simulator.property --programs 50000 --seed 7
"""
