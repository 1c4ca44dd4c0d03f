"""What ``init`` puts beside the lessons: editors then understand a ``.cu`` without a CUDA toolkit, and git keeps it."""
