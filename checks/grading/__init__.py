"""Grading: its tests, and batteries of kernels with a known fate."""
