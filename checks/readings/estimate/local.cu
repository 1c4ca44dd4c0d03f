// nvcc -O3 -std=c++17 -arch=sm_90 -o local local.cu && ./local > local_h200.json
//
// Clocks of a multiprocessor for each register of a warp that is stored to local memory, alone or with as many loads:
// WORDS of it a thread. Where ncu counts (lts__t_sectors_op_write.sum), L2 gets every store, whatever fits into L1.
#include <cstdio>
#include <cuda_runtime.h>

template <int WORDS, bool LOAD>
__global__ void __launch_bounds__(1024) local(int turns, long long *clocks, float *sink, int zero)
{
    float room[WORDS];
    for (int i = 0; i < WORDS; i++) room[i] = threadIdx.x + i;
    volatile float *v = &room[zero];
    float sum = 0, x = threadIdx.x;
    __syncthreads();
    const long long begun = clock64();
#pragma unroll 1
    for (int t = 0; t < turns; t++) {
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            if (LOAD) sum += v[i];
            v[i] = x;
        }
        x += 1.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begun;
    if (sum == 1e30f) *sink = sum + room[zero];
}

template <int WORDS, bool LOAD>
void read(int threads, int blocks)
{
    const int turns = 64;
    long long *clocks, taken[132];
    float *sink;
    cudaMalloc(&clocks, sizeof(taken));
    cudaMalloc(&sink, 4);
    for (int again = 0; again < 3; again++) local<WORDS, LOAD><<<blocks, threads>>>(turns, clocks, sink, 0);
    cudaMemcpy(taken, clocks, 8 * blocks, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int b = 0; b < blocks; b++) sum += taken[b];
    printf(",\n  \"%s, %d KB, %d blocks of %d\": %.2f", LOAD ? "stores and loads" : "stores", WORDS * threads * 4 / 1024,
           blocks, threads, sum / blocks / turns / WORDS / (threads / 32));
    cudaFree(clocks);
    cudaFree(sink);
}

template <int WORDS> void all(int threads)
{
    for (int blocks : {1, 132}) { read<WORDS, false>(threads, blocks); read<WORDS, true>(threads, blocks); }
}

int main()
{
    printf("{\n \"what\": \"Clocks of a multiprocessor for each register of a warp that is stored to local memory.\",\n"
           " \"gpu\": \"NVIDIA H200\",\n \"clocks\": {\n  \"empty\": 0.0");
    all<16>(256); all<64>(256); all<16>(1024); all<32>(1024); all<64>(1024); all<128>(1024); all<192>(1024);
    printf("\n }\n}\n");
    return cudaDeviceSynchronize() != cudaSuccess;
}
