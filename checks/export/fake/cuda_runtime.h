// As much of the CUDA runtime as exported host code calls, on the CPU: device memory is memory, a launch is a call.
// What is still allocated at the end is told on stderr.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>

using cudaError_t = int;
enum { cudaSuccess = 0, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
using cudaEvent_t = int *;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct cudaDeviceProp {
    char name[256];
    int l2CacheSize;
};

inline struct Allocations {
    int count = 0;
    ~Allocations()
    {
        if (count)
            std::fprintf(stderr, "%d not freed\n", count);
    }
} allocations;

inline const char *cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaGetLastError() { return std::getenv("FAKE_LAUNCH_FAILS") ? 9 : 0; }

template <typename T>
cudaError_t cudaMalloc(T **pointer, size_t bytes)
{
    allocations.count++;
    *pointer = (T *)std::malloc(bytes);
    return 0;
}

inline cudaError_t cudaFree(void *pointer)
{
    allocations.count--;
    std::free(pointer);
    return 0;
}

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int)
{
    std::memcpy(to, from, bytes);
    return 0;
}

inline cudaError_t cudaMemset(void *pointer, int byte, size_t bytes)
{
    std::memset(pointer, byte, bytes);
    return 0;
}

inline cudaError_t cudaMemsetAsync(void *, int, size_t) { return 0; }

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
    *properties = {"a fake GPU", 1 << 20};
    return 0;
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaMalloc(event, sizeof(int)); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return cudaFree(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t) { return 0; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return 0; }

inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t)
{
    *milliseconds = 300.0f; // so long that five launches are enough
    return 0;
}
