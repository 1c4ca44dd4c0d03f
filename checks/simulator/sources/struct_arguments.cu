// Structs by value: nested, of templates, with base classes and bit-fields.
#include <cuda_fp16.h>
struct Side { const float *x; int stride; };
template <int N> class Shape {
    int size[N];
public:
    static constexpr int rank = N;
    __device__ int operator[](int i) const { return size[i]; }
};
struct Base { float alpha; __half h; };
enum class Mode { negated = -1, plain };
struct Empty {};
struct Params : Base {
    Side side[2];
    float *__restrict__ y;
    Shape<2> shape;
    bool twice;
    unsigned low : 3, high : 5;
    int signs : 4;
    Mode mode;
    union { int whole; float real; };
    struct { short a, b; } inner;
    double grid[2][3];
    float4 four;
    const void *nothing;
    Params *next;
    Params(const Params &) = default;
};
template <class P, class F> __global__ void add(const P p, F, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    float v = p.side[0].x[i * p.side[0].stride] + p.side[1].x[i * p.side[1].stride];
    v = (p.twice ? 2 : 1) * p.alpha * v + p.low * 100 + p.high * 1000 + p.signs + p.shape[1] + p.real;
    v += float(p.h) + p.inner.b + p.grid[1][2] + p.four.w;
    p.y[i] = p.mode == Mode::negated && !p.nothing && !p.next ? -v : v;
}