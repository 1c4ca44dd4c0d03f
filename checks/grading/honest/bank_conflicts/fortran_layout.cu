// honest: a Fortran programmer: AT(I, L) with I fastest and a leading dimension of 132, one-based
#define AT(I, L) at[((L)-1) * 132 + (I)-1]
#define BT(J, L) bt[((L)-1) * 132 + (J)-1]
#define F4(x) (*(float4 *)&(x))

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float at[8 * 132], bt[8 * 132];
    const int T = threadIdx.x;
    const int I = T / 16 * 4 + 1, J = T % 16 * 4 + 1;
    float S[8][8], X[8], Y[8];
    int L, L0, P, Q;
    for (P = 1; P <= 8; ++P)
        for (Q = 1; Q <= 8; ++Q)
            S[P - 1][Q - 1] = 0.0f;
    for (L0 = 0; L0 < K; L0 += 8) {
        float4 V = *(const float4 *)&A[(blockIdx.y * 128 + T / 2) * K + L0 + T % 2 * 4];
        AT(T / 2 + 1, T % 2 * 4 + 1) = V.x;
        AT(T / 2 + 1, T % 2 * 4 + 2) = V.y;
        AT(T / 2 + 1, T % 2 * 4 + 3) = V.z;
        AT(T / 2 + 1, T % 2 * 4 + 4) = V.w;
        F4(BT(T % 32 * 4 + 1, T / 32 + 1)) = *(const float4 *)&B[(L0 + T / 32) * N + blockIdx.x * 128 + T % 32 * 4];
        __syncthreads();
#pragma unroll
        for (L = 1; L <= 8; ++L) {
            F4(X[0]) = F4(AT(I, L));
            F4(X[4]) = F4(AT(I + 64, L));
            F4(Y[0]) = F4(BT(J, L));
            F4(Y[4]) = F4(BT(J + 64, L));
            for (Q = 0; Q < 8; ++Q)
                for (P = 0; P < 8; ++P)
                    S[P][Q] = S[P][Q] + X[P] * Y[Q];
        }
        __syncthreads();
    }
    for (P = 0; P < 8; ++P) {
        float *c = C + (blockIdx.y * 128 + I - 1 + P / 4 * 64 + P % 4) * N + blockIdx.x * 128 + J - 1;
        F4(c[0]) = F4(S[P][0]);
        F4(c[64]) = F4(S[P][4]);
    }
}
