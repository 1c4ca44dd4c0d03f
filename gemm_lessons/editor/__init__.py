"""Files of ``init`` for editors and git, so that editors understand ``.cu`` files without a CUDA toolkit."""
