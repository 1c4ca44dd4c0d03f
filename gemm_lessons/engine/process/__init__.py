"""Child processes: what may crash, hang or use too much memory runs in one."""
