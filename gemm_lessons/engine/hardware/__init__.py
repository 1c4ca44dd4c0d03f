"""GPUs: data sheets, and the number of blocks that fit on a multiprocessor.

- ``sheets``: data sheets; ``occupancy``: theoretical occupancy
"""
