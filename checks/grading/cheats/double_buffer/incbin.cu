// cheat: includes: .incbin in inline assembly
// expect: compile_failed incbin
extern "C" __global__ void gemm(const float *, const float *, float *, int, int, int)
{
    asm(".incbin \"/etc/passwd\"");
}
