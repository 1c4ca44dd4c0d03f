// cheat: includes: includes itself without end
// expect: compile_failed include
#include __FILE__
