"""Arguments of a launch, from Python or from a command line: converted to what the kernel takes, or refused."""
