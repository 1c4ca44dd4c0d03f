// The host's: it shares images with EGL. Kernels need none of it.
#pragma once
