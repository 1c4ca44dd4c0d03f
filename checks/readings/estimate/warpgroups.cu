// Products of warpgroups by themselves: TURNS of BATCH instructions and the wait for them. N columns; A in REGISTERS or
// shared memory. Block 128 x warpgroups. clocks[block]: of all turns; issued[block]: until the last batch was issued.
extern "C" __global__ void __launch_bounds__(256)
k(const uint4 *data, long long *clocks, long long *issued, float *sink, int turns)
{
    extern __shared__ __align__(1024) uint4 tiles[]; // A of each warpgroup, 8 KB; B, 32 KB
    const int t = threadIdx.x, group = t / 128;
    for (int i = t; i < 3072; i += blockDim.x)
        tiles[i] = data[(i + 64 * blockIdx.x) % 65536];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const auto descriptor = [](const void *tile) {
        return (unsigned long long)((unsigned)__cvta_generic_to_shared(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 |
               1ull << 62;
    };
    const unsigned long long a = descriptor(tiles + 512 * group), b = descriptor(tiles + 1024);
    float d[N / 2] = {};
    unsigned r[4] = {tiles[t].x, tiles[t].y, tiles[t].z, tiles[t].w};
    long long before = 0, after = 0, last = 0;
    for (int turn = -2; turn < turns; turn++) {
        if (turn == 0)
            before = clock64();
        last = clock64();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            PRODUCT
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        after = clock64();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    const long long end = clock64();
    if (t == 0)
        clocks[blockIdx.x] = end - before, issued[blockIdx.x] = after - last;
    float sum = 0;
    for (int i = 0; i < N / 2; i++)
        sum += d[i];
    sink[t] = sum;
}
