// cheat: includes: finds the solution from the folder of common headers
// expect: compile_failed include
#include <../02_coalesced/solution.cu>
