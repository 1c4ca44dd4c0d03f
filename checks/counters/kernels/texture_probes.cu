// Which lanes fetch which texels: what Nsight Compute says of one warp (readings/counters/texture_probes.json).
// The name begins with the numbers of a texel. Renewed by `python -m checks.readings.counters.textures`.
#define PROBE(NAME, TYPE, CONDITION, TEXEL)                              \
    extern "C" __global__ void NAME(cudaTextureObject_t t, TYPE *out)    \
    {                                                                    \
        const int i = threadIdx.x;                                       \
        if (CONDITION)                                                   \
            out[i] = tex1Dfetch<TYPE>(t, TEXEL);                         \
    }
#define PATTERNS(KIND, TYPE)                                             \
    PROBE(KIND##_row, TYPE, true, i)                                     \
    PROBE(KIND##_off1, TYPE, true, i + 1)                                \
    PROBE(KIND##_off3, TYPE, true, i + 3)                                \
    PROBE(KIND##_stride2, TYPE, true, 2 * i)                             \
    PROBE(KIND##_stride8, TYPE, true, 8 * i)                             \
    PROBE(KIND##_stride32, TYPE, true, 32 * i)                           \
    PROBE(KIND##_same, TYPE, true, 5)                                    \
    PROBE(KIND##_pairs, TYPE, true, i / 2 * 64 + i % 2)                  \
    PROBE(KIND##_halves, TYPE, true, i % 16 * 64 + i / 16)               \
    PROBE(KIND##_quads, TYPE, true, i / 4 * 64 + i % 4)                  \
    PROBE(KIND##_reverse, TYPE, true, 31 - i)                            \
    PROBE(KIND##_shuffled, TYPE, true, i * 7 % 32)                       \
    PROBE(KIND##_outside, TYPE, true, i - 1000000)                       \
    PROBE(KIND##_half_outside, TYPE, true, i < 16 ? i : -1 - i)          \
    PROBE(KIND##_half, TYPE, i < 16, i)                                  \
    PROBE(KIND##_even, TYPE, i % 2 == 0, i)                              \
    PROBE(KIND##_third, TYPE, i % 3 == 0, i)                             \
    PROBE(KIND##_one, TYPE, i == 3, i)
PATTERNS(one, float)
PATTERNS(two, float2)
PATTERNS(four, float4)
