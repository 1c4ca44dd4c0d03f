// Copies boxes of three tensor maps and multiplies tiles of them, as its tables state.
struct alignas(64) Map { unsigned char bytes[128]; };
struct Copy { int map, to, bytes, x, y, z; };
struct Product { unsigned long long a, b; };

extern "C" __global__ void __launch_bounds__(128) tiles(
    const __grid_constant__ Map first, const __grid_constant__ Map second, const __grid_constant__ Map third,
    const Copy *copies, int boxes, const Product *products, int count, float *C)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ unsigned long long full;
    const unsigned base = (unsigned)__cvta_generic_to_shared(shared), bar = (unsigned)__cvta_generic_to_shared(&full);
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.proxy.async;" ::: "memory");
        int bytes = 0;
        for (int i = 0; i < boxes; i++)
            bytes += copies[i].bytes;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        for (int i = 0; i < boxes; i++) {
            const Copy it = copies[i];
            const Map *map = it.map == 0 ? &first : it.map == 1 ? &second : &third;
            copy_box(map, base + it.to, bar, it.x, it.y, it.z); // copies
        }
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(bar) : "memory");
    float d[32] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < count; i++)
        multiply(d, products[i].a + (base >> 4), products[i].b + (base >> 4)); // products
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 32; i++)
        C[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}
