"""A stand-in for CuPy where there is no GPU: memory is the host's, kernels are Python, faults are raised on purpose.

It offers just the calls that ``devices.gpu`` makes, in CuPy's names, and behaves as CUDA does where it matters:
launches are judged at the next synchronisation, an error poisons the context, an endless kernel never comes back.
A cubin is the name of a kernel in ``kernels.py``, or real code. ``FAKE_GPU`` sets the scene: ``driver=12040 count=0``.
"""

import os

if "broken" in os.environ.get("FAKE_GPU", ""):
    raise ImportError("libcudart.so.13: cannot open shared object file")
__version__ = "14.2.0"
