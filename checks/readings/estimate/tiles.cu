// nvcc -O3 -std=c++17 -arch=sm_90 -o tiles tiles.cu && ./tiles | python -m checks.readings.estimate.tiles > NAME.json
//
// How long the tiles of a product take until they are in shared memory, as blocks that share them ask for them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#define CHECK(x)                                              \
    do {                                                      \
        cudaError_t e = (x);                                  \
        if (e != cudaSuccess) {                               \
            printf("%s: %s\n", #x, cudaGetErrorString(e));    \
            exit(1);                                          \
        }                                                     \
    } while (0)
enum { LOADS_AT_HEAD, COPIES_AT_HEAD, COPIES_ONE_AHEAD, LOADS_ONE_AHEAD };
constexpr int KEPT = 16;

// A step: RA rows of BA bytes of A, RB rows of BB bytes of B; then `work` rounds of 32 multiply-adds a thread.
// `parts`: copies are issued in so many parts, with a share of the work after each.
template <int MODE, int THREADS, int RA, int BA, int RB, int BB>
__global__ void __launch_bounds__(THREADS) walk(
    const char *A, const char *B, long lda, long ldb, int steps, int work,
    int parts, int band, unsigned *smid, long long *clocks, float *sink)
{
    constexpr int PA = RA * BA / 16, PB = RB * BB / 16, P = (PA + PB) / THREADS, SIZE = (PA + PB) * 16;
    extern __shared__ char tiles[];
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int first = number / (band * gridDim.x) * band, in = number % (band * gridDim.x);
    const int rows = min(band, (int)gridDim.y - first);
    const char *a = A + (long)(first + in % rows) * RA * lda, *b = B + (long)(in / rows) * BB;
    int4 kept[P];
    auto from = [&](int p, int s) {
        const int i = p * THREADS + threadIdx.x;
        return i < PA ? a + (long)(i / (BA / 16)) * lda + (long)s * BA + i % (BA / 16) * 16
                      : b + ((long)s * RB + (i - PA) / (BB / 16)) * ldb + (i - PA) % (BB / 16) * 16;
    };
    float acc[32];
    for (int i = 0; i < 32; i++) acc[i] = i + threadIdx.x;
    float x = 1.0f + threadIdx.x * 1e-9f;
    auto multiply = [&](int times) {
#pragma unroll 1
        for (int w = 0; w < times; w++)
#pragma unroll
            for (int i = 0; i < 32; i++) acc[i] = acc[i] * x + x;
    };
    auto copy = [&](int s, int p0, int p1, int stage) {
        for (int p = p0; p < p1; p++)
            __pipeline_memcpy_async(tiles + stage * SIZE + (p * THREADS + threadIdx.x) * 16, from(p, s), 16);
    };
    auto store = [&]() {
#pragma unroll
        for (int p = 0; p < P; p++) *(int4 *)(tiles + (p * THREADS + threadIdx.x) * 16) = kept[p];
    };
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    long long begin = 0;
    if (MODE == COPIES_ONE_AHEAD) { copy(0, 0, P, 0); __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); }
    for (int s = 0; s < steps; s++) {
        if (threadIdx.x == 0) {
            const long long now = clock64();
            if (s == 8) begin = now;
            if (s >= steps - KEPT && block < 264) clocks[1 + block * (KEPT + 1) + s - (steps - KEPT)] = now;
        }
        if (MODE == LOADS_AT_HEAD) {
#pragma unroll
            for (int p = 0; p < P; p++) kept[p] = __ldg((const int4 *)from(p, s));
            store();
            __syncthreads();
            multiply(work);
            __syncthreads();
        } else if (MODE == LOADS_ONE_AHEAD) {
#pragma unroll
            for (int p = 0; p < P; p++) kept[p] = __ldg((const int4 *)from(p, min(s + 1, steps - 1)));
            multiply(work);
            store();
            __syncthreads();
        } else if (MODE == COPIES_AT_HEAD) {
            copy(s, 0, P, 0);
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();
            multiply(work);
            __syncthreads();
        } else {
            for (int part = 0; part < parts; part++) {
                copy(min(s + 1, steps - 1), P * part / parts, P * (part + 1) / parts, (s + 1) % 2);
                multiply(work / parts);
            }
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        unsigned id;
        asm("mov.u32 %0, %%smid;" : "=r"(id));
        smid[block] = id;
        clocks[264 * (KEPT + 1) + 2 + block] = clock64() - begin;
    }
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += acc[i];
    if (sum == 12345.678f) sink[0] = sum + tiles[threadIdx.x];
}

template <int MODE, int THREADS, int RA, int BA, int RB, int BB>
void read(const char *name, int grid_x, int grid_y, int per_sm, int band, int steps_small, int steps_large, 
    std::vector<int> works, std::vector<int> parts = {1})
{
    auto kernel = walk<MODE, THREADS, RA, BA, RB, BB>;
    const int shared = std::max(228 * 1024 / per_sm - 2048, 0) / 1024 * 1024; // so that no more blocks fit
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, std::min(shared, 227 * 1024)));
    const int blocks = grid_x * grid_y;
    char *A, *B; unsigned *smid; long long *clocks; float *sink;
    const size_t la = (size_t)steps_large * BA, sa = la * grid_y * RA;
    const size_t lb = (size_t)grid_x * BB, sb = lb * steps_large * RB;
    CHECK(cudaMalloc(&A, sa)); CHECK(cudaMalloc(&B, sb)); CHECK(cudaMalloc(&smid, 4 * blocks));
    const size_t counters = 264 * (KEPT + 1) + 2 + blocks;
    CHECK(cudaMalloc(&clocks, 8 * counters)); CHECK(cudaMalloc(&sink, 4));
    CHECK(cudaMemset(A, 0, sa)); CHECK(cudaMemset(B, 0, sb)); CHECK(cudaMemset(clocks, 0, 8 * counters));
    for (int work : works) for (int part : parts) for (int large = 0; large < 2; large++) {
        const int steps = large ? steps_large : steps_small;
        // A's rows keep their length; fewer steps touch fewer columns of A and rows of B.
        cudaEvent_t e0, e1; cudaEventCreate(&e0); cudaEventCreate(&e1);
        for (int again = 0; again < 3; again++) {
            cudaEventRecord(e0);
            kernel<<<dim3(grid_x, grid_y), THREADS, std::min(shared, 227 * 1024)>>>(
                A, B, la, lb, steps, work, part, band, smid, clocks, sink);
            cudaEventRecord(e1);
            CHECK(cudaDeviceSynchronize());
        }
        float ms; cudaEventElapsedTime(&ms, e0, e1);
        std::vector<long long> c(counters); std::vector<unsigned> sm(blocks);
        CHECK(cudaMemcpy(c.data(), clocks, 8 * counters, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(sm.data(), smid, 4 * blocks, cudaMemcpyDeviceToHost));
        std::vector<double> each;
        for (int i = 0; i < std::min(blocks, 132 * per_sm); i++)
            each.push_back(double(c[264 * (KEPT + 1) + 2 + i]) / (steps - 8));
        std::sort(each.begin(), each.end());
        // Of two blocks on one multiprocessor: by which share of a step one is ahead of the other, at the end.
        std::map<unsigned, std::vector<int>> on;
        for (int i = 0; i < std::min(blocks, 264); i++) on[sm[i]].push_back(i);
        std::vector<double> phase;
        for (auto &[_, two] : on) if (two.size() >= 2) {
            const long long *p = &c[1 + two[0] * (KEPT + 1)], *q = &c[1 + two[1] * (KEPT + 1)];
            const double step = each[each.size() / 2];
            for (int i = 5; i < KEPT; i += 3) { // the other's last head before mine
                double best = 1e9;
                for (int j = 0; j < KEPT; j++) if (q[j] <= p[i]) best = std::min(best, double(p[i] - q[j]));
                if (best < 2 * step) phase.push_back(std::min(1.0, best / step));
            }
        }
        std::sort(phase.begin(), phase.end());
        auto at = [](std::vector<double> &v, double f) { return v.empty() ? -1.0 : v[size_t(f * (v.size() - 1))]; };
        printf("%-34s %3dx%-3d %d/SM band %2d %s work %4d parts %d: %8.1f us, clocks a step "
               "%7.0f (p10 %7.0f p90 %7.0f), "
               "phase p10 %.2f p50 %.2f p90 %.2f\n",
               name, grid_x, grid_y, per_sm, band, large ? "from DRAM" : "in L2    ", work, part, ms * 1e3,
               at(each, .5), at(each, .1), at(each, .9), at(phase, .1), at(phase, .5), at(phase, .9));
        fflush(stdout);
    }
    cudaFree(A); cudaFree(B); cudaFree(smid); cudaFree(clocks); cudaFree(sink);
}

