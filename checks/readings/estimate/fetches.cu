// What a fetch through a texture costs beside a load: clocks of a turn of FETCHES texels of 16 bytes, LOADS global loads
// and SHARED shared loads of as many for each lane. ROWS: lanes that have neighbours; 32: all; 4 or 2: so many, then the
// next row. Every turn waits for what it asked for; CHAIN: the first address of the next turn, too.
__device__ unsigned now()
{
    unsigned clocks;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clocks)::"memory");
    return clocks;
}

extern "C" __global__ void __launch_bounds__(512)
probe(cudaTextureObject_t texture, const float4 *in, unsigned *out, float *sink, int turns, int pitch, int step, int apart)
{
    constexpr int COUNT = FETCHES + LOADS + SHARED;
    extern __shared__ __align__(16) float tile[];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x)
        tile[i] = i;
    const int lane = threadIdx.x % 32, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const unsigned from = (unsigned)__cvta_generic_to_shared(tile) + lane * 16;
    int at = lane / ROWS * pitch + lane % ROWS + warp * 16 * pitch % (1 << 19);
    float sums[COUNT][4] = {};
    __syncthreads();
    const unsigned begun = now();
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        float x[COUNT][4];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i < FETCHES)
                asm volatile("tex.1d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
                             : "=f"(x[i][0]), "=f"(x[i][1]), "=f"(x[i][2]), "=f"(x[i][3])
                             : "l"(texture), "r"(at + i * apart));
            else if (i < FETCHES + LOADS)
                asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(x[i][0]), "=f"(x[i][1]), "=f"(x[i][2]), "=f"(x[i][3])
                             : "l"(in + at + (i - FETCHES) * apart));
            else
                asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(x[i][0]), "=f"(x[i][1]), "=f"(x[i][2]), "=f"(x[i][3])
                             : "r"((from + (i - FETCHES - LOADS) * 512) ^ turn % 2 << 14));
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            for (int e = 0; e < 4; e++)
                sums[i][e] += x[i][e];
        at += step + (CHAIN && x[0][0] == -1.0f);
    }
    float sum = 0;
    for (auto &four : sums)
        for (float one : four)
            sum += one;
    if (sum == 12345.678f)
        sink[0] = sum;
    __syncthreads();
    const unsigned over = now();
    if (threadIdx.x == 0)
        out[blockIdx.x] = over - begun;
}
