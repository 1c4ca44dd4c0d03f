// honest: learned from Chinese tutorials: smem_sel and smem_sel_next, loads first, stores last, one barrier
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])
#define CFLOAT4(pointer) (reinterpret_cast<const float4 *>(&(pointer))[0])

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int M, const int N, const int K)
{
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    // 一个 warp 负责 32 x 64
    const int ty = (tid >> 6) * 32 + ((lane >> 4) * 2 + (lane & 1)) * 4;
    const int tx = ((tid >> 5) & 1) * 64 + ((lane >> 1) & 7) * 4;

    __shared__ __align__(16) float s_a[2][BK][BM + 4];
    __shared__ __align__(16) float s_b[2][BK][BN];

    float r_load_a[4];
    float r_load_b[8];
    float r_comp_a[TM];
    float r_comp_b[TN];
    float r_c[TM][TN] = {0.0};

    int load_a_smem_m = tid >> 1;
    int load_a_smem_k = (tid & 1) << 2;
    int load_b_smem_k = tid >> 5;
    int load_b_smem_n = (tid & 31) << 2;
    int load_a_gmem_m = by * BM + load_a_smem_m;
    int load_b_gmem_n = bx * BN + load_b_smem_n;

    {
        FLOAT4(r_load_a[0]) = CFLOAT4(a[OFFSET(load_a_gmem_m, load_a_smem_k, K)]);
        FLOAT4(r_load_b[0]) = CFLOAT4(b[OFFSET(load_b_smem_k, load_b_gmem_n, N)]);
        FLOAT4(r_load_b[4]) = CFLOAT4(b[OFFSET(load_b_smem_k + 4, load_b_gmem_n, N)]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            s_a[0][load_a_smem_k + i][load_a_smem_m] = r_load_a[i];
        FLOAT4(s_b[0][load_b_smem_k][load_b_smem_n]) = FLOAT4(r_load_b[0]);
        FLOAT4(s_b[0][load_b_smem_k + 4][load_b_smem_n]) = FLOAT4(r_load_b[4]);
    }
    __syncthreads();

    for (int bk = 1; bk < K / BK; bk++) {
        int smem_sel = (bk - 1) & 1;
        int smem_sel_next = bk & 1;

        int load_a_gmem_k = bk * BK + load_a_smem_k;
        FLOAT4(r_load_a[0]) = CFLOAT4(a[OFFSET(load_a_gmem_m, load_a_gmem_k, K)]);
        int load_b_gmem_k = bk * BK + load_b_smem_k;
        FLOAT4(r_load_b[0]) = CFLOAT4(b[OFFSET(load_b_gmem_k, load_b_gmem_n, N)]);
        FLOAT4(r_load_b[4]) = CFLOAT4(b[OFFSET(load_b_gmem_k + 4, load_b_gmem_n, N)]);

#pragma unroll
        for (int tk = 0; tk < BK; tk++) {
            FLOAT4(r_comp_a[0]) = FLOAT4(s_a[smem_sel][tk][ty]);
            FLOAT4(r_comp_a[4]) = FLOAT4(s_a[smem_sel][tk][ty + 16]);
            FLOAT4(r_comp_b[0]) = FLOAT4(s_b[smem_sel][tk][tx]);
            FLOAT4(r_comp_b[4]) = FLOAT4(s_b[smem_sel][tk][tx + 32]);
#pragma unroll
            for (int tm = 0; tm < TM; tm++)
#pragma unroll
                for (int tn = 0; tn < TN; tn++)
                    r_c[tm][tn] += r_comp_a[tm] * r_comp_b[tn];
        }

#pragma unroll
        for (int i = 0; i < 4; i++)
            s_a[smem_sel_next][load_a_smem_k + i][load_a_smem_m] = r_load_a[i];
        FLOAT4(s_b[smem_sel_next][load_b_smem_k][load_b_smem_n]) = FLOAT4(r_load_b[0]);
        FLOAT4(s_b[smem_sel_next][load_b_smem_k + 4][load_b_smem_n]) = FLOAT4(r_load_b[4]);
        __syncthreads();
    }

    const int last = (K / BK - 1) & 1;
#pragma unroll
    for (int tk = 0; tk < BK; tk++) {
        FLOAT4(r_comp_a[0]) = FLOAT4(s_a[last][tk][ty]);
        FLOAT4(r_comp_a[4]) = FLOAT4(s_a[last][tk][ty + 16]);
        FLOAT4(r_comp_b[0]) = FLOAT4(s_b[last][tk][tx]);
        FLOAT4(r_comp_b[4]) = FLOAT4(s_b[last][tk][tx + 32]);
#pragma unroll
        for (int tm = 0; tm < TM; tm++)
#pragma unroll
            for (int tn = 0; tn < TN; tn++)
                r_c[tm][tn] += r_comp_a[tm] * r_comp_b[tn];
    }

#pragma unroll
    for (int i = 0; i < TM; i++) {
        int store_c_gmem_m = by * BM + ty + i / 4 * 16 + i % 4;
        int store_c_gmem_n = bx * BN + tx;
        FLOAT4(c[OFFSET(store_c_gmem_m, store_c_gmem_n, N)]) = FLOAT4(r_c[i][0]);
        FLOAT4(c[OFFSET(store_c_gmem_m, store_c_gmem_n + 32, N)]) = FLOAT4(r_c[i][4]);
    }
}
