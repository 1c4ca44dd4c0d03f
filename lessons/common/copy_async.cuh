// Asynchronous copies from global to shared memory: they need no register, and the thread continues meanwhile.
//
//   copy_or_zero(to, from, there)   issues a copy of the float `from` to the float `to` in shared memory; if not
//                                   `there`, `to` becomes 0 and `from` is not read
//   copies_are_done()               waits for all copies that this thread has issued; a barrier tells the others
//
// Lesson 10 uses them where an access can be only one float wide.
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
