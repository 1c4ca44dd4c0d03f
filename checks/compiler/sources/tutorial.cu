// Host code beside kernels, in many forms, as tutorials have it.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>
#include "helper_cuda.h"
#include "timer_and_scale.cuh"
#define CHECK(call) do { if ((call) != cudaSuccess) exit(1); } while (0)
#define HOT __device__ __forceinline__
#define MAKE_KERNEL(name, op) __global__ void name(int *x) { x[threadIdx.x] = x[threadIdx.x] op 2; }
#define BIND_KERNEL(name) std::string bind_##name() { return #name; }
using std::vector;
using namespace std;

constexpr int TILE = (1 << 2) + 1;
const int OFFSET = 3;
int launches = 0;
static vector<float> table{1, 2, 3};
typedef struct { int x; } __align__(8) Pair;
void launch(int *d, int n);
double since(std::chrono::time_point<int> t);

constexpr int twice(int v) { return 2 * v; }
template <typename T> constexpr T thrice(T v) { return 3 * v; }
static inline int odd(int v) { char brace = '{'; return v & 1; /* } */ }
HOT int added(int v) { return v + OFFSET; }

struct Options {
    std::string name{"{"};
    Options(int a) : size{a}, name{"x"} { launches = a; }
    int size;
};
template <class T> struct Times {
    T factor;
    explicit Times(T f) : factor(f) {}
    Times &operator=(const Times &other) = default;
    bool operator==(const Times &other) const { return factor == other.factor; }
    __host__ __device__ T operator()(T v) const { return v * factor; }
};
namespace detail {
    enum class Kind { small, large = 4 };
    void report(const Options &o) { std::cout << o.name << "}" << std::endl; }
    __device__ int fourth() { return int(Kind::large); }
}

template <class T> struct HasTwice {
    typedef char yes;
    template <class C> static yes test(decltype(&C::twice));
    template <class C> static int test(...);
    enum { value = sizeof(test<T>(0)) == sizeof(yes) };
};
static_assert(!HasTwice<Pair>::value);
#ifdef NO_GPU
#define EITHER
#else
#define EITHER __host__ __device__
#endif
EITHER inline int same(int v) { return v; }

MAKE_KERNEL(doubled, *)
MAKE_KERNEL(raised, +)
BIND_KERNEL(doubled)
BIND_KERNEL(raised)

__global__ void whole(int *x, uint n, Pair p, Times<int> by)
{
    uint i = threadIdx.x;
    if (i < n)
        x[i] = scaled(added(twice(thrice(x[i])))) * TILE + detail::fourth() + by(p.x) + min(i, n) + std::max(1, 2);
}

#ifdef OLD
template <typename T> void run(T *x) {
#else
template <typename T> void run(T *x, int n = 3) {
#endif
#define INNER 7
    auto twice = [=] __host__ __device__ (int i) { return i; };
    whole<<<1, 32>>>(x, n, {}, {});
}

extern "C" {
int launch_all(int n) { R"x({ ")x"; return n; }
}

int main(int argc, char **argv)
{
    vector<int> h(32);
    std::sort(h.begin(), h.end(), [](int a, int b) { return a < b; });
    CHECK(cudaMalloc(&d, 4));
    launch(d, 32); for (auto &x : h) { printf("%d}\n", x); }
}

__global__ void last(int *x) { x[threadIdx.x] = same(INNER); }
