// What a GPU's pipes can do at most: multiply-adds in a loop, and nothing else. TM x TN per thread, as in a product's inner
// loop: every instruction reads three registers and writes one. checks/course/loops.py compiles, launches and times them.
//
//   dfma, idp, hfma2    the factors stay in registers
//   fed                 dfma with factors from shared memory, for every k, as lesson dgemm reads them: two doubles at a
//                       time, without bank conflicts; no global memory, no barrier

__device__ inline void multiply_add(double &acc, double a, double b)
{
    asm volatile("fma.rn.f64 %0, %1, %2, %0;" : "+d"(acc) : "d"(a), "d"(b));
}

__device__ inline void multiply_add(int &acc, int a, int b)
{
    asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
}

__device__ inline void multiply_add(unsigned &acc, unsigned a, unsigned b) // two halves each
{
    asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
}

template <typename T>
struct Thread {
    T a[TM], b[TN], acc[TM][TN] = {};

    __device__ void begin(const T *numbers)
    {
        for (int i = 0; i < TM; i++)
            a[i] = numbers[threadIdx.x + i];
        for (int j = 0; j < TN; j++)
            b[j] = numbers[threadIdx.x + TM + j];
    }

    __device__ void step()
    {
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j++) {
                const int there = i % 2 ? TN - 1 - j : j; // there and back: one new factor at a time
                multiply_add(acc[i][there], a[i], b[there]);
            }
    }

    __device__ void end(T *out) const
    {
        T sum = 0;
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j++)
                sum += acc[i][j];
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }
};

template <typename T>
__device__ void loop(T *out, const T *numbers, long long *clocks, int turns)
{
    Thread<T> it;
    it.begin(numbers);
    const long long start = clock64();
    for (int turn = 0; turn < turns; turn++)
#pragma unroll
        for (int again = 0; again < UNROLL; again++)
            it.step();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = clock64() - start;
    it.end(out);
}

extern "C" __global__ void dfma(double *out, const double *numbers, long long *clocks, int turns)
{
    loop(out, numbers, clocks, turns);
}

extern "C" __global__ void idp(int *out, const int *numbers, long long *clocks, int turns)
{
    loop(out, numbers, clocks, turns);
}

extern "C" __global__ void hfma2(unsigned *out, const unsigned *numbers, long long *clocks, int turns)
{
    loop(out, numbers, clocks, turns);
}

__device__ inline void load(double &x, double &y, unsigned address)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(address));
}

extern "C" __global__ void fed(double *out, const double *numbers, long long *clocks, int turns)
{
    constexpr int LINE_A = 64 + 2, LINE_B = 128;
    __shared__ __align__(16) double as[UNROLL * LINE_A];
    __shared__ __align__(16) double bs[UNROLL * LINE_B];
    for (int i = threadIdx.x; i < UNROLL * LINE_A; i += blockDim.x)
        as[i] = numbers[i];
    for (int i = threadIdx.x; i < UNROLL * LINE_B; i += blockDim.x)
        bs[i] = numbers[i + 7];
    __syncthreads();

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = warp / 2 * 32 + (lane / 16 * 2 + lane % 2) * 2;
    const int col = warp % 2 * 64 + lane / 2 % 8 * 2;
    const unsigned mine_a = __cvta_generic_to_shared(&as[row]);
    const unsigned mine_b = __cvta_generic_to_shared(&bs[col]);
    Thread<double> it;
    it.begin(numbers);
    const long long start = clock64();
    for (int turn = 0; turn < turns; turn++)
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            for (int j = 0; j < TN; j += 2)
                load(it.b[j], it.b[j + 1], mine_b + 8 * (k * LINE_B + j / 2 * 16));
            for (int i = 0; i < TM; i += 2)
                load(it.a[i], it.a[i + 1], mine_a + 8 * (k * LINE_A + i / 2 * 8));
            it.step();
        }
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = clock64() - start;
    it.end(out);
}
