// nvcc -O3 -std=c++17 -arch=sm_90 -o volatile volatile.cu && ./volatile > volatile_h200.json
//
// Clocks of a multiprocessor for each sector that volatile loads bring from L2, by how many sectors of a line a load
// asks for, and how many loads in a row ask for the same sectors. All multiprocessors have 1024 threads.
#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCKS = 132, THREADS = 1024, LOADS = 256, LINE = 32, SECTOR = 8;  // words

__global__ void bring(const volatile float *from, float *sink, long long *clocks, int each, int words, int again)
{
    const int lane = threadIdx.x % 32, warp = (blockIdx.x * THREADS + threadIdx.x) / 32;
    const int warps = BLOCKS * THREADS / 32, mine = lane / each * LINE + lane % each * SECTOR;
    float sum = 0;
    const long long begun = clock64();
    for (int i = 0; i < LOADS; i += 4) {
#pragma unroll
        for (int j = i; j < i + 4; j++) {
            sum += from[(((long long)(j / again) * warps + warp) * 32 * LINE + mine + j % again) % words];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begun;
    if (sum == 1.25f) *sink = sum;
}

int main()
{
    float *from, *sink;
    long long *clocks, taken[BLOCKS];
    cudaMalloc(&from, 32 << 20);
    cudaMemset(from, 0, 32 << 20);
    cudaMalloc(&sink, 4);
    cudaMalloc(&clocks, sizeof(taken));
    printf("{\n \"what\": \"Clocks of a multiprocessor for each sector that volatile loads bring from L2.\",\n"
           " \"gpu\": \"NVIDIA H200\",\n \"clocks\": {\n  \"empty\": 0.0");
    for (int each : {1, 2, 4})
        for (int again : {1, 8})
            for (int mb : {8, 32}) {
                for (int i = 0; i < 3; i++)
                    bring<<<BLOCKS, THREADS>>>(from, sink, clocks, each, mb << 18, again);
                cudaMemcpy(taken, clocks, sizeof(taken), cudaMemcpyDeviceToHost);
                double sum = 0;
                for (long long it : taken) sum += it;
                printf(",\n  \"%d of a line, %d times, %d MB\": %.3f", each, again, mb,
                       sum / BLOCKS / LOADS / (THREADS / 32) / 32);
            }
    printf("\n }\n}\n");
    return cudaDeviceSynchronize() != cudaSuccess;
}
