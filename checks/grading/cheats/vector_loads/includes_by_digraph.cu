// cheat: includes: a digraph, a comment and a line that is joined in the middle of the word
// expect: compile_failed include
%:/**/inc\
lude "/etc/passwd"
