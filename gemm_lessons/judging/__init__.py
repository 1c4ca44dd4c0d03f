"""Turn an answer and its counters into a verdict, a recognised mistake and hints."""
