// Kernels of few operations each, for forms of machine instructions that no single PTX instruction becomes: uniform
// registers, addresses, packed predicates, exchange between lanes. Every lane writes its answers behind each other.
//   a b c: one value a lane;  s t: the same for all lanes;  out: answer k of lane i is at [k * lanes + i]
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define KERNEL(name)                                                                                                   \
    extern "C" __global__ void name(const u32 *a, const u32 *b, const u32 *c, u32 *out, int s, int t)
#define BEGIN                                                                                                          \
    const u32 lane = threadIdx.x, lanes = blockDim.x;                                                                  \
    const u32 x = a[lane], y = b[lane], z = c[lane];                                                                   \
    u32 answers = 0;                                                                                                   \
    (void)x, (void)y, (void)z, (void)answers
#define PUT(value) out[answers++ * lanes + lane] = (u32)(value)
#define PUT64(value)                                                                                                   \
    do {                                                                                                               \
        const u64 wide = (u64)(value);                                                                                 \
        PUT(wide);                                                                                                     \
        PUT(wide >> 32);                                                                                               \
    } while (0)

KERNEL(k0) // 64-bit addresses of every index type
{
    BEGIN;
    const char *base = (const char *)(((u64)z << 32) | y);
    PUT64((u64)((const double *)base + (int)x));
    PUT64((u64)((const double *)base + x));
    PUT64((u64)((const float *)base + (s64)(int)x * 3));
    PUT64((u64)(base + (((u64)y << 32 | x) << 5)));
    PUT64((u64)((const short *)base - (int)x));
    PUT((y << 7) + x);
    PUT(x - (y << 3));
    PUT(((s64)((u64)y << 32 | x) >> 29) + z);
    PUT(((int)x >> 27) + y);
}

KERNEL(uniform_words)
{
    BEGIN;
    const u32 us = s, ut = t;
    PUT(s * t + 5);
    PUT((us << 3) + ut);
    PUT((us & ut) | 0x55);
    PUT(us ^ ~ut);
    PUT(s >> 5);
    PUT(us >> 7);
    PUT(us << (ut & 31));
    PUT(s > t ? s : t);
    PUT(us < ut ? us : ut);
    PUT(__popc(us));
    PUT(__clz(us));
    PUT(__brev(ut));
    PUT(__byte_perm(us, ut, 0x6420));
    PUT((short)s);
    PUT(s - t);
    PUT(-s);
    PUT(s == t);
    PUT(us % 7 + x);
    PUT(__funnelshift_l(us, ut, 9));
    PUT((us >> 4) & 0xfff);
}

KERNEL(uniform_pairs)
{
    BEGIN;
    const u64 us = (u64)(u32)s * (u32)t, ut = (s64)s * t;
    PUT64(us);
    PUT64(ut);
    PUT64(us + ut + 77);
    PUT64(us - ut);
    PUT64(us + (s64)s);
    PUT64(us << 13);
    PUT64(us >> 17);
    PUT64((s64)ut >> 9);
    PUT64(us * ut);
    PUT(us < ut);
    PUT((s64)us < (s64)ut);
    PUT(us == ut);
    PUT((s64)ut >= s);
    PUT64((u64)((const double *)us + s));
    PUT64((s64)us < (s64)ut ? us : ut);
    PUT64((u64)((const double *)us + s) + x);
}

KERNEL(packed_predicates)
{
    BEGIN;
    u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 23; ++i)
        if (x >> i & 1)
            sum += b[i] * (i + 1);
    PUT(sum);
    const bool p = x < y, q = (int)y < (int)z, r = x == z, v = (x & y) != 0, w = (y | z) == 0xffffffffu, n = x > 77;
    u32 many = 0;
