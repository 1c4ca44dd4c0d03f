// Copies from global to shared memory that no register takes part in, and that nobody waits for until it is asked.
//
//   copy_or_zero(to, from, there)   sends for the float `from`, to the float `to` in shared memory; where it is not there,
//                                   `to` becomes 0, and `from` is not read
//   copies_are_done()               waits for all that this thread has sent for; a barrier tells the others
//
// Lesson 10 uses them where an access may take one float only. Lesson 14 explains them, and sends for more at once.
#pragma once

__device__ inline void copy_or_zero(float &to, const float &from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(&to)), "l"(__cvta_generic_to_global(&from)),
                   "r"(there ? 4 : 0)
                 : "memory");
}

__device__ inline void copies_are_done()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}
