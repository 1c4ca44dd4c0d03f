// honest: a C++ programmer: a pipeline class with fetch, commit and the buffer as a template parameter
#include "float4.cuh"

template <int Buffers>
class Pipeline {
public:
    struct Tiles {
        alignas(16) float a[BK][BM + 4];
        alignas(16) float b[BK][BN];
    };
    struct Storage {
        Tiles tiles[Buffers];
    };

    __device__ Pipeline(Storage &storage, const float *a, int lda, const float *b, int ldb)
        : storage_(storage), a_(a + threadIdx.x / 2 * lda + threadIdx.x % 2 * 4),
          b_(b + threadIdx.x / 32 * ldb + threadIdx.x % 32 * 4), ldb_(ldb)
    {
    }
    __device__ void fetch()
    {
        next_a_ = float4_at(*a_);
        next_b_[0] = float4_at(*b_);
        next_b_[1] = float4_at(b_[4 * ldb_]);
        a_ += BK;
        b_ += BK * ldb_;
    }
    __device__ void commit()
    {
        Tiles &to = storage_.tiles[head_];
        const int k = threadIdx.x % 2 * 4, m = threadIdx.x / 2;
        to.a[k][m] = next_a_.x, to.a[k + 1][m] = next_a_.y, to.a[k + 2][m] = next_a_.z, to.a[k + 3][m] = next_a_.w;
        float4_at(to.b[threadIdx.x / 32][threadIdx.x % 32 * 4]) = next_b_[0];
        float4_at(to.b[threadIdx.x / 32 + 4][threadIdx.x % 32 * 4]) = next_b_[1];
        head_ = (head_ + 1) % Buffers;
        __syncthreads();
    }
    __device__ const Tiles &front() const { return storage_.tiles[tail_]; }
    __device__ void release() { tail_ = (tail_ + 1) % Buffers; }

private:
    Storage &storage_;
    const float *a_, *b_;
    int ldb_, head_ = 0, tail_ = 0;
    float4 next_a_, next_b_[2];
};

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ Pipeline<2>::Storage storage;
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    Pipeline<2> pipeline(storage, A + blockIdx.y * BM * K, K, B + blockIdx.x * BN, N);
    float acc[8][8] = {};
    const auto multiply = [&] {
        const auto &tile = pipeline.front();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(tile.a[k][row]);
            float4_at(x[4]) = float4_at(tile.a[k][row + 16]);
            float4_at(y[0]) = float4_at(tile.b[k][col]);
            float4_at(y[4]) = float4_at(tile.b[k][col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        pipeline.release();
    };
    pipeline.fetch();
    pipeline.commit();
    for (int tile = 1; tile < K / BK; ++tile) {
        pipeline.fetch();
        multiply();
        pipeline.commit();
    }
    multiply();
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
