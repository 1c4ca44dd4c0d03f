// honest: learned from Simon Boehm's kernel 10: WMITER, WNITER, threads of a warp in the obvious order
// refused: 'The obvious order of lanes' (Pitfalls): no gain over lesson 07, 0.21 wavefronts where the lesson wants 0.175
typedef unsigned int uint;
const int WARPSIZE = 32;

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int WMITER = 2, WNITER = 2;
    const int WSUBM = WM / WMITER, WSUBN = WN / WNITER, tm = TM / WMITER, tn = TN / WNITER;
    const uint cRow = blockIdx.y;
    const uint cCol = blockIdx.x;
    const uint warpIdx = threadIdx.x / WARPSIZE;
    const uint warpCol = warpIdx % (BN / WN);
    const uint warpRow = warpIdx / (BN / WN);
    const uint threadIdxInWarp = threadIdx.x % WARPSIZE;
    const uint threadColInWarp = threadIdxInWarp % (WSUBN / tn);
    const uint threadRowInWarp = threadIdxInWarp / (WSUBN / tn);

    __shared__ __align__(16) float As[BK * (BM + 4)];
    __shared__ __align__(16) float Bs[BK * BN];

    A += cRow * BM * K;
    B += cCol * BN;
    C += (cRow * BM + warpRow * WM) * N + cCol * BN + warpCol * WN;

    const uint innerRowA = threadIdx.x / (BK / 4);
    const uint innerColA = threadIdx.x % (BK / 4);
    const uint rowStrideB = 128 / (BN / 4);
    const uint innerRowB = threadIdx.x / (BN / 4);
    const uint innerColB = threadIdx.x % (BN / 4);

    float threadResults[TM * TN] = {0.0};
    float regM[TM] = {0.0};
    float regN[TN] = {0.0};

    for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
        const float4 tmp = reinterpret_cast<const float4 *>(&A[innerRowA * K + innerColA * 4])[0];
        As[(innerColA * 4 + 0) * (BM + 4) + innerRowA] = tmp.x;
        As[(innerColA * 4 + 1) * (BM + 4) + innerRowA] = tmp.y;
        As[(innerColA * 4 + 2) * (BM + 4) + innerRowA] = tmp.z;
        As[(innerColA * 4 + 3) * (BM + 4) + innerRowA] = tmp.w;
        for (uint offset = 0; offset + rowStrideB <= BK; offset += rowStrideB)
            reinterpret_cast<float4 *>(&Bs[(innerRowB + offset) * BN + innerColB * 4])[0] =
                reinterpret_cast<const float4 *>(&B[(innerRowB + offset) * N + innerColB * 4])[0];
        __syncthreads();
        for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
            for (uint wSubRowIdx = 0; wSubRowIdx < WMITER; ++wSubRowIdx)
                for (uint i = 0; i < tm; ++i)
                    regM[wSubRowIdx * tm + i] = As[dotIdx * (BM + 4) + warpRow * WM + wSubRowIdx * WSUBM + threadRowInWarp * tm + i];
            for (uint wSubColIdx = 0; wSubColIdx < WNITER; ++wSubColIdx)
                for (uint i = 0; i < tn; ++i)
                    regN[wSubColIdx * tn + i] = Bs[dotIdx * BN + warpCol * WN + wSubColIdx * WSUBN + threadColInWarp * tn + i];
            for (uint m = 0; m < TM; ++m)
                for (uint n = 0; n < TN; ++n)
                    threadResults[m * TN + n] += regM[m] * regN[n];
        }
        A += BK;
        B += BK * N;
        __syncthreads();
    }
    for (uint wSubRowIdx = 0; wSubRowIdx < WMITER; ++wSubRowIdx)
        for (uint wSubColIdx = 0; wSubColIdx < WNITER; ++wSubColIdx) {
            float *C_interim = C + (wSubRowIdx * WSUBM) * N + wSubColIdx * WSUBN;
            for (uint m = 0; m < tm; ++m) {
                const int i = (wSubRowIdx * tm + m) * TN + wSubColIdx * tn;
                float4 tmp = make_float4(threadResults[i], threadResults[i + 1], threadResults[i + 2], threadResults[i + 3]);
                reinterpret_cast<float4 *>(&C_interim[(threadRowInWarp * tm + m) * N + threadColInWarp * tn])[0] = tmp;
            }
        }
}
