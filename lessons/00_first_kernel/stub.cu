// Lesson 00: first kernel
// New idea: there is no loop; each thread adds one pair of elements.
// Launch:   grid ceil(M*N/THREADS), block THREADS; THREADS = 256 from lesson.toml.
extern "C" __global__ void
add(const float *A, const float *B, float *C, int M, int N)
{
    // Which element is mine?
    // TODO(1): declare int i: which of the M * N elements is mine?

    // Add.
    // TODO(2): store A's element plus B's in C. Does every thread have an element?
}
