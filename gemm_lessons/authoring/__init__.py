"""Is a lesson what a lesson promises to be? Its kernels, its text and its numbers, proven for whoever writes one."""
