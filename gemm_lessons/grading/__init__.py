"""Grade untrusted code, each submission in its own sandboxed process."""
