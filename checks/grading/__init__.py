"""Tests of grading, and batteries of kernels with a known verdict."""
