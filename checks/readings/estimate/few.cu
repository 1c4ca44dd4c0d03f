// nvcc -O3 -std=c++17 -arch=sm_90 -o few few.cu && ./few
//
// What accesses cost while few multiprocessors have a block, of 1,024 threads. First, clocks of an instruction of a warp
// whose lanes are STRIDE bytes apart: in 256 KB of each block, which L2 holds ("L2"), or in new memory ("DRAM"). Then
// clocks of a sector of so many MB that the blocks share out between them and read once a launch, in launches that
// repeat ("again"), and nanoseconds of a row of such an array, which 256 threads a block read row by row ("rows").
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int THREADS = 1024, DEEP = 8, MOST = 132, SHARED = 160 << 10; // bytes: L1 has few left
constexpr long OWN = 256 << 10, NEW = 16 << 20, FLUSHED = 2700L << 20, MEMORY = 3L << 30;
enum { LOAD, STORE, ADD, ADD_AND_GET };

template <typename T> __device__ int low(T value) { return reinterpret_cast<int &>(value); }

template <typename T, int OP, int STRIDE>
__global__ void __launch_bounds__(THREADS) few(char *data, long long *took, long region, long step, int turns)
{
    extern __shared__ int sums[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    char *mine = data + blockIdx.x * step + lane * STRIDE;
    int sum = 0;
    __syncthreads();
    const long long begun = clock64();
    for (int turn = 0; turn < turns; turn += DEEP) {
        T got[DEEP];
#pragma unroll
        for (int u = 0; u < DEEP; u++) {
            T *at = reinterpret_cast<T *>(mine + (((turn + u) * 32L + warp) * 32 * STRIDE & (region - 1)));
            if constexpr (OP == LOAD) got[u] = *at;
            if constexpr (OP == STORE) *at = T();
            if constexpr (OP == ADD) atomicAdd(at, T(1));
            if constexpr (OP == ADD_AND_GET) got[u] = atomicAdd(at, T(1));
        }
        if constexpr (OP == LOAD || OP == ADD_AND_GET)
#pragma unroll
            for (int u = 0; u < DEEP; u++) sum += low(got[u]);
        asm volatile("" ::: "memory");
    }
    if (OP == STORE || OP == ADD) __threadfence();
    if (sum == 123456) sums[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) took[blockIdx.x] = clock64() - begun;
}

__global__ void __launch_bounds__(THREADS) again(const int4 *from, size_t each, long long *took, int *to)
{
    int sum = 0;
    __syncthreads();
    const long long begun = clock64();
    for (size_t i = blockIdx.x * each + threadIdx.x; i < (blockIdx.x + 1) * each; i += DEEP * THREADS) {
        int4 got[DEEP];
#pragma unroll
        for (int u = 0; u < DEEP; u++) got[u] = from[i + u * THREADS];
#pragma unroll
        for (int u = 0; u < DEEP; u++) sum += got[u].x + got[u].y + got[u].z + got[u].w;
    }
    if (sum == 123456) *to = sum;
    __syncthreads();
    if (took && threadIdx.x == 0) took[blockIdx.x] = clock64() - begun;
}

__global__ void rows(const float *from, int count, size_t pitch, float *to)
{
    const size_t column = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
#pragma unroll 4
    for (int row = 0; row < count; row++) sum += from[row * pitch + column];
    to[column] = sum;
}

char *data;
long long *took;
int *to;

template <typename Launch> double clocks(int blocks, Launch launch)
{
    std::vector<double> found;
    for (int time = 0; time < 5; time++) {
        long long each[MOST];
        launch();
        cudaMemcpy(each, took, 8 * blocks, cudaMemcpyDeviceToHost);
        double sum = 0;
        for (int block = 0; block < blocks; block++) sum += each[block];
        if (time > 1) found.push_back(sum / blocks);
    }
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
}

template <typename T, int OP, int STRIDE> void all(const char *name)
{
    cudaFuncSetAttribute(few<T, OP, STRIDE>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    const int turns = std::max(32, (1 << 21) / (32 * STRIDE * 32));
    for (int blocks : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 132})
        for (bool far : {false, true}) {
            const double taken = clocks(blocks, [&] {
                if (far) again<<<2 * MOST, THREADS>>>((int4 *)(data + FLUSHED), 8 * DEEP * THREADS, nullptr, to);
                few<T, OP, STRIDE><<<blocks, THREADS, SHARED>>>(data, took, far ? NEW : OWN, far ? NEW : OWN, turns);
            });
            printf(",\n  \"%s, %s, %d blocks\": %.2f", name, far ? "DRAM" : "L2", blocks, taken / turns / 32);
        }
}

int main()
{
    cudaMalloc(&data, MEMORY);
    cudaMalloc(&took, 8 * MOST);
    cudaMalloc(&to, 1 << 20);
    cudaMemset(data, 0, MEMORY);
    all<float, LOAD, 4>("load4");
    all<float2, LOAD, 8>("load8");
    all<float4, LOAD, 16>("load16");
    all<float, LOAD, 32>("load 4 of 32");
    all<float, LOAD, 128>("load 4 of 128");
    all<float, STORE, 4>("store4");
    all<float2, STORE, 8>("store8");
    all<float4, STORE, 16>("store16");
    all<float, STORE, 32>("store 4 of 32");
    all<float2, STORE, 32>("store 8 of 32");
    all<float4, STORE, 32>("store 16 of 32");
    all<float, STORE, 128>("store 4 of 128");
    all<float4, STORE, 128>("store 16 of 128");
    all<int, ADD, 4>("red4");
    all<float, ADD, 4>("redf4");
    all<int, ADD, 32>("red 4 of 32");
    all<float, ADD, 128>("redf 4 of 128");
    all<int, ADD_AND_GET, 4>("atom4");
    all<int, ADD_AND_GET, 128>("atom 4 of 128");
    for (int blocks : {1, 2, 4, 8, 12, 24, 48, 132})
        for (int mb : {4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 64})
            if (size_t each = ((size_t)mb << 16) / blocks / (DEEP * THREADS) * (DEEP * THREADS)) {
                const double taken = clocks(blocks, [&] { again<<<blocks, THREADS>>>((int4 *)data, each, took, to); });
                printf(",\n  \"again, %d MB, %d blocks\": %.3f", mb, blocks, taken / (each / 2));
            }
    cudaEvent_t begun, ended;
    cudaEventCreate(&begun);
    cudaEventCreate(&ended);
    for (int blocks : {2, 4, 12, 24, 48, 132})
        for (int mb : {4, 8, 16, 24, 32, 36, 40, 48, 64}) {
            const size_t pitch = blocks * 256;
            const int count = ((size_t)mb << 18) / pitch;
            float ms[5];
            for (float &it : ms) {
                cudaEventRecord(begun);
                rows<<<blocks, 256>>>((float *)data, count, pitch, (float *)to);
                cudaEventRecord(ended);
                cudaEventSynchronize(ended);
                cudaEventElapsedTime(&it, begun, ended);
            }
            std::sort(ms + 2, ms + 5);
            printf(",\n  \"rows, %d MB, %d blocks\": %.1f", mb, blocks, ms[3] * 1e6 / count);
        }
}
