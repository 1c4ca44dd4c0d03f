"""GPUs: data sheets, and the number of blocks that fit on a multiprocessor.

- ``sheets``: data sheets, from the files in ``cards/``, and the peaks that follow; ``figures``: reads the figures of
  these files and checks them
- ``pipes``: latencies and rates of an architecture; ``occupancy``: theoretical occupancy
"""
