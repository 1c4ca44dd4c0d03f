// How fast are multiply-adds on registers, and how fast when operands come from shared memory, from constants, by shuffles?
// A thread tile of TM x TN again and again. FEED: 0 nothing, 1 b, 2 a and b from shared memory as float4; 3 a from
// constants, 4 a by shuffles, b from shared memory. ORDER: 0 row by row, 1 column by column, 2 columns down and up again.
constexpr int DEPTH = 8; // products of K in a turn
__constant__ float constants[DEPTH * TM];

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
loop(const float *in, float *out, int turns)
{
    __shared__ __align__(16) float tile[DEPTH * 256];
    for (int i = threadIdx.x; i < DEPTH * 256; i += THREADS)
        tile[i] = in[i];
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const unsigned rows = (unsigned)__cvta_generic_to_shared(tile) + (lane / 16 * 2 + lane % 2) * 16;
    const unsigned cols = (unsigned)__cvta_generic_to_shared(tile) + lane / 2 % 8 * 16;
    const auto load = [](float *to, unsigned from) { // volatile: in every turn again
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(from));
    };

    float acc[TM][TN] = {};
    float a[TM], b[TN], mine[TM];
    for (int i = 0; i < TM; i++)
        a[i] = mine[i] = in[threadIdx.x + i * 32];
    for (int j = 0; j < TN; j++)
        b[j] = in[threadIdx.x + j * 64];
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++)
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            if (FEED == 2)
                for (int i = 0; i < TM; i += 4)
                    load(a + i, rows + k * 1024 + i * 16);
            if (FEED >= 1)
                for (int j = 0; j < TN; j += 4)
                    load(b + j, cols + k * 1024 + j * 32);
            if (FEED == 3)
                for (int i = 0; i < TM; i++)
                    a[i] = constants[k * TM + i];
            if (FEED == 4)
                for (int i = 0; i < TM; i++)
                    a[i] = __shfl_sync(~0u, mine[i], lane % 2 + k);
            for (int n = 0; n < TM * TN; n++) {
                const int row = ORDER == 0 ? n / TN : n % TM;
                const int j = ORDER == 0 ? n % TN : n / TM;
                const int i = ORDER == 2 && j % 2 ? TM - 1 - row : row;
                acc[i][j] = __fmaf_rn(a[i], b[j], acc[i][j]);
            }
        }
    float sum = 0;
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            sum += acc[i][j];
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}
