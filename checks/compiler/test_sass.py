"""The disassembly as records: widths that ptxas chose, source lines, basic blocks, which functions belong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gemm_lessons.engine.compiler import cache, joined_cubins, nvrtc, sass
from gemm_lessons.engine.compiler.compile import Compiled, SharedSass
from gemm_lessons.engine.compiler.sass import SassInstruction
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel

TILE = """extern "C" __global__ void gemm(const float *A, float *C, int n)
{
    __shared__ __align__(16) float As[64][4];
    for (int i = 0; i < 4; i++)
        As[threadIdx.x][i] = A[threadIdx.x * 4 + i];
    __syncthreads();
    float acc = 0.0f;
    for (int k = 0; k < n; k++) {
        float4 four = *reinterpret_cast<const float4 *>(As[(threadIdx.x + k) & 63]);
        acc += four.x * four.y + four.z * four.w;
    }
    C[threadIdx.x] = acc;
}
"""


@pytest.fixture
def tile(compiled) -> Compiled:
    return compiled(TILE)


def test_shared_loads_have_the_width_that_ptxas_chose(tile):
    loads = [i for i in tile.sass if i.opcode.startswith("LDS")]
    assert loads
    assert {(i.opcode, i.width, i.line) for i in loads} == {("LDS.128", 16, 9)}


def test_scalar_loads_that_ptxas_merges_are_seen_merged(compiled):
    """PTX has 16 scalar loads where the machine code has 4 of 128 bits, so widths are read from machine code."""
    source = """extern "C" __global__ void gemm(float *x)
    {
        __shared__ float s[1024];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < 16; i++) sum += s[(threadIdx.x & 15) * 16 + i];
        x[threadIdx.x] = sum;
    }"""
    it = compiled(source)
    widths = [i.width for i in it.sass if i.opcode.startswith("LDS")]
    assert it.ptx.count("ld.shared.f32") == 16
    assert sorted(widths) == [16, 16, 16, 16]


def test_addresses_rise_and_records_are_complete(tile):
    addresses = [i.address for i in tile.sass]
    assert addresses == list(range(0, 16 * len(addresses), 16))
    for it in tile.sass:
        assert it.opcode in it.text
    assert tile.sass[0].block == 0
    assert all(b.block - a.block in (0, 1) for a, b in zip(tile.sass, tile.sass[1:], strict=False))


def test_the_text_has_base_register_and_offset(compiled):
    it = compiled('extern "C" __global__ void gemm(float *x) { x[threadIdx.x] = x[threadIdx.x + 8]; }')
    (load,) = [i for i in it.sass if i.opcode.startswith("LDG")]
    assert "+0x20]" in load.text
    assert load.width == 4


def test_basic_blocks_end_at_branches_and_begin_at_labels(tile):
    by_block: dict[int, list[str]] = {}
    for i in tile.sass:
        by_block.setdefault(i.block, []).append(i.opcode.split(".")[0])
    assert len(by_block) >= 4  # before the loop, the loop, after it, the padding
    for opcodes in by_block.values():
        assert not {"BRA", "EXIT", "RET"} & set(opcodes[:-1])
    loop = {i.block for i in tile.sass if i.opcode.startswith("LDS")}
    store = {i.block for i in tile.sass if i.opcode.startswith("STG")}
    assert not loop & store


def test_a_guarded_instruction_keeps_its_opcode(compiled):
    it = compiled(
        "__global__ void gemm(float *x, int n)\n{\n    if (threadIdx.x < n)\n        x[threadIdx.x] = x[n];\n}\n"
    )
    stores = [i for i in it.sass if i.opcode.startswith("STG")]
    assert stores
    assert all(i.width == 4 and i.line == 4 for i in stores)


def test_other_kernels_are_left_out_and_called_functions_are_kept(compiled):
    source = """__device__ __noinline__ double slow(double x) { return x * x * x; }
