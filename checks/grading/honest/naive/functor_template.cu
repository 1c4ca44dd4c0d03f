// honest: learned from CUTLASS: a struct template with operator(), the kernel only calls it
template <typename Element, typename Accumulator, int kRows, int kColumns>
struct NaiveGemm {
    struct Params {
        Element const *ptr_A;
        Element const *ptr_B;
        Element *ptr_D;
        int m, n, k;
    };

    __device__ __forceinline__ void operator()(Params const &params) const
    {
        int const row = int(blockIdx.y) * kRows + int(threadIdx.x) / kColumns;
        int const column = int(blockIdx.x) * kColumns + int(threadIdx.x) % kColumns;
        if (row >= params.m || column >= params.n) {
            return;
        }
        Accumulator accumulator = Accumulator(0);
        for (int k = 0; k < params.k; ++k) {
            accumulator = multiply_add(params.ptr_A[row * params.k + k], params.ptr_B[k * params.n + column], accumulator);
        }
        params.ptr_D[row * params.n + column] = Element(accumulator);
    }

    static __device__ Accumulator multiply_add(Element const &a, Element const &b, Accumulator const &c) { return a * b + c; }
};

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    using Gemm = NaiveGemm<float, float, BM, BN>;
    Gemm()(Gemm::Params{A, B, C, M, N, K});
}
