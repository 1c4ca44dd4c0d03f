// Included before every kernel file: names that nvcc's implicit cuda_runtime.h brings along and NVRTC's does not.
#pragma once
#include <limits.h>
#include <cmath>
#include <cstdint>
#include <sys/types.h>
#define register  // nvcc takes the old word and ignores it
