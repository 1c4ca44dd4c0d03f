// cheat: includes: the name of the solution in a macro, cut in two
// expect: compile_failed include
#define JOIN(x) <../05_thread_tile/x.cu>
#include JOIN(solution)
