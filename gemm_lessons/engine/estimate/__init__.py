"""Traced machine code + a data sheet -> the time of a launch on a GPU that is not here.

- ``latencies``: what one instruction takes, by architecture; ``items``: traced instructions with what they take
- ``timeline``: one multiprocessor, clock by clock; ``phases``: its mbarriers; ``recording``: what each warp does when
- ``launch``: a launch of any kernel; ``chip``: what it shares with the model of matrix products
"""
