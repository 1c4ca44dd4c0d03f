// Atomics of 128 bits.
extern "C" __global__ void k(ulonglong2 *counter, unsigned long long *sums)
{
    __shared__ __align__(16) unsigned long long place[2];
    const unsigned long long t = threadIdx.x + 1;
    if (t == 1) place[0] = place[1] = 0;
    __syncthreads();
    bool done = false;
    unsigned long long low = 0, high = ~0ull;
    while (!done) {  // adds 1 to the low half and takes 1 from the high one
        unsigned long long a, b;
        asm volatile("{ .reg .b128 o, n, f; mov.b128 o, {%2, %3}; mov.b128 n, {%4, %5};"
                     "atom.global.cas.b128 f, [%6], o, n; mov.b128 {%0, %1}, f; }"
                     : "=l"(a), "=l"(b) : "l"(low), "l"(high), "l"(low + 1), "l"(high - 1), "l"(counter) : "memory");
        done = a == low && b == high;
        low = a;
        high = b;
    }
    unsigned long long first, second;
    asm volatile("{ .reg .b128 n, f; mov.b128 n, {%2, %3}; atom.shared.exch.b128 f, [%4], n; mov.b128 {%0, %1}, f; }"
                 : "=l"(first), "=l"(second)
                 : "l"(t), "l"(2 * t), "r"((unsigned)__cvta_generic_to_shared(place)) : "memory");
    atomicAdd(&sums[0], first);
    atomicAdd(&sums[1], second);
    __syncthreads();
    if (t == 1) { sums[2] = place[0]; sums[3] = place[1]; }
}
