/* Prints occupancy.csv: what NVIDIA's own cuda_occupancy.h says for the GPUs of gemm_lessons/gpus.py.
 *
 *   cc -I <folder of the CUDA headers> occupancy_table.c -o table && ./table > occupancy.csv
 *
 * The device properties are those that cudaGetDeviceProperties reports on each GPU (CUDA C++ Programming Guide,
 * "Technical Specifications per Compute Capability"). Kernels may opt in to all the shared memory there is.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_occupancy.h"

#define KIB 1024

typedef struct { const char *name; int major, minor, threads; size_t per_sm, opt_in, reserved; } Gpu;

int main(void)
{
    const Gpu gpus[] = {
        {"p100", 6, 0, 2048, 64 * KIB, 48 * KIB, 0},        {"v100", 7, 0, 2048, 96 * KIB, 96 * KIB, 0},
        {"t4", 7, 5, 1024, 64 * KIB, 64 * KIB, 0},
        {"a100", 8, 0, 2048, 164 * KIB, 163 * KIB, KIB},    {"h200", 9, 0, 2048, 228 * KIB, 227 * KIB, KIB},
        {"rtx4090", 8, 9, 1536, 100 * KIB, 99 * KIB, KIB},
    };
    const int registers[] = {32, 37, 64, 107, 136, 255};
    const int threads[] = {32, 200, 256, 1024};
    const int shared[] = {0, 8192, 16896, 49152, 99 * KIB, 227 * KIB};
    printf("gpu,registers,threads,shared_bytes,blocks_per_sm\n");
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
        for (size_t r = 0; r < sizeof registers / sizeof *registers; r++)
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
                for (size_t s = 0; s < sizeof shared / sizeof *shared; s++) {
                    cudaOccDeviceProp device;
                    cudaOccFuncAttributes kernel;
                    cudaOccDeviceState state;
                    cudaOccResult result;
                    memset(&device, 0, sizeof device);
                    memset(&kernel, 0, sizeof kernel);
                    memset(&state, 0, sizeof state);
                    device.computeMajor = gpus[g].major;
                    device.computeMinor = gpus[g].minor;
                    device.maxThreadsPerBlock = 1024;
                    device.maxThreadsPerMultiprocessor = gpus[g].threads;
                    device.regsPerBlock = 65536;
                    device.regsPerMultiprocessor = 65536;
                    device.warpSize = 32;
                    device.sharedMemPerBlock = 48 * KIB;
                    device.sharedMemPerMultiprocessor = gpus[g].per_sm;
                    device.numSms = 1;
                    device.sharedMemPerBlockOptin = gpus[g].opt_in;
                    device.reservedSharedMemPerBlock = gpus[g].reserved;
                    kernel.maxThreadsPerBlock = 1024;
                    kernel.numRegs = registers[r];
                    kernel.maxDynamicSharedSizeBytes = gpus[g].opt_in;
                    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
                    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
                    int blocks = -1;
                    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads[t],
                                                                shared[s]) == CUDA_OCC_SUCCESS)
                        blocks = result.activeBlocksPerMultiprocessor;
                    printf("%s,%d,%d,%d,%d\n", gpus[g].name, registers[r], threads[t], shared[s], blocks);
                }
    return 0;
}
