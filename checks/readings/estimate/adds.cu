// Each warp adds 16 times to a line, pseudo-random among ``lines`` of them, ``step`` words apart: a lane at its place.

template <typename T>
__device__ void add(int lines, int step, const int *places, T *sums)
{
    int place = places[threadIdx.x % 32];
    unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 2654435761u;
    for (int i = 0; i < 16; ++i) {
        seed = seed * 1664525u + 1013904223u;
        if (place >= 0)
            atomicAdd(&sums[(seed >> 8 & lines - 1) * step + place], (T)(1 + (seed & 1)));
    }
}

extern "C" __global__ void integers(int lines, int step, const int *places, int *sums)
{
    add(lines, step, places, sums);
}

extern "C" __global__ void floats(int lines, int step, const int *places, float *sums)
{
    add(lines, step, places, sums);
}
