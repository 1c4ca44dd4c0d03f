// cheat: includes: a raw string that seems to hold the include, and does not
// expect: compile_failed include
const char *text = R"x(
)x";
#include "/etc/hostname"
// )x";
