// ``stream``: each thread loads one element after the other from DRAM, and copies it or not. ``burst``: lanes lie
// ``pitch`` bytes apart, and each stores COUNT floats side by side; then its warp waits for ``gap`` clocks.

template <typename T, bool COPIES>
__device__ void stream(int turns, const T *x, T *y)
{
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;
    for (int i = 0; i < turns; ++i) {
        T v = x[at];
        if (COPIES)
            y[at] = v;
        at += step + *(const int *)&v; // x is zero
    }
    if (at < 0)
        y[0] = x[1];
}

extern "C" __global__ void read1(int turns, const float *x, float *y) { stream<float, false>(turns, x, y); }
extern "C" __global__ void read2(int turns, const float2 *x, float2 *y) { stream<float2, false>(turns, x, y); }
extern "C" __global__ void copy1(int turns, const float *x, float *y) { stream<float, true>(turns, x, y); }
extern "C" __global__ void copy2(int turns, const float2 *x, float2 *y) { stream<float2, true>(turns, x, y); }

template <int COUNT>
__device__ void burst(int pitch, int turns, int gap, float *data)
{
    long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
    float *mine = data + (warp * turns * 32 + threadIdx.x % 32) * pitch / 4;
    for (int turn = 0; turn < turns; ++turn) {
        long long begun = clock64();
        while (clock64() - begun < gap + (gap > 0) * (warp * 37 % 64))
            ;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            mine[turn * 8 * pitch + i] = i;
    }
}

extern "C" __global__ void burst2(int p, int t, int g, float *d) { burst<2>(p, t, g, d); }
extern "C" __global__ void burst4(int p, int t, int g, float *d) { burst<4>(p, t, g, d); }
extern "C" __global__ void burst8(int p, int t, int g, float *d) { burst<8>(p, t, g, d); }
