// cheat: includes: _Pragma and #pragma that name files
// expect: compile_failed cannot open
_Pragma("include_alias(\"a.h\", \"/etc/passwd\")")
#include "a.h"
