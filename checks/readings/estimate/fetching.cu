// Straight-line code in a loop: LENGTH instructions of 16 bytes. fetching.py compiles it for each length.
// Three of them count turns, the others are multiply-adds. CHAINS: independent sums of a thread.
// later: clocks until each warp begins.
extern "C" __global__ void __launch_bounds__(512)
loop(long long *took, float *sums, const int *later, int turns, float x, float y)
{
    float acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = threadIdx.x + i;
    __syncthreads();
    const long long start = clock64();
    while (clock64() - start < later[threadIdx.x / 32]) {}
    const long long begun = clock64();
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
#pragma unroll
        for (int n = 0; n < LENGTH - 3; n++)
            acc[n % CHAINS] = __fmaf_rn(acc[n % CHAINS], x, y);
    }
    const long long over = clock64();
    float sum = 0.0f;
    for (int i = 0; i < CHAINS; i++)
        sum += acc[i];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x % 32 == 0) {
        long long *mine = took + (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 2;
        mine[0] = begun;
        mine[1] = over;
    }
}
