// Attention of 64 queries a block: q, k, v and out are [heads][t][64]; a thread has one query.

extern "C" __global__ void flash(int t, const float *q, const float *k, const float *v, float *out)
{
    __shared__ float keys[32][64], values[32][64];
    const long long head = (long long)blockIdx.y * t * 64;
    int row = blockIdx.x * 64 + threadIdx.x;
    float query[64], sum[64], most = -1e30f, weight = 0.0f;
#pragma unroll
    for (int d = 0; d < 64; ++d)
        query[d] = 0.125f * q[head + row * 64 + d], sum[d] = 0.0f;
    for (int first = 0; first < t; first += 32) {
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 64; i += 64) {
            keys[i / 64][i % 64] = k[head + first * 64 + i];
            values[i / 64][i % 64] = v[head + first * 64 + i];
        }
        __syncthreads();
        for (int j = 0; j < 32; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < 64; ++d)
                score += query[d] * keys[j][d];
            float now = fmaxf(most, score), scale = __expf(most - now), part = __expf(score - now);
            most = now;
            weight = weight * scale + part;
#pragma unroll
            for (int d = 0; d < 64; ++d)
                sum[d] = sum[d] * scale + part * values[j][d];
        }
    }
#pragma unroll
    for (int d = 0; d < 64; ++d)
        out[head + row * 64 + d] = sum[d] / weight;
}
