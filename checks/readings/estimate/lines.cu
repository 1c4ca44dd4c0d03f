// nvcc -O3 -std=c++17 -arch=sm_90 -o lines lines.cu && ./lines; ncu --metrics lts__t_sectors_srcunit_tex_op_write.sum ./lines
//
// copies: clocks of a multiprocessor for each cp.async past L1 of 16 bytes a lane, EACH lanes in a line. tails: a warp
// stores as a product by mma.sync ends, two words side by side in eight rows and in eight others, sector after sector.
#include <cstdio>
#include <cuda_runtime.h>

template <int EACH>
__global__ void copies(const char *data, long long *clocks)
{
    extern __shared__ __align__(16) char tile[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = 32 / EACH;
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile) + warp * 1024 + lane * 16;
    const char *from = data + (warp + blockIdx.x * (blockDim.x / 32)) * 8LL * rows * 128 + lane / EACH * 128 + lane % EACH * 16;
    __syncthreads();
    const long long begun = clock64();
    for (int turn = 0; turn < 64; turn++) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i % 2 * 512), "l"(from + i * rows * 128) : "memory");
        asm volatile("cp.async.commit_group; cp.async.wait_group 1;" ::: "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begun;
}

__global__ void tails(char *data, long long pitch)
{
    const long long warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    char *mine = data + warp * 16 * 256 + threadIdx.x % 32 / 4 * pitch + threadIdx.x % 4 * 8;
    for (int again = 0; again < 2; again++)
        for (int group = 0; group < 16; group++)
#pragma unroll
            for (int i = 0; i < 32; i++)
                *reinterpret_cast<volatile int *>(mine + group * 256 + i / 4 * 32 + i / 2 % 2 * 8 * pitch + i % 2 * 4) = i;
}

char *data;
long long *clocks;

template <int EACH>
void read()
{
    for (int blocks : {1, 132})
        for (int warps : {8, 16}) {
            for (int again = 0; again < 3; again++) copies<EACH><<<blocks, warps * 32, 32768>>>(data, clocks);
            long long taken[132];
            cudaMemcpy(taken, clocks, 8 * blocks, cudaMemcpyDeviceToHost);
            double sum = 0;
            for (int b = 0; b < blocks; b++) sum += taken[b];
            printf("\"%d lanes in a line, %d warps, %d blocks\": %.2f\n", EACH, warps, blocks, sum / blocks / 512 / warps);
        }
}

int main()
{
    cudaMalloc(&data, 512 << 20); cudaMalloc(&clocks, 8 * 132);
    cudaMemset(data, 0, 512 << 20);
    read<8>(); read<4>(); read<2>(); read<1>();
    for (int warps : {1, 2, 4, 8}) tails<<<132, warps * 32>>>(data, 132LL * warps * 16 * 256);
    return cudaDeviceSynchronize() != cudaSuccess;
}
