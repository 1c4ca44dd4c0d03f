"""Counters against hardware: kernels, their readings on a GPU, and the equality of the simulator with them."""
