"""The command line: parse arguments, call a command, return an exit code."""

forking = False  # whether the command line owns this process, so that it may run kernels in a child (``guard``)
