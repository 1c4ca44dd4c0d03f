// What the planted bugs of checks/simulator/planted.py are hidden in.

// Two scalar loads from one 64-bit base that moves in a loop: right, and once judged wrong.
extern "C" __global__ void walk(const float *in, float *out)
{
    __shared__ float tile[256 + 4];
    const int t = threadIdx.x;
    for (int i = t; i < 260; i += 64) tile[i] = in[i];
    __syncthreads();
    unsigned long long base = __cvta_generic_to_shared(tile + t);
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        float a, b;
        asm volatile("ld.shared.f32 %0, [%2]; ld.shared.f32 %1, [%2+4];" : "=f"(a), "=f"(b) : "l"(base));
        sum += a + b;
        base += 192;
    }
    out[blockIdx.x * 64 + t] = sum;
}

// Indices of all kinds: negative, two-dimensional, loaded four at a time, shifted, masked; guards; atomics.
extern "C" __global__ void mixed(const float *in, const int4 *index, float *out, int *bins, int n, int stride)
{
    __shared__ float tile[2][128];
    const int x = threadIdx.x, y = threadIdx.y, t = y * 16 + x;
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const float *middle = in + 256;
    tile[0][t] = middle[(x - 2 * y) * stride + block];
    tile[1][(t << 1 & 127) | t >> 6] = in[block * 128 + t];
    __syncthreads();
    const int4 where = index[t];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum = fmaf(tile[k & 1][where.x], tile[1][where.y ^ (k * 4 & 60)], sum);
    if (t < 100)
        out[block * 128 + t] = sum;
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 7; @p st.global.f32 [%1], %2; }"
                 :: "r"(x), "l"(out + 1024 + block * 128 + t), "f"(sum) : "memory");
    *reinterpret_cast<float4 *>(out + 2048 + (block * 128 + t) * 4) = make_float4(sum, sum, sum, sum);
    atomicAdd(bins + (where.z + x & 63), 1);
}