#pragma unroll 1
    for (int i = 0; i < 5; ++i) {
        if (p) many += a[i];
        if (q) many ^= b[i];
        if (r) many *= c[i] | 1;
        if (v) many -= a[i + 1];
        if (w) many += b[i + 1];
        if (n) many ^= c[i + 1];
        if (p ^ q) many += 3;
    }
    PUT(many);
    PUT((p && q) || (r && v));
    PUT((x & y & 0xff00) != 0 && p);
    PUT(((x ^ y) & z) == 0 || q);
    PUT((p ? x : y) + (q ? y : z) + (r ? 1 : 2));
}

KERNEL(lanes_exchange)
{
    BEGIN;
    const u32 all = 0xffffffffu;
    PUT(__shfl_sync(all, x, y));
    PUT(__shfl_sync(all, x, y, 8));
    PUT(__shfl_up_sync(all, x, 3));
    PUT(__shfl_up_sync(all, x, z & 31, 16));
    PUT(__shfl_down_sync(all, x, 5));
    PUT(__shfl_down_sync(all, x, z & 31, 8));
    PUT(__shfl_xor_sync(all, x, 9));
    PUT(__shfl_xor_sync(all, x, y & 31, 4));
    PUT(__ballot_sync(all, x & 1));
    PUT(__any_sync(all, x == y));
    PUT(__all_sync(all, lane < 64 || x < y));
    int same = 0;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
                 : "=r"(same) : "r"(lane / 40));
    PUT(same);
    PUT(__popc(__ballot_sync(all, (int)x < (int)y)) + __activemask());
}

#if __CUDA_ARCH__ >= 800
KERNEL(lanes_reduce)
{
    BEGIN;
    const u32 all = 0xffffffffu;
    PUT(__reduce_add_sync(all, x));
    PUT(__reduce_min_sync(all, x));
    PUT(__reduce_max_sync(all, x));
    PUT(__reduce_min_sync(all, (int)y));
    PUT(__reduce_max_sync(all, (int)y));
    PUT(__reduce_and_sync(all, x | 0xff));
    PUT(__reduce_or_sync(all, z));
    PUT(__reduce_xor_sync(all, z));
}
#endif

KERNEL(lanes_match)
{
    BEGIN;
    int agreed = 0;
    PUT(__match_any_sync(0xffffffffu, x % 5));
    PUT(__match_all_sync(0xffffffffu, lane / 64, &agreed));
    PUT(agreed);
    PUT(__match_all_sync(0xffffffffu, lane / 48, &agreed));
    PUT(agreed);
}

KERNEL(parts_of_words)
{
    BEGIN;
    PUT(__float_as_uint((float)(unsigned char)(x >> 8)));
    PUT(__float_as_uint((float)(signed char)(x >> 16)));
    PUT(__float_as_uint((float)(unsigned char)(x >> 24)));
    PUT(__float_as_uint((float)(short)(y >> 16)));
    PUT(__float_as_uint((float)(unsigned short)y));
    PUT((int)(signed char)(x >> 16) + (short)(y >> 16));
    PUT(__dp4a(x, y, z));
    PUT((int)x < 0 ? -(int)x : (int)x);
    PUT((short)__float2int_rn(__uint_as_float(x)));
    PUT((unsigned short)__float2uint_rz(__uint_as_float(y)));
    PUT((signed char)__float2int_rd(__uint_as_float(z)));
}

KERNEL(sums_and_limits)
{
    BEGIN;
    PUT(min((int)(x + y), (int)z));
    PUT(max((int)(x + y), (int)z));
    PUT(min(x + y, z));
    PUT(max(x + y, z));
    PUT(max(min((int)x, (int)y), 0));
    PUT(max((int)(x - y), 0));
    PUT(x + y + z);
    PUT(x - y - z);
    PUT(s - (int)x);
    PUT(x * y - z);
    PUT(z - x * y);
    PUT(__usad(x, y, z));
    PUT(__sad((int)x, (int)y, z));
    PUT((x & y) | (~x & z));
    PUT(x ^ y ^ z);
    PUT(~(x | y) & z);
    PUT((x | y) & (y | z) & (x | z));
}

