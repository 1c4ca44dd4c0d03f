"""The table of commands: function, purpose, examples.

``--help`` shows this table and imports no command; every other command line imports only its own command. ``what``
equals the first paragraph of the function's docstring (a test checks this); a command's own ``--help`` shows all of it.
"""

from __future__ import annotations

from typing import NamedTuple

INDENTATION = " " * 8  # of an example in the tables below


class Command(NamedTuple):
    """A function of this package that is a command. ``what`` is the first paragraph of its docstring, ``shown`` has the
    examples, each on a line of its own."""

    module: str
    function: str
    what: str
    shown: str

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return self.function.rstrip("_")

    @property
    def examples(self) -> tuple[str, ...]:
        """Return the lines of the examples."""
        return tuple(line[len(INDENTATION) :] for line in self.shown.splitlines()[1:])


COURSE = (  # in the order of --help: a learner's loop, then the advanced commands
    Command("init", "init",
        "Make a course folder to work and commit in. It holds texts, stubs and settings, but no solutions.", """
        gemm-lessons init my-course
        gemm-lessons init .
        gemm-lessons init . --editor"""),
    Command("learn", "next_", "Open the next lesson: its text, and kernel.cu made from the stub.", """
        gemm-lessons next"""),
    Command("learn", "read", "Show a lesson's text, or a page about the kit.", """
        gemm-lessons read 03
        gemm-lessons read block_tile --raw > block_tile.md
        gemm-lessons read json"""),
    Command("practice", "drill",
        "Warm up with short questions on indices, banks and sectors; the numbers change each time.", """
        gemm-lessons drill 03
        gemm-lessons drill bank_conflicts --seed 7"""),
    Command("practice", "predict", "Answer the lesson's questions; a passing run scores them.", """
        gemm-lessons predict 03
        gemm-lessons predict 03 1000 fewer 'K / BK' 2"""),
    Command("watch", "watch", "Run the lesson's kernel each time you save it.", """
        gemm-lessons watch
        gemm-lessons watch 03"""),
    Command("run", "run", "Compile a kernel, check it, count, compare, advise.", """
        gemm-lessons run 03
        gemm-lessons run 03 --solution
        gemm-lessons run 03 --file try.cu --shape 256,128,64
        gemm-lessons run 03 --tile BK=32
        gemm-lessons run 03 --gpu v100
        gemm-lessons run 03 --json | python -m json.tool"""),
    Command("check", "check", "Run all your kernels on the simulator, and list which pass.", """
        gemm-lessons check
        gemm-lessons check 03 04 --problems"""),
    Command("practice", "bug",
        "Practise debugging: get a kernel with one bug, find it from what a run prints, and fix it.", """
        gemm-lessons bug 03
        gemm-lessons bug 03 --seed 7"""),
    Command("learn", "hint", "Show the next hint for the first open TODO, or for the TODO that you name.", """
        gemm-lessons hint 03
        gemm-lessons hint 03 --todo 1
        gemm-lessons hint 03 --list"""),
    Command("learn", "diff", "Compare your kernel.cu with the reference, once yours has passed.", """
        gemm-lessons diff 03
        gemm-lessons diff 03 --peek"""),
    Command("learn", "list_", "List the lessons: each one's idea, what has passed, and what is next.", """
        gemm-lessons list"""),
    Command("learn", "start", "Make kernel.cu from the stub, and list its TODOs.", """
        gemm-lessons start 03"""),
    Command("learn", "reset",
        "Restore the stub, or the files that came with the course. The old files are kept as NAME.bak-1, -2, ...", """
        gemm-lessons reset 03
        gemm-lessons reset 03 --settings
        gemm-lessons reset --all"""),
    Command("compare", "compare",
        "Compare two kernels: where their source differs, what each counts, and why one is slower.", """
        gemm-lessons compare 06 07
        gemm-lessons compare old.cu new.cu --lesson 06
        gemm-lessons compare a.cu b.cu --grid 32 --block 256 --args 'x=f32[8192]'
        gemm-lessons compare block_tile thread_tile --solution"""),
    Command("view", "view",
        "Look at a run: bank conflicts by lane, which thread owns what, a timeline of every warp.", r"""
        gemm-lessons view 03
        gemm-lessons view bank_conflicts --solution --open
        gemm-lessons view 03 --line 42
        gemm-lessons view 03 --trace trace.json
        gemm-lessons view add.cu --grid 8 --block 128 --timeline \
            --args 'x=f32[n],y=inout f32[n],n=1024'"""),
    Command("tune", "tune",
        "Search for the fastest tile sizes: compile, check and rank by estimate; on a GPU, time the best.", """
        gemm-lessons tune double_buffer
        gemm-lessons tune block_tile --try BK=32,64,128 --shape 1024,1024,1024
        gemm-lessons tune 09 --mine --csv tune.csv --keep
        gemm-lessons tune --model dgemm --gpu a100"""),
    Command("gpu", "bench",
        "Compare lessons with cuBLAS over sizes: a table, a file, a plot. On the simulator, times are estimates.", """
        gemm-lessons bench
        gemm-lessons bench --part 1 --sizes 512:4096 --plot out.svg
        gemm-lessons bench --lessons 03-09,beat_cublas --csv points.csv
        gemm-lessons bench --device sim --gpu v100"""),
    Command("gpu", "profile",
        "Profile one kernel with Nsight Compute, beside the simulator's counters, or trace a run with Nsight Systems.",
        """
        gemm-lessons profile bank_conflicts
        gemm-lessons profile bank_conflicts --solution --tool nsys
        gemm-lessons profile bank_conflicts --print"""),
    Command("export", "export",
        "Write a standalone program for a GPU machine: your kernel, and the host code around it.", """
        gemm-lessons export 03
        gemm-lessons export 03 my_gemm --solution
        gemm-lessons export 03 --file try.cu"""),
    Command("inspect", "inspect",
        "Run any CUDA kernel on the simulator: counters by line, bank conflicts, races, faults.", r"""
        gemm-lessons inspect gemm.cu --entry 'tile<64, 8>' --grid 4,4 --block 256 \
            --args 'A=f32[M,K],B=f32[K,N],C=out f32[M,N],M=256,N=256,K=256' \
            --expect 'C = A @ B'
        gemm-lessons inspect blur.cu --entry blur --grid 8 --block 128 \
            --args 'x=f32[1026],y=out f32[1024],middle=x+1' \
            --symbol 'weights=f32[3], total=out i32[1]'
        gemm-lessons inspect vadd.ptx --grid 4 --block 128 \
            --args 'x=f32[512],y=f32[512],z=out f32[512],n=512' --expect 'z = x + y'"""),
    Command("inspect", "opcodes", "List the PTX instructions that the simulator runs, and those that it does not.", """
        gemm-lessons opcodes
        gemm-lessons opcodes cvt"""),
    Command("site", "site",
        "Write the course as web pages: texts, drawings, charts, search, and pages to try layouts. Links are checked.",
        """
        gemm-lessons site pages"""),
    Command("about", "doctor", "Check everything that a run needs, and say how to fix it.", """
        gemm-lessons doctor"""),
    Command("about", "version", "Print the version of gemm-lessons.", """
        gemm-lessons version"""),
)  # fmt: skip
TEACHERS = (
    Command("dev", "new", "Make a small, working lesson in your course folder, to replace with your own.", """
        gemm-lessons dev new 22_my_idea"""),
    Command("dev", "check", "Prove that a lesson works: its kernels, its text and its numbers.", """
        gemm-lessons dev check
        gemm-lessons dev check 22 --write"""),
)  # fmt: skip
GRADERS = (
    Command("grade", "class_", "Grade a class: judge every student's kernels, safely, and write the grades.", """
        gemm-lessons grade submissions --lessons 01-09 --out grades
        gemm-lessons grade submissions --config grading.toml --roster roster.csv
        gemm-lessons grade submission --student ana --lessons 03
        gemm-lessons grade submissions --again ana --lesson 03
        gemm-lessons grade submissions --seed 4711 --shard 3/10 --out shard-3
        gemm-lessons grade merge shard-1 shard-2 --out grades
        gemm-lessons grade setup gradescope autograder"""),
    Command("grade", "merge", "Put the grades of several shards together.", """
        gemm-lessons grade merge shard-1 shard-2 --out grades"""),
    Command("grade", "setup", "Write the files for grading on another system, ready to use.", """
        gemm-lessons grade setup gradescope autograder --lessons 01-09
        gemm-lessons grade setup laptop my-class --config grading.toml"""),
)  # fmt: skip
GROUPS = {"dev": "For teachers: add a lesson, and prove that it works.", "grade": "For teachers: grade a class."}
NAMES = (*(command.name for command in COURSE), *GROUPS)  # first words of command lines
# Words of other tools, and what does the same here.
OTHER_WORDS = {
    **dict.fromkeys(("build", "compile", "test", "verify", "submit"), "run"),
    **dict.fromkeys(("estimate", "simulate", "disassemble", "sass", "ptx"), "inspect"),
    **dict.fromkeys(("solution", "solve", "answer"), "diff"),
    **dict.fromkeys(("lessons", "exercises", "status", "progress"), "list"),
    **dict.fromkeys(("show", "open", "docs", "lesson"), "read"),
    **dict.fromkeys(("new", "create", "setup"), "init"),
    **dict.fromkeys(("benchmark", "time", "measure"), "bench"),
    **dict.fromkeys(("ncu", "nsys"), "profile"),
}
