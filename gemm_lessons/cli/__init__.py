"""The command line: arguments in, exit code out."""

forking = False  # whether this process is the command line's own, and may go on in a child (``guard``)