// How long a warp takes to issue N copies of 16 bytes a thread, and until all are there. Rows of 128 bytes, PAD bytes
// apart in shared memory; `groups` groups of blocks ask for the same rows.
template <int N, int PAD>
__global__ void __launch_bounds__(256) burst(const char *A, long lda, int steps, int groups, float *found)
{
    extern __shared__ char tiles[];
    const char *a = A + (long)(blockIdx.x % groups) * 384 * lda;
    double issued = 0, done = 0;
    for (int s = 0; s < steps; s++) {
        __syncthreads();
        const char *from = a + (long)(threadIdx.x / 8) * lda + (long)s * 128 + threadIdx.x % 8 * 16;
        unsigned to = (unsigned)__cvta_generic_to_shared(tiles) + threadIdx.x / 8 * (128 + PAD) + threadIdx.x % 8 * 16;
        const long more = 32 * lda;
        const long long t0 = clock64();
#pragma unroll
        for (int n = 0; n < N; n++) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
            asm volatile("add.s64 %0, %0, %1;" : "+l"(from) : "l"(more));
            asm volatile("add.u32 %0, %0, %1;" : "+r"(to) : "r"(32 * (128 + PAD)));
        }
        const long long t1 = clock64();
        asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
        const long long t2 = clock64();
        if (s >= 4) { issued += t1 - t0; done += t2 - t0; }
    }
    if (threadIdx.x % 32 == 0) {
        found[(blockIdx.x * 8 + threadIdx.x / 32) * 2] = issued / (steps - 4);
        found[(blockIdx.x * 8 + threadIdx.x / 32) * 2 + 1] = done / (steps - 4);
    }
}

