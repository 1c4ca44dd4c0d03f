// Copies past L1 of 16 bytes a lane, EACH lanes in a row of PITCH bytes of shared memory, N a turn, beside L loads of four
// wavefronts. Compiled with NVRTC, launched twice with warps * 128 / EACH * PITCH bytes of shared memory.
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory")
__device__ __forceinline__ int now() { int t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
extern "C" __global__ void beside(const char *data, int groups, int turns, int active, int *out)
{
    extern __shared__ __align__(128) char tile[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    constexpr int ROWS = 32 / EACH;
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile) + warp * 4 * ROWS * PITCH;
    const unsigned to = base + lane / EACH * PITCH + lane % EACH * 16;
    const char *from = data + ((long long)(blockIdx.x % groups) * warps + warp) * turns * N * ROWS * 128 + lane / EACH * 128 + lane % EACH * 16;
    float r[4] = {};
    __syncthreads();
    const int begun = now();
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        asm volatile("cp.async.wait_group 2;" ::: "memory");
#pragma unroll
        for (int i = 0; i < N; i++) COPY(to + i % 4 * ROWS * PITCH, from + i * ROWS * 128);
#pragma unroll
        for (int i = 0; i < L; i++)
            asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]) : "r"(base + lane * 16) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        from += N * ROWS * 128;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int over = now();
    if (lane == 0) { int *mine = out + (blockIdx.x * warps + warp) * 4; mine[0] = begun; mine[1] = over; mine[2] = r[0] + r[1] + r[2] + r[3] == 0.5f; }
}
// A burst: when it has been issued, when a load behind it returns, when the data are there.
extern "C" __global__ void stamps(const char *data, int groups, int turns, int active, int *out)
{
    extern __shared__ __align__(128) char tile[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    constexpr int ROWS = 32 / EACH;
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile) + warp * 4 * ROWS * PITCH;
    const unsigned to = base + lane / EACH * PITCH + lane % EACH * 16;
    const char *from = data + ((long long)(blockIdx.x % groups) * warps + warp) * turns * N * ROWS * 128 + lane / EACH * 128 + lane % EACH * 16;
    int begun = 0, issued = 0, loaded = 0, done = 0;
    for (int turn = 0; turn < turns; turn++) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        __syncthreads();
        begun = now();
        if (warp < active) {
#pragma unroll
            for (int i = 0; i < N; i++) COPY(to + i % 4 * ROWS * PITCH, from + i * ROWS * 128);
        }
        issued = now();
        int got;
        asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(got) : "r"(base) : "memory");
        asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0x12345678; @p trap;}" ::"r"(got) : "memory");
        loaded = now();
        asm volatile("cp.async.wait_all;" ::: "memory");
        done = now();
        from += N * ROWS * 128;
    }
    if (lane == 0) { int *mine = out + (blockIdx.x * warps + warp) * 4; mine[0] = begun; mine[1] = issued; mine[2] = loaded; mine[3] = done; }
}
