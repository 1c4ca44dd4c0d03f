from cupy.cuda import driver, runtime  # noqa: F401