template <int N, int PAD>
void bursts(int blocks, int groups)
{
    const int steps = 64; // 8 KB of each of 384 rows a group
    char *A; float *found;
    const long lda = 8192;
    CHECK(cudaMalloc(&A, lda * 384 * 132 + (1 << 20))); CHECK(cudaMalloc(&found, 132 * 16 * 4));
    CHECK(cudaMemset(A, 0, lda * 384 * 132));
    CHECK(cudaFuncSetAttribute(burst<N, PAD>, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024));
    for (int again = 0; again < 3; again++) {
        burst<N, PAD><<<blocks, 256, 160 * 1024>>>(A, lda, steps, groups, found);
        CHECK(cudaDeviceSynchronize());
    }
    std::vector<float> f(blocks * 16);
    CHECK(cudaMemcpy(f.data(), found, f.size() * 4, cudaMemcpyDeviceToHost));
    double issued = 0, last = 0, done = 0;
    for (int b = 0; b < blocks; b++) {
        float most = 0, late = 0;
        for (int w = 0; w < 8; w++) {
            issued += f[(b * 8 + w) * 2];
            most = std::max(most, f[(b * 8 + w) * 2]);
            late = std::max(late, f[(b * 8 + w) * 2 + 1]);
        }
        last += most; done += late;
    }
    printf("burst of %2d copies a thread, 256 threads, %3d blocks, %2d groups, padding %2d: "
           "issued after %7.0f on average, %7.0f by the last warp; there after %7.0f\n",
           N, blocks, groups, PAD, issued / blocks / 8, last / blocks, done / blocks);
    fflush(stdout);
    cudaFree(A); cudaFree(found);
}

template <int PAD> void all_bursts()
{
    for (int blocks : {1, 132}) {
        bursts<1, PAD>(blocks, 8);
        bursts<2, PAD>(blocks, 8);
        bursts<4, PAD>(blocks, 8);
        bursts<6, PAD>(blocks, 8);
        bursts<8, PAD>(blocks, 8);
        bursts<12, PAD>(blocks, 8);
    }
}

int main()
{
    all_bursts<0>();
    all_bursts<16>();
    // fp32, 128 x 128 x 8, 256 threads: lessons thread_tile to bank_conflicts; K = 512 (16 MB) and 8192 (256 MB).
    for (int per_sm : {1, 2, 3})
        read<LOADS_AT_HEAD, 256, 128, 32, 8, 512>("loads at head 128x128x8 fp32",
            32, 32, per_sm, 1, 64, 1024, {0, 8, 16, 32});
    read<LOADS_ONE_AHEAD, 256, 128, 32, 8, 512>("loads one ahead 128x128x8 fp32", 32, 32, 2, 1, 64, 1024, {8, 16, 32});
    // fp32, 64 x 128 x 8, 128 threads, four blocks: lessons warp_tile and double_buffer
    read<LOADS_AT_HEAD, 128, 64, 32, 8, 512>("loads at head 64x128x8 fp32", 32, 64, 4, 1, 64, 1024, {0, 8, 16, 32});
    // halves, 128 x 128 x 32, 128 threads, two blocks: lesson tensor_cores
    for (int per_sm : {1, 2})
        read<LOADS_AT_HEAD, 128, 128, 64, 32, 256>("loads at head 128x128x32 halves",
            32, 32, per_sm, 1, 40, 512, {0, 8, 16, 32});
    // halves, 256 x 128 x 64, 256 threads, one block, bands: lesson async_copy; K = 1536 (24 MB) and 16384 (256 MB)
    read<COPIES_AT_HEAD, 256, 256, 128, 64, 256>("copies at head 256x128x64 halves",
        32, 16, 1, 8, 24, 256, {0, 16, 32});
    for (int band : {1, 8})
        read<COPIES_ONE_AHEAD, 256, 256, 128, 64, 256>("copies ahead 256x128x64 halves",
            32, 16, 1, band, 24, 256, {0, 16, 32, 48}, {1, 4});
    // halves, 128 x 256 x 32, 256 threads, one block, bands: lesson mma
    read<COPIES_AT_HEAD, 256, 128, 64, 32, 512>("copies at head 128x256x32 halves", 16, 32, 1, 8, 40, 512, {0, 8, 16});
    read<COPIES_ONE_AHEAD, 256, 128, 64, 32, 512>("copies ahead 128x256x32 halves",
        16, 32, 1, 8, 40, 512, {0, 8, 16, 24}, {1, 2});
    return 0;
}
