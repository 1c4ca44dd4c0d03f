"""Judging code that nobody trusts, in a process of its own."""
