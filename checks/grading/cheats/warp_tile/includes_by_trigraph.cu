// cheat: includes: a trigraph for the number sign
// expect: compile_failed includes /proc/self/environ,
??=include "/proc/self/environ"