KERNEL(wide_sums)
{
    BEGIN;
    const u64 p = (u64)y << 32 | x, q = (u64)x << 32 | z, r = (u64)z << 32 | y;
    PUT64(p + q);
    PUT64(p - q);
    PUT64(p + q + r);
    PUT64(p - q - r);
    PUT64(-p);
    PUT64(p + (s64)(int)z);
    PUT64(p - z);
    PUT64((u64)x * y + r);
    PUT64((s64)(int)x * (int)y + (s64)r);
    PUT64((s64)(int)x * (int)y - (s64)r);
    PUT64(p * q);
    PUT64(__umul64hi(p, q));
    PUT64(__mul64hi(p, q));
    PUT(p < q);
    PUT((s64)p <= (s64)q);
    PUT(p != r);
    PUT64((s64)p < (s64)q ? p : q);
    PUT64(p > r ? p : r);
}

KERNEL(quotients)
{
    BEGIN;
    const u32 d = y | 1;
    PUT(x / d);
    PUT(x % d);
    PUT((int)x / (int)(d | 2));
    PUT((int)x % (int)(d | 2));
    PUT64(((u64)z << 32 | x) / d);
    PUT64(((u64)z << 32 | x) % ((u64)y << 20 | 3));
    PUT64((s64)((u64)z << 32 | x) / (s64)((u64)y << 9 | 5));
    PUT((unsigned short)x / (unsigned short)(y | 1));
    PUT(x / (u32)(s | 1));
    PUT((int)x / (t | 1));
    PUT(__float_as_uint(__uint_as_float(x & 0x3fffffff | 0x20000000) / __uint_as_float(y & 0x1fffffff | 0x30000000)));
    PUT(__float_as_uint(sqrtf(__uint_as_float(x & 0x3fffffff | 0x20000000))));
}

KERNEL(uniform_loops) // loop counters and offsets that are the same for all lanes
{
    BEGIN;
    u32 sum = 0;
    const int n = (s & 15) + 3, step = (t & 3) + 1;
#pragma unroll 1
    for (int i = 0; i < n * step; i += step) {
        sum = sum * 31 + a[(i * 5 + blockIdx.x) % 192] + b[(u32)(i << 2 ^ 0x15) % 192];
        if ((i & 6) != 2)
            sum += c[(i >> 1) + lane / 2];
    }
    PUT(sum);
    u64 wide = 0;
#pragma unroll 1
    for (s64 j = (s64)(s & 0x7fffffff) << 20; j > 3; j = (j >> 3) - (t & 1))
        wide = wide * 33 + j * (u32)t + a[j & 127];
    PUT64(wide);
    u32 far = 0;
#pragma unroll 1
    for (u32 k = s & 7; k < (t & 63) + 9u; ++k)
        far += a[k * ((t & 1) + 1)] ^ (&b[k])[-(int)(k / 2)] ^ *(const u32 *)((const char *)c + 4 * (k & 31) + 4 * lane % 256);
    PUT(far);
}

KERNEL(shared_words) // addresses in shared memory, blocks
{
    BEGIN;
    __shared__ u32 cache[768];
    __shared__ unsigned char bytes[256];
    for (u32 i = lane; i < 768; i += lanes)
        cache[i] = a[i % lanes] * i;
    for (u32 i = lane; i < 256; i += lanes)
        bytes[i] = b[i % lanes] >> (i & 15);
    __syncthreads();
    u32 sum = 0;
#pragma unroll 1
    for (int i = 0; i < (s & 7) + 4; ++i) {
        sum += cache[(i * 48 + (t & 31)) + lane / 8] + bytes[(lane + i) & 255];
        const uint4 four = *(const uint4 *)&cache[i * 16 + (lane & 31) * 4];
        sum ^= four.x + four.y * 3 + four.z * 5 + four.w * 7;
    }
    PUT(sum);
    u32 kept[9];
#pragma unroll
    for (int i = 0; i < 9; ++i)
        kept[i] = x * i;
    kept[y % 9] = z;
    PUT(kept[z % 9] + kept[x % 9]);
    PUT(__float_as_uint((float)(int)x));
}