__global__ void gemm(double *x) { x[0] = slow(x[1]); }
__global__ void other(double *x, float *y) { y[0] = rsqrtf(y[1]); }
"""
    it = compiled(source)
    opcodes = {i.opcode.split(".")[0] for i in it.sass}
    assert "DMUL" in opcodes
    assert not any(i.line == 3 for i in it.sass)
    assert any(i.opcode.startswith("CALL") for i in it.sass)
    assert any(i.opcode.startswith("MUFU") for i in compiled(source, "other").sass)


def test_lines_in_headers_name_the_header(compiled, tmp_path):
    (tmp_path / "f.cuh").write_text("\n\n__device__ float f(const float *x) { return *x; }\n")
    it = compiled('#include "f.cuh"\n__global__ void gemm(float *x) { x[0] = f(x + 1); }', include_dirs=[tmp_path])
    (load,) = [i for i in it.sass if i.opcode.startswith("LDG")]
    assert (load.file, load.line) == (str(tmp_path / "f.cuh"), 3)


def test_starting_early_gives_the_same(compiled):
    late, early = compiled(TILE), compiled(TILE)
    early.start_sass()
    early.start_sass()
    assert early.sass == late.sass
    early.start_sass()


BRANCHES = """__device__ int table[3] = {1, 2, 3};
__device__ __noinline__ float slow(float x, int n) { return n ? slow(x * x, n - 1) + table[n % 3] : x; }
extern "C" __global__ void gemm(float *x, long long n, double d)
{
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    switch (threadIdx.x % 5) {
    case 0: x[0] = s[n / 3]; break;
    case 1: x[1] = d / s[1]; break;
    case 2: x[2] = slow(s[2], n); break;
    default: x[3] = s[n % 7];
    }
}
"""


def told(code: Compiled) -> list[SassInstruction]:
    """Return the instructions with labels numbered in the order in which they occur."""
    numbers: dict[str, str] = {}

    def plain(text: str) -> str:
        return re.sub(r"\.L_x_\d+", lambda it: numbers.setdefault(it[0], f"L{len(numbers)}"), text)

    return [replace(it, text=plain(it.text), labels=tuple(map(plain, it.labels))) for it in code.sass]


def test_kernels_that_share_a_disassembly_have_the_same_code_as_alone(compiled, monkeypatch):
    """Calls, tables, variables, shared memory, lines in headers: all that a kernel refers to keeps its name."""
    monkeypatch.setattr(cache, "folder", lambda: None)
    calls: list[bytes] = []
    printed = sass._printed_of

    def counted(program: Path, cubin: bytes) -> str:
        calls.append(cubin)
        return printed(program, cubin)

    monkeypatch.setattr(sass, "_printed_of", counted)
    sources = (TILE, BRANCHES, TILE.replace("i < 4", "i < 3"), TILE)
    alone, together = [compiled(it) for it in sources], [compiled(it) for it in sources]
    expected = [told(it) for it in alone]
    calls.clear()
    shared = SharedSass(lambda: together)
    for it in together:
        it.share_sass(shared)
    assert [told(it) for it in together] == expected
    assert len(calls) == 1


def test_a_disassembly_that_cannot_be_shared_is_made_one_by_one(compiled, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    monkeypatch.setattr(joined_cubins, "joined", lambda cubins: b"\x7fELF, but no cubin")
    alone, together = compiled(TILE), [compiled(TILE), compiled(BRANCHES)]
    shared = SharedSass(lambda: together)
    for it in together:
        it.share_sass(shared)
    assert together[0].sass == alone.sass
    assert together[1].sass


@pytest.mark.parametrize(
    ("opcode", "width"),
    [
        ("LDS", 4),
        ("LDS.64", 8),
        ("LDS.128", 16),
        ("LDS.U8", 1),
        ("LDS.S16", 2),
        ("LDS.U.128", 16),
        ("LDG.E", 4),
        ("LDG.E.128.CONSTANT", 16),
        ("LDG.E.64", 8),
        ("LDG.E.U16", 2),
        ("STG.E.128", 16),
        ("STS.128", 16),
        ("LD.E.64", 8),
        ("STL.128", 16),
        ("ULDC.64", 8),
        ("LDC", 4),
        ("LDSM.16.M88.4", 16),
        ("LDSM.16.MT88.2", 8),
        ("LDGSTS.E.BYPASS.128", 16),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", 4),
        ("ATOMG.E.ADD.64.STRONG.GPU", 8),
        ("ATOMS.ADD", 4),
        ("FFMA", 0),
        ("LDGDEPBAR", 0),
        ("REDUX.SUM", 0),
        ("LEA.HI.X", 0),
        ("BAR.SYNC.DEFER_BLOCKING", 0),
        ("IMAD.WIDE.U32", 0),
        ("LDTM", 0),
    ],
)
def test_widths(opcode, width):
    assert sass.width_of(opcode) == width


def test_a_missing_or_failing_disassembler_is_the_kits_fault(compiled, monkeypatch, tmp_path):
    it = compiled(TILE)
    with pytest.raises(UnsupportedKernel, match="nvdisasm cannot read"):
        sass.disassemble(b"not an ELF")
    monkeypatch.setattr(nvrtc, "disassembler", lambda: None)
    it.start_sass()  # fails in the background, silently
    with pytest.raises(KitError, match="nvidia-cuda-nvdisasm"):
        _ = it.sass
