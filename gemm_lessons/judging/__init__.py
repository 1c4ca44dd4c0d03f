"""An answer and its counters -> a verdict, the mistake that it looks like, hints."""
