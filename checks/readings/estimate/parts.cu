// for w in 4 8 16 24 32; do nvcc -O3 -std=c++17 -arch=sm_90 -DWARPS=$w -o parts parts.cu && ./parts; done
//
// Clocks of a multiprocessor for each instruction of a warp that stores to L2. EACH lanes lie in a row, STEP bytes apart;
// rows are lines of their own. The next instruction goes on where the lane stopped (fill), to other lines (fresh), or
// to the same place (again). "volatile" does so whatever the compiler thinks; "sums" loads first.
#include <cstdio>
#include <cuda_runtime.h>

constexpr int TURNS = 2048, LINE = 128, REGION = 64, WIDE = 68; // lines of a warp, and to the next one's

enum { STORES, VOLATILE, SUMS };

// `apart`: lines from one line of a warp to its next; `wide`: from one warp's first line to the next one's.
template <typename T, int OP, int EACH, int STEP, int FILLS, int FRESH>
__global__ void __launch_bounds__(WARPS * 32) parts(char *data, long long *clocks, int apart, int wide)
{
    constexpr int ROWS = 32 / EACH, SETS = FRESH ? REGION / ROWS : 1;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 + WARPS * blockIdx.x;
    char *mine = data + (warp * wide + lane / EACH * apart) * LINE + lane % EACH * STEP;
    const int next = ROWS * apart * LINE;
    __syncthreads();
    const long long begun = clock64();
    for (int turn = 0; turn < TURNS / SETS / FILLS; turn++) {
#pragma unroll 8
        for (int set = 0; set < SETS; set++) {
            char *row = mine + set * next;
#pragma unroll
            for (int fill = 0; fill < FILLS; fill++) {
                T *at = reinterpret_cast<T *>(row) + fill;
                if (OP == STORES) *at = T();
                if (OP == VOLATILE) *reinterpret_cast<volatile float *>(at) = 0;
                if (OP == SUMS) *reinterpret_cast<volatile float *>(at) = *reinterpret_cast<float *>(at) + 1.0f;
                asm volatile("" ::: "memory");
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begun;
}

char *data;
long long *clocks;

template <typename T, int OP, int EACH, int STEP, int FILLS, int FRESH>
void read(const char *name, bool tall = false)
{
    for (int blocks : {1, 132}) {
        char label[200];
        snprintf(label, 200, "%s%s, %d blocks", name, tall ? ", tall" : "", blocks);
        long long taken[132];
        for (int again = 0; again < 4; again++)
            parts<T, OP, EACH, STEP, FILLS, FRESH>
                <<<blocks, WARPS * 32>>>(data, clocks, tall ? 132 * WARPS : 1, tall ? 1 : WIDE);
        cudaMemcpy(taken, clocks, 8 * blocks, cudaMemcpyDeviceToHost);
        double sum = 0;
        for (int b = 0; b < blocks; b++) sum += taken[b];
        printf(",\n  \"%s\": %.2f", label, sum / blocks / TURNS / WARPS);
    }
}

int main()
{
    const long bytes = 132L * WARPS * 2 * REGION * LINE;
    cudaMalloc(&data, bytes); cudaMalloc(&clocks, 8 * 132);
    cudaMemset(data, 0, bytes);
    printf(" \"%d warps\": {\n  \"empty\": 0.0", WARPS);
    // Stores: lanes of a row, bytes between them, width; then what the next instruction does.
    read<float4, STORES, 8, 16, 1, 1>("stores 8 x 16 of 16, fresh");
    read<float2, STORES, 8, 16, 2, 1>("stores 8 x 16 of 8, fill");
    read<float2, STORES, 8, 16, 1, 1>("stores 8 x 16 of 8, fresh");
    read<float, STORES, 8, 16, 4, 1>("stores 8 x 16 of 4, fill");
    read<float, STORES, 8, 16, 1, 1>("stores 8 x 16 of 4, fresh");
    read<float, VOLATILE, 8, 16, 4, 1>("volatile stores 8 x 16 of 4, fill");
    read<float, VOLATILE, 8, 16, 1, 1>("volatile stores 8 x 16 of 4, fresh");
    read<float, VOLATILE, 1, 4, 1, 0>("volatile stores 1 x 4 of 4, again");
    read<float, STORES, 32, 4, 1, 1>("stores 32 x 4 of 4, fresh");
    read<float, STORES, 8, 4, 1, 1>("stores 8 x 4 of 4, fresh");
    read<float, STORES, 4, 4, 1, 1>("stores 4 x 4 of 4, fresh");
    read<float2, STORES, 4, 8, 1, 1>("stores 4 x 8 of 8, fresh");
    read<float4, STORES, 2, 16, 1, 1>("stores 2 x 16 of 16, fresh");
    read<float4, STORES, 1, 16, 1, 1>("stores 1 x 16 of 16, fresh");
    read<float4, STORES, 1, 16, 8, 1>("stores 1 x 16 of 16, fill");
    read<float, STORES, 1, 4, 1, 1>("stores 1 x 4 of 4, fresh");
    read<float, STORES, 1, 4, 32, 1>("stores 1 x 4 of 4, fill");
    read<float, STORES, 4, 32, 1, 1>("stores 4 x 32 of 4, fresh");
    read<float, STORES, 4, 32, 8, 1>("stores 4 x 32 of 4, fill");
    read<float, STORES, 16, 8, 2, 1>("stores 16 x 8 of 4, fill");
    read<float, SUMS, 1, 4, 1, 0>("sums 1 x 4 of 4, again");
    read<float, SUMS, 1, 4, 1, 0>("sums 1 x 4 of 4, again", true);
    read<float, SUMS, 32, 4, 1, 0>("sums 32 x 4 of 4, again");
    printf("\n }\n");
    return cudaDeviceSynchronize() != cudaSuccess;
}
