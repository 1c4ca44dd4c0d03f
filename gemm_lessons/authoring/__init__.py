"""Proofs that a lesson keeps its promises: its kernels, its text and its numbers. They are for lesson authors."""
