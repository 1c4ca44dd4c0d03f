"""Records that the engine's rooms exchange, and the element types of numbers in them.

- ``launch``: arguments, grid and variables of a launch; ``results``: counters, findings, fault and output of one
- ``findings``, ``facts``: a finding; its threads, memory and further facts
- ``metrics``: names of counters; ``elements``, ``encodings``, ``arrays``: types of numbers; ``errors``: exceptions;
  ``hashing``: random bits of integers
- ``toml_file``: TOML with the line of each key; ``words``: corrections of misspelt words, and text safe to print
- ``frozen``: the dataclass decorator of all these records; ``regex``: regular expressions, compiled on first use;
  ``first_use``: the public names of a room, imported on first use
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records.first_use import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.records import toml_file
    from gemm_lessons.engine.records.elements import ELEMENTS, SINGLE, Element, bits, strides_of
    from gemm_lessons.engine.records.facts import (
        AtBarrier, AtMbarrier, Coordinates, Details, Hang, InFlight, Location, MbarrierMisuse, Missed, Misuse, NoRoom,
        PastAll, PastEnd, Quoted, Stopped,
    )  # fmt: skip
    from gemm_lessons.engine.records.frozen import dataclass, picked
    from gemm_lessons.engine.records.hashing import GOLDEN, mixed
    from gemm_lessons.engine.records.launch import (
        PAGE, TENSOR_MAP_SIZE, Argument, Grid, Pages, buffer_of, buffers_of, check_map, map_type, offset_of,
    )  # fmt: skip
    from gemm_lessons.engine.records.metrics import BESIDE, COUNTED, METRICS, ON_PTX, TABLED
    from gemm_lessons.engine.records.results import SampledBlocks, added, in_a_row
    from gemm_lessons.engine.records.toml_file import TomlFile, Where
    from gemm_lessons.engine.records.words import closest, printable
else:
    __getattr__ = on_first_use(__name__)
