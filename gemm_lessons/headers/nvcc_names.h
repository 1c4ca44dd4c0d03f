// Included before every kernel file: names that nvcc's implicit cuda_runtime.h brings along and NVRTC's does not.
#pragma once
#include <math.h>
#include <stdint.h>
