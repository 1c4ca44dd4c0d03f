"""The engine as others call it: its public names, alone in a process."""
