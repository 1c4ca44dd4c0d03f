// Types of the driver's functions: for the host alone.
#pragma once
#include <cuda.h>
