// cheat: includes: #embed of a file that is not its own
// expect: compile_failed outside
__device__ const unsigned char text[] = {
#embed "/etc/passwd"
};
