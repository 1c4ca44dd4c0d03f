// What kernels may use of it (printf, malloc, memcpy, assert) is built into NVRTC.
#pragma once
