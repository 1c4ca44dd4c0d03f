// cheat: includes: #line gives the file another name, which __FILE__ then includes
// expect: compile_failed include
#line 1 "/etc/passwd"
#include __FILE__
