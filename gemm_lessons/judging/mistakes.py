"""The table of mistakes that are recognised by the wrong answer that they produce.

    Mistake(name, transformation, comparison, sentence)

The transformation says what C would be if the kernel had this mistake (``factors``, ``sums``, ``misplaced``,
``epilogues``, ``scales``, ``widths``, ``residues``, ``parts``) or which elements would be wrong (``wrong_elements``),
with the parameters of the mistake as facts. The comparison (``pattern``) recognises the mistake only if C agrees with
that:

    every     in every element                wrong    exactly those elements are wrong
    near      in the elements that it names   mostly   the same, but a few may be right by chance
    search    the transformation fits its parameters to C and compares every element itself

So a row never guesses. The first row that agrees wins: the most specific mistakes are first, costly searches after
cheap comparisons. The facts fill the sentence: ``{k:few}`` is the fact ``k`` as ``PHRASES`` says it.
A name may have several rows, one for each sentence. Advice (``hints``, ``remedies``) reads names and facts, never
a sentence. To add a mistake, add a row; and a transformation, if none of those in use fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gemm_lessons.judging import epilogues, factors, misplaced, parts, residues, scales, sums, widths, wrong_elements
from gemm_lessons.judging.factors import read
from gemm_lessons.judging.misplaced import COLUMNS, ROWS
from gemm_lessons.judging.pattern import Mistake, Pattern, every, mostly, near, search, wrong
from gemm_lessons.judging.wrong_answer import Wrong

ROW_MAJOR = "The matrices are row-major, and so are their tiles: As[row][k], Bs[k][col]."
ROW_FIRST = (
    "row and column changed places, in the index of the matrix or of its tile. The row comes first: element (row, k) "
    "of A, element (k, col) of B."
)
INSTEAD = "It should be {formula}; this is {other}."
TOOK = "products took {of} from another k: where k = {k} was meant, it was read at k = {found}."
ANOTHER_ORDER = "in each 16 x 16 of {of:and} the second and the third of the four 8 x 8 matrices have changed places."

# fmt: off
MISTAKES: Sequence[Mistake] = (
    # -- products by residues: the first launch that is wrong --
    Mistake("whole_too_long", residues.too_many_bits, search,
        "whole numbers had {bits} bits. Sums of {k} products of two such numbers may be 2^{sum}, and half of PRODUCT "
        "is just above 2^{room}. Sums beyond it come back as other numbers. {most} bits fit."),
    Mistake("residue_unsigned", residues.unsigned, search,
        "residues of {of:and} are from 0 to m - 1, and those above 127 do not fit in a signed byte: 200 becomes -56. "
        "Subtract the multiple of m that is nearest to x, so that residues are from -m / 2 to m / 2."),
    Mistake("residue_halves", residues.halves, search,
        "a few residues of {of:and} do not fit in a signed byte: by {m}, {x} leaves {right}, but {got} was stored. "
        "x / m was rounded to a double, and then to a whole number. Let fma round once."),
    Mistake("residue_added", residues.added, search,
        "the multiple of m was added to x, for {of:and}. Subtract it: rest = x - times * m."),
    Mistake("residue_nothing", residues.nothing_remains, search,
        "nearly all residues of {of:and} are 0: nothing remains if times is exactly x / m. Round times to a whole "
        "number before you multiply it by m."),
    Mistake("residue_wrong", residues.other_residues, search,
        "residues of {of:and} are wrong, so look at split first. By {m}, {x} leaves {right}, but {got} was stored."),
    Mistake("residue_low_byte", residues.low_byte, search,
        "residues of A and B are right, but the low byte of each of their sums was stored. That is the sum's residue "
        "by 256; the other moduli need a division."),
    Mistake("residue_rows", residues.other_rows, search,
        "residues of A and B are right, but products took them from other rows: for modulus number i, those of A from "
        "row {a} on, and those of B from row {b} on. They start at row i * M and at row i * N."),
    Mistake("residue_products", residues.other_products, search,
        "residues of A and B are right, but those of C are not, so look at gemm first. For modulus number {i}, which "
        "is {m}, C[{row}, {col}] has the residue {got}, and A's and B's give {right}. Which rows does each product "
        "read?"),
    Mistake("residue_positive", residues.positive, search,
        "all residues of C are right, but negative numbers became positive in join: the multiple of PRODUCT was "
        "rounded down. Subtract the nearest one."),
    Mistake("residue_sum", residues.not_subtracted, search,
        "all residues of C are right, but C is the sum of residues times weights. Subtract the multiple of PRODUCT "
        "that is nearest to the sum."),
    Mistake("residue_scales", residues.one_scale, search,
        "all residues of C are right, but C was not multiplied by {missing:and}."),
    Mistake("whole_too_short", residues.few_bits, search,
        "whole numbers had {bits} bits, and {most} bits fit. All that follows is right, but C lacks the digits that A "
        "and B lost."),
    Mistake("residue_digits", residues.blurred, search,
        "all residues of C are right, but C lacks digits at its end: in join, parts were added while they were large. "
        "Subtract the multiple of PRODUCT from each part first, and then add them."),
    Mistake("residue_join", residues.other_numbers, search,
        "all residues of C are right, so join is wrong. For C[{row}, {col}] the sum of residues times weights is "
        "{times} times PRODUCT and {rest}, which both scales turn into {c}. Each part of a weight has up to 40 bits, "
        "more than an int."),

    # -- products of two parts: the first launch that is wrong --
    Mistake("parts_not_scaled", parts.not_scaled, search,
        "split made the parts of {of:and} without SCALE: multiply each number by SCALE = {scale} first, and split the "
        "product."),
    Mistake("parts_wrong", parts.wrong_parts, search,
        "the two parts of a number of {of:and} do not add up to it, so look at split first. SCALE times one of them is "
        "{x:number}. Its big part is {big:number}, which leaves {rest:number} for the small part, but that is "
        "{small:number}."),
    Mistake("parts_products", parts.products, search,
        "the parts of A and B are right, but not each of their products was added once: {found:and} (the part of A is "
        "named first)."),
    Mistake("parts_scale", parts.scale_remains, search,
        "C is {times:number} times the right product. A and B were both multiplied by SCALE = {scale}, so store "
        "divides each sum by SCALE * SCALE."),

    # -- no value, or the same one everywhere --
    Mistake("never_written", wrong_elements.all_untouched, wrong,
        "no element of C was written. Does every thread reach the line that stores its result, and is the index in C "
        "made of the row and column that this thread owns?"),
    Mistake("partly_written", wrong_elements.untouched_from_a_size, wrong,
        "{count:,} of {total:,} elements of C were never written ({axis}s {length} to {last}); those that were are "
        "right. {size} is {length} here: does the guard before the store compare the {axis} with {size} instead of "
        "{should}? Otherwise no thread owns these elements."),
    Mistake("partly_written", wrong_elements.untouched, wrong,
        "{count:,} of {total:,} elements of C were never written ({where:part}); those that were are right. Either no "
        "thread owns these elements, or the guard before the store excludes their threads."),
    Mistake("misplaced", wrong_elements.untouched_and_wrong, wrong,
        "{count:,} elements of C were never written, and others hold wrong sums. Results that are stored in the wrong "
        "place do both: are the row and column of the store those that the sum was computed for?"),
    Mistake("nan", wrong_elements.no_numbers, wrong,
        "{count:elements are} NaN. The inputs hold none, and C starts as NaN, so the sum read memory that was not set: "
        "C itself,{scratch:scratch}{gaps:gaps} shared memory before it was filled, or a thread's own variable or "
        "array (all four floats of a float4?) that has no value yet."),
    Mistake("all_zero", widths.zeros, near, vague=True, sentence=
        "every element is 0: C is written, but nothing was added to the accumulator. Is the sum along K filled in?"),

    # -- too few bits --
    Mistake("half_sums", widths.halves, near,
        "every element of C is near the right one, and a number of 16 bits: the sums were made in half. Its 11 bits "
        "hold a factor, and not the sum of many products; make the accumulator float."),
    Mistake("rounded_to_float", widths.floats, near,
        "every element is right to some seven digits, as if it had been computed in float. A double that passes "
        "through a float variable, fragment or sum loses more than half of its digits."),
    Mistake("digits_missing", widths.rounded, near,
        "every element is nearly right, but {count:,} lack digits at their end. The numbers of this check are such "
        "that these sums need no rounding, in whatever order they are added up. Some value in between has fewer bits "
        "than the sum: a narrower type, a mask, an approximation."),
    Mistake("whole_numbers", widths.whole_numbers, near,
        "every element is a whole number: an int somewhere drops the fraction. Declare the accumulator as float."),
    Mistake("wrapped_around", widths.low_bits, every,
        "every sum is right in its last {bits} bits and in no others: it was kept in {bits} bits, and wrapped around "
        "where it left their range. A product of two bytes has 16 bits, a sum of them more."),
    Mistake("without_sign", read(factors.unsigned, "AB", "A", "B"), every,
        "the bytes of {of:and} were taken for numbers from 0 to 255: -1 became 255. An int holds four signed bytes, an "
        "unsigned four unsigned ones."),
    Mistake("not_turned", read(factors.words(1), "B"), every,
        "each 4 x 4 of B is transposed: a word holds four columns of one k, as in global memory, but is multiplied as "
        "four k of one column. Transpose each 4 x 4 when you copy it to shared memory."),
    Mistake("not_turned", read(factors.words(2), "B"), every,
        "a word of B holds two columns of one k, as in global memory, but is multiplied as two k of one column. Make "
        "each word of two rows when you copy B to shared memory."),
    Mistake("cut", read(factors.truncated, "A", "B", "AB"), every,
        "the numbers of {of:and} were cut to whole numbers: a variable that holds them is an int. Declare it as "
        "float."),

    # -- in another order --
    Mistake("transposed", misplaced.transposed, every,
        "C is transposed. In row-major order element (row, col) of C is C[row * N + col]; rows go with y (M), columns "
        "with x (N)."),
    Mistake("a_transposed", read(factors.across, "A"), every,
        f"A was read column by column: element (row, k) of A is A[row * K + k]. {ROW_MAJOR}"),
    Mistake("b_transposed", read(factors.across, "B"), every,
        f"B was read column by column: element (k, col) of B is B[k * N + col]. {ROW_MAJOR}"),
    Mistake("ab_swapped", read(factors.swapped, "AB"), every,
        f"A was read at (k, row) and B at (col, k): {ROW_FIRST}"),
    Mistake("a_swapped", read(factors.swapped, "A"), every,
        f"A was read at (k, row): {ROW_FIRST}"),
    Mistake("b_swapped", read(factors.swapped, "B"), every,
        f"B was read at (col, k): {ROW_FIRST}"),
    Mistake("boxes_exchanged", factors.boxes_exchanged, every,
        "row and column are exchanged where boxes of {of} are requested. copy_box, like every tensor map, takes the "
        "column first: for A the place along K and then the row, for B the column and then the place along K."),
    Mistake("a_stride", factors.rows_as_long_as("A", "MN"), every,
        "A was read as if its rows were {size} = {length} long: element (row, k) of A is A[row * K + k], for a row of "
        "A has K elements."),
    Mistake("b_stride", factors.rows_as_long_as("B", "MK"), every,
        "B was read as if its rows were {size} = {length} long: element (k, col) of B is B[k * N + col], for a row of "
        "B has N elements."),

    # -- fragments of tensor cores --
    Mistake("fragments_turned", read(factors.fragments, "A", "B"), every,
        "each 16 x 16 of {of:and} was read with rows and columns exchanged. wmma::row_major and wmma::col_major in a "
        "fragment's type say how the matrix is stored in memory, not how it is used."),
    Mistake("fragments_turned", misplaced.fragments_transposed, every,
        "each 16 x 16 of C is transposed: rows and columns change places where a fragment is stored. C is row-major: "
        "store_matrix_sync needs wmma::mem_row_major, and by hand lane / 4 is the row."),
    Mistake("c_quarters_turned", misplaced.quarters_transposed, every,
        "each 8 x 8 of C is transposed: rows and columns of the fragment change places in the store. In the fragment "
        "of C that mma.sync leaves, lane / 4 is the row, and lane % 4 * 2 the first of two columns."),
    Mistake("c_quarters_exchanged", misplaced.quarters_exchanged, every,
        "in each 16 x 16 of C the upper right and the lower left 8 x 8 have changed places. In the fragment of C that "
        "mma.sync leaves, a lane's second pair of sums is 8 rows below the first pair, and the sums of the next "
        "product are 8 columns further."),
    Mistake("quarters_turned", read(factors.quarters, "A"), every,
        "each 8 x 8 of A is transposed. A has two k of one row side by side, as mma.sync wants them: that is plain "
        "ldmatrix."),
    Mistake("quarters_exchanged", read(factors.quarters_exchanged, "A"), every,
        f"{ANOTHER_ORDER} The second one, whose row addresses lanes 8 to 15 supply, is 8 rows below the first; the "
        "third 8 k further."),
    Mistake("quarters_turned", read(factors.quarters, "B"), every,
        "each 8 x 8 of B is transposed. mma.sync wants two k of one column in a register, and memory has two columns "
        "of one k side by side: ldmatrix_trans exchanges them."),
    Mistake("quarters_exchanged", read(factors.quarters_exchanged, "B"), every,
        f"{ANOTHER_ORDER} The second one, whose row addresses lanes 8 to 15 supply, is 8 k below the first; the third "
        "has the next 8 columns."),
    Mistake("quarters_turned", read(factors.quarters, "A", order="column"), every,
        "each 8 x 8 of A is transposed. A is stored transposed here, so two rows of one k are side by side, and "
        "mma.sync wants two k of one row: load it transposed."),
    Mistake("quarters_turned", read(factors.quarters, "B", order="column"), every,
        "each 8 x 8 of B is transposed. B is stored transposed here, so two k of one column are side by side, as "
        "mma.sync wants them: that is plain ldmatrix."),
    Mistake("quarters_turned", read(factors.quarters, "AB", order=None), every,
        "each 8 x 8 of A and of B is transposed. A factor whose lines run along K needs plain ldmatrix, another one "
        "ldmatrix_trans."),
    Mistake("quarters_exchanged", read(factors.quarters_exchanged, "A", "B", "AB", order="column"), every,
        f"{ANOTHER_ORDER} Where a factor is stored transposed, the second one, whose row addresses lanes 8 to 15 "
        "supply, is 8 halves further in the same lines; the third is 8 lines below the first."),

    Mistake("fours_turned", read(factors.fours, "A", "B"), every,
        "each 4 x 4 of {of:and} is transposed. A thread that loads four k of each of four rows has four rows of one k "
        "to store: number e of every row."),

    # -- tiles of K --
    Mistake("first_k_tile", factors.only_k_tile(0), every,
        "only the first K tile (k = {first} to {last}) was summed. Does the loop over k0 step by {depth} up to K, does "
        "each iteration load its own tile, at k0, and do the guards compare k with K?"),
    Mistake("last_k_tile", factors.only_k_tile(-1), every,
        "only the last K tile (k = {first} to {last}) was summed. Is the accumulator set to 0 inside the loop over k0? "
        "It belongs before it."),
    Mistake("k_tile_missing", factors.k_tile_counted(0, last=False), every,
        "the {number:ordinal} K tile (k = {first} to {last}) is missing from every sum. Look at what is loaded before "
        "the loop and in its first iteration."),
    Mistake("k_tile_missing", factors.k_tile_counted(0, last=True), every,
        "the last K tile (k = {first} to {last}) is missing from every sum. Look at the condition that ends the loop "
        "over k0, and at what is multiplied after it."),
    Mistake("k_tile_twice", factors.k_tile_counted(2, last=False), every,
        "the {number:ordinal} K tile (k = {first} to {last}) was counted twice in every sum. Look at what is loaded "
        "before the loop and in its first iteration."),
    Mistake("k_tile_twice", factors.k_tile_counted(2, last=True), every,
        "the last K tile (k = {first} to {last}) was counted twice in every sum. Look at the condition that ends the "
        "loop over k0."),
    Mistake("k_tiles_carried", factors.k_tiles_carried, every,
        "the sum of each K tile still contains those of the K tiles before it, which are then added to C again. Start "
        "each tile's sum from 0: let its first product replace the sum, or clear the sum when it has been added."),
    Mistake("same_k_tile", read(factors.first_tile, "AB", "A", "B"), every,
        "every iteration of the loop over k0 used the first tile of {of:and of}."),

    # -- after the product --
    Mistake("scale_ignored", scales.left_out, every,
        "the sums are right, but not multiplied by {names:and}."),
    Mistake("scale_of_block", scales.of_another_block, every,
        "blocks of k are scaled by the {way} block's {name}: is that scale loaded for the right K tile?"),
    Mistake("scale_of_line", scales.of_another_line, every,
        "each {axis} and the one {distance} further on are scaled by the same {name}, that of the {part}. Which sums "
        "of a thread are in which {axis}? Compare the index of the scale with that of the sum."),
    *(Mistake(f"{name}_ignored", epilogues.left_out(name), every,
        "{left_out} was left out of {formula}.") for name in ("alpha", "beta", "bias")),
    Mistake("beta_ignored", epilogues.left_out("beta", 1.0), every,
        "{answer} was added as it was, without beta, in {formula}."),
    Mistake("plain_product", epilogues.other_formula("plain"), every,
        "only the product was stored. {formula} has more terms: store what the epilogue returns."),
    Mistake("relu_ignored", epilogues.other_formula("relu"), every,
        f"relu was left out. {INSTEAD}"),
    Mistake("relu_early", epilogues.other_formula("early"), every,
        f"relu came before {{term}} was added. {INSTEAD}"),
    Mistake("alpha_spread", epilogues.other_formula("alpha"), every,
        f"alpha multiplied {{terms:and}}, too: it belongs to the product alone. {INSTEAD}"),
    *(Mistake(f"{name}_in_part", epilogues.left_out_in_part(name), every,
        "{left_out} was left out in some of every {width} columns (number {columns:few}): does the loop over the "
        "columns of an access reach all of them?") for name in ("alpha", "beta", "bias", "relu")),
    Mistake("bias_in_tile", epilogues.bias_in_tile, every,
        "the bias was taken by the column inside the tile: column {column} of C got bias[0]. Take that of C."),
    *(Mistake("bias_repeated", epilogues.bias_of_first(width), every,
        "in every {width} columns all got the bias of the first: take that of each.") for width in epilogues.AT_ONCE),
    Mistake("bias_by_row", epilogues.bias_by_row, every,
        "the bias was taken by the row of C: element (row, col) gets bias[col]."),

    # -- sums of the wrong products --
    Mistake("subtracted", sums.counted(sums.subtracted), search,
        "C has the wrong sign: products are subtracted (-=) that are to be added (+=)."),
    Mistake("counted_again", sums.counted(sums.again), search,
        "every product was counted {times} times: which loop around the sum runs too often?"),
    Mistake("assigned", sums.counted(sums.only_the_last), search,
        "only the last product of every sum is left (k = {k}): the accumulator is assigned (=) where the product is to "
        "be added (+=)."),
    Mistake("assigned", sums.counted(sums.only_the_last_few), search,
        "only the last {kept} products of every sum are left (k = {k:few}): the accumulator is assigned (=) where "
        "{kept} products are to be added to it (+=)."),
    Mistake("late_start", sums.counted(partial(sums.without_the_first, one=True)), search,
        "the first product of {in_tile:whole} is missing ({in_tile:k} = {k:few}): does the loop over k start at 0?"),
    Mistake("late_start", sums.counted(partial(sums.without_the_first, one=False)), search,
        "the first {count} products of {in_tile:whole} are missing ({in_tile:k} = {k:few}): does the loop over k start "
        "at 0?"),
    Mistake("early_end", sums.counted(partial(sums.without_the_last, one=True)), search,
        "the last product of {in_tile:whole} is missing ({in_tile:k} = {end}): the loop over k ends one iteration too "
        "early."),
    Mistake("wrong_bound", sums.counted(partial(sums.without_the_last, one=False)), search,
        "in {in_tile:whole} only the products with {in_tile:k} below {end} of {size} were added: the loop over k ends "
        "at {end}{called:in brackets}."),
    Mistake("skipping", sums.counted(sums.one_in_several), search,
        "in {in_tile:whole} only one product in {step} was added ({in_tile:k} = {k:few}): the loop over k advances by "
        "{step}, so each iteration must add {step} products."),
    Mistake("missing", sums.counted(sums.without_some), search,
        "products of {in_tile:whole} are missing ({in_tile:k} = {k:few}): which iterations of the loop skip them?"),
    Mistake("doubled", sums.counted(sums.doubled), search,
        "each step doubled the sum before it: acc is added to acc. __dp4a(a, b, acc) and fma(a, b, acc) add acc "
        "themselves, so assign their result (=)."),
    Mistake("weights", sums.counted(sums.other_times), search,
        "not every product of {in_tile:whole} counts once ({times:times of k}). Which iterations of the loop over k do "
        "that?"),
    *(row for of, name in (("B", "wrong_k_of_b"), ("A", "wrong_k_of_a")) for row in (
        Mistake(name, sums.wrong_k(of, sums.first_of_the_tile), search,
            f"{TOOK} Only the first k of each K tile is used: the index of {{of}} lacks k."),
        Mistake(name, sums.wrong_k(of, sums.first_of_a_group), search,
            f"{TOOK} Of every {{size}} k only the first is used: the index of {{of}} lacks the term that counts within "
            "the {size}."),
        Mistake(name, sums.wrong_k(of, sums.first_of_the_tile_again), search,
            f"{TOOK} In each K tile the first {{size}} k are used again and again: the index of {{of}} lacks the term "
            "that advances by {size}."),
        Mistake(name, sums.wrong_k(of, sums.anywhere), search,
            f"{TOOK} Follow k through the index of {{of}} in the copy and in what is read of the tile."))),
    Mistake("bytes_of_words", factors.bytes_of_words, search,
        "the words of B hold the wrong bytes. Of each square of 4 x 4, the word of column {word} has, from its lowest "
        "byte, (k, column) = {held:places}, where {belong:places} belong. In __byte_perm(x, y, s) the lowest digit of "
        "s says what the lowest byte is."),

    # -- right sums in the wrong places --
    *(Mistake(f"{name}_gathered", misplaced.gathered(axis), every,
        "of every {count} {pieces} all but the first are 0, and the first holds the sums of all {count}: the index of "
        "the accumulator lacks the term that counts these {pieces}.")
        for name, axis in (("rows", ROWS), ("columns", COLUMNS))),
    *(Mistake(f"{name}_guard", misplaced.guarded_by_another_size(axis), every,
        "{axis}s from {size} = {length} on are 0: a guard compares the {axis} with {size}. A {axis} of {factor} is a "
        "{axis} of C and is below {should}; k is below K.") for name, axis in (("rows", ROWS), ("columns", COLUMNS))),
    *(row for name, axis in (("rows", ROWS), ("columns", COLUMNS)) for row in (
        Mistake(f"{name}_again", misplaced.multiples(axis, none=False), search,
            "{axis}s {lines:lines} are {times} times the right sums: which loop visits them again?"),
        Mistake(f"{name}_zero", misplaced.multiples(axis, none=True), search,
            "{axis}s {lines:lines} are 0: nothing was added to them. Does the loop over a thread's {axis}s reach its "
            "end?"))),
    *(Mistake(name, misplaced.shifted(axis), near,
        "every {axis} of C is {distance} too far {way}: {axis} {here} holds the right values of {axis} {there}. "
        "Compare the index that reads with the index that writes.")
        for name, axis in (("rows_shifted", ROWS), ("cols_shifted", COLUMNS))),
    *(row for name, axis, also in (("rows_repeated", ROWS, "columns_repeated"), ("columns_repeated", COLUMNS, ""))
        for row in (
        Mistake(name, misplaced.repeated(axis, misplaced.first_block), search, also=also, sentence=
            "every block computed the {axis}s of the first one: {axis} {here} holds the sums of {axis} {there}. The "
            "{axis} index of {factor} lacks {index}."),
        Mistake(name, misplaced.repeated(axis, misplaced.first_of_a_group), search, also=also, sentence=
            "{axis}s {repeat:few} repeat {axis} {there}, and so on in every {size} {axis}s: a thread uses one element "
            "of {factor} for all of them. The {axis} index of {factor} lacks the term that counts the thread's "
            "{axis}s."),
        Mistake(name, misplaced.repeated(axis, misplaced.so_far_before), search, also=also, sentence=
            "{axis}s {lines:lines} hold the sums of the {axis}s {before} before: there the {axis} index of {factor}, "
            "or that of acc in the store, is {before} too small. Look at the term that goes from one piece of a "
            "thread's {axis}s to the next."),
        Mistake(name, misplaced.repeated(axis, misplaced.anywhere), search, also=also, sentence=
            "{axis}s {lines:lines} hold the sums of other {axis}s, {axis} {here} those of {axis} {there}: follow the "
            "{axis} index of {factor} from the copy to the product, and that of C in the store."))),
    *(Mistake("exchanged_in_line", misplaced.exchanged(axis), search,
        f"the sums are right, but elements of the same {line} are exchanged in pairs: C[{{here[0]}}, {{here[1]}}] "
        "holds what belongs in C[{there[0]}, {there[1]}], and the other way round. acc[i][j] is a_frag[i] times "
        f"b_frag[j], in whatever order they are multiplied: do acc, {of} and the store have the same {index}?")
        for axis, line, of, index in ((ROWS, "row", "b_frag", "j"), (COLUMNS, "column", "a_frag", "i"))),
    Mistake("exchanged", misplaced.exchanged(None), search,
        "the sums are right, but elements are exchanged in pairs: C[{here[0]}, {here[1]}] holds what belongs in "
        "C[{there[0]}, {there[1]}], and the other way round. Row and column are exchanged inside each thread's "
        "tile: acc[i][j] is a_frag[i] times b_frag[j], and belongs in row i, column j of that tile. Look at the "
        "product and at the store."),

    # -- where C is wrong, and nothing more --
    Mistake("edges", wrong_elements.ragged_edge, wrong, vague=True, sentence=
        "only the ragged edge is wrong (rows from {row}, columns from {col}): whole {tile[0]} x {tile[1]} tiles are "
        "right. Look at the guards: what does a thread load, and store, when its row or column is outside?"),
    Mistake("same_positions", wrong_elements.same_positions, wrong, vague=True, sentence=
        "the same few elements are wrong in every block tile ({where:part}): not the tile's place in C is wrong, but "
        "what one thread does inside it, or when: a missing __syncthreads() or a wrong thread index."),
    Mistake("same_part", wrong_elements.same_part, mostly, vague=True, sentence=
        "the same part of every block tile is wrong ({where:part}), so blockIdx is not to blame. Look at each index "
        "inside the tile: in the copy, in what a thread reads of the tiles, and in the store.{past:past k}"),
)
# fmt: on


def recognise(it: Wrong) -> Pattern | None:
    """Return the first mistake that produces this wrong answer; None when no known one does."""
    return next(_found(it, MISTAKES), None)


def _found(it: Wrong, rows: Sequence[Mistake]) -> Iterator[Pattern]:
    for row in rows:
        if (facts := row.comparison(it, row.transformation)) is not None:
            also = next(_found(it, [other for other in MISTAKES if other.name == row.also]), None)
            yield Pattern(row.name, row.sentence, facts, row.vague, also)
