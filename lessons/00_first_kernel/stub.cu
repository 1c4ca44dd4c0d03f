// Lesson 00: first kernel
// New idea: each thread adds one pair of elements, so there is no loop.
// Launch:   grid ceil(M*N/THREADS), block THREADS; THREADS = 256 from lesson.toml.
extern "C" __global__ void
add(const float *A, const float *B, float *C, int M, int N)
{
    // Which element is mine?
    // TODO(1): declare int i: which of the M * N elements is mine?

    // Add.
    // TODO(2): add my elements of A and B. Does every thread have an element?
}
