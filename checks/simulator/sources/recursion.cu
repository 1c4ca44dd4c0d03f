// Functions that call themselves, directly and through others; BODY is that of the kernel.
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n != 0 && even(n - 1); }
__device__ __noinline__ void sort(int *a, int l, int r)
{
    if (l >= r) return;
    int p = a[(l + r) / 2], i = l, j = r;
    while (i <= j) {
        while (a[i] < p) i++;
        while (a[j] > p) j--;
        if (i <= j) { int s = a[i]; a[i++] = a[j]; a[j--] = s; }
    }
    sort(a, l, j);
    sort(a, i, r);
}
__device__ __noinline__ int arrays(int n)
{
    int b[4], s = 0;
    for (int i = 0; i < 4; i++) b[i] = n * 10 + i;
    if (n > 0) s = arrays(n - 1);
    for (int i = 0; i < 4; i++) s += b[(i + n) & 3];
    return s;
}
__device__ __noinline__ double power(double x, int n)
{
    if (n == 0) return 1.0;
    double h = power(x, n / 2);
    return n % 2 ? h * h * x : h * h;
}
__device__ __noinline__ bool differs(int n, bool q) { return n < 3 ? q : differs(n - 1, !q) != differs(n - 2, q); }
struct F { int (*f)(const F *, int); };
__device__ __noinline__ int one(const F *t, int n) { return n < 1 ? 1 : n + t[n % 2].f(t, n - 1); }
__device__ __noinline__ int two(const F *t, int n) { return n < 1 ? 2 : n * 2 + t[n % 2].f(t, n - 2); }
__device__ F table[2] = {{one}, {two}};
extern "C" __global__ void k(int *y)
{
    const int t = threadIdx.x;
    BODY
}
