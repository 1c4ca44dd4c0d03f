// cheat: includes: includes the lesson's solution through ..
// expect: compile_failed include
#include "../03_block_tile/solution.cu"
