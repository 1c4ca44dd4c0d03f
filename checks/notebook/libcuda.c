/* A CUDA driver for tests, as far as doctor and the notebook ask it: a T4 with CUDA 12.4, or with -DNO_GPU none. */
#include <string.h>

int cuInit(unsigned flags)
{
#ifdef NO_GPU
    return 100;
#else
    return 0;
#endif
}

int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device)
{
    strncpy(name, "Tesla T4", length);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 75 ? 7 : 5;
    return 0;
}
