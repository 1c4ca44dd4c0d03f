// nvcc -O3 -std=c++17 -arch=sm_90 -o scatter scatter.cu && ./scatter
//
// Microseconds of a launch, of ten in a row, whose threads each store or read some bytes of SIZE MB, most of them far
// from their neighbours' (back, mixed): all parts of all sectors, or one part of each sector (part) or line (lines).
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>

enum { BACK, MIXED, PART, NEAR, READ, COPY, COPIED_PART, LINES };

template <typename T, int WAY> __global__ void __launch_bounds__(256) go(T *out, const T *in, int bits)
{
    constexpr size_t PER = 32 / sizeof(T);
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned mixed = (i * 0x9E3779B1u) & ((1u << bits) - 1), back = __brev(i) >> (32 - bits);
    if (WAY == BACK) out[back] = T();
    if (WAY == MIXED) out[mixed] = T();
    if (WAY == PART) out[mixed * PER] = T();
    if (WAY == NEAR) out[i * PER] = T();
    if (WAY == LINES) out[mixed * 4 * PER] = T();
    if (WAY == COPY) out[back] = in[i];
    if (WAY == COPIED_PART) out[mixed * PER] = in[i];
    if (WAY == READ) {
        T value = in[back];
        if (reinterpret_cast<int &>(value) == 12345) out[0] = value;
    }
}

char *to, *from;
cudaEvent_t begun, ended;

template <typename T, int WAY> void one(const char *name, int mb, int each)
{
    const size_t count = ((size_t)mb << 20) / each;
    int bits = 0;
    while ((1ull << bits) < count) bits++;
    float us[5];
    for (float &it : us) {
        cudaEventRecord(begun);
        for (int k = 0; k < 10; k++) go<T, WAY><<<count / 256, 256>>>((T *)to, (const T *)from, bits);
        cudaEventRecord(ended);
        cudaEventSynchronize(ended);
        cudaEventElapsedTime(&it, begun, ended);
    }
    std::sort(us, us + 5);
    printf(",\n  \"%s %d, %d MB\": %.2f", name, (int)sizeof(T), mb, us[2] * 100);
}

template <typename T> void all(int mb)
{
    one<T, BACK>("back", mb, sizeof(T));
    one<T, MIXED>("mixed", mb, sizeof(T));
    one<T, PART>("part", mb, 32);
    one<T, NEAR>("near", mb, 32);
    one<T, READ>("read", mb, sizeof(T));
    one<T, COPY>("copy", mb, sizeof(T));
    one<T, COPIED_PART>("copied part", mb, 32);
    one<T, LINES>("lines", mb, 128);
}

int main()
{
    cudaMalloc(&to, 512 << 20);
    cudaMalloc(&from, 512 << 20);
    cudaMemset(from, 0, 512 << 20);
    cudaEventCreate(&begun);
    cudaEventCreate(&ended);
    for (int mb : {8, 16, 32, 64, 128, 256}) {
        all<float>(mb);
        all<float2>(mb);
        all<float4>(mb);
    }
}
