"""Which indices of local arrays are known to stay inside. A right kernel whose are not is looked at again."""

from __future__ import annotations

import pytest

from gemm_lessons.course.folder import any_course
from gemm_lessons.engine.compiler.local_bounds import may_run_past

SIZES = {"BM": 128, "TN": 8, "TM": 4}
FOR = "for (int j = 0; j < TN; j++)"

INSIDE = [
    f"float b[TN];\n{FOR} b[j] = 0;",
    "float b[TN] = {};\nfor (int j = 0; j < TN; j += 4) float4_at(b[j]) = float4_at(x[j]);",
    "float b[TN];\n#pragma unroll\nfor (int j = 0; j < TN; ++j) {\n    b[TN - 1 - j] = j;\n}",
    "constexpr int ROUNDS = BM / 32;\nfloat4 b[ROUNDS];\nfor (int r = 0; r < BM; r += 32) b[r / 32] = x[r];",
    "float b[TM][TN];\nfor (int i = 0; i < TM; i++)\n    for (int j = 0; j < TN; j++)\n        b[i][j] = 0;",
    f"float b[TN];\n{FOR} {{ b[j] = 0; }}\nfor (int j = 0; j <= 9; j++) x[j] = 0;",
    "__shared__ float b[TN];\nb[threadIdx.x] = 0;",
    "struct Stage {\n    float a[TM][TN];\n};\nextern __shared__ Stage s[];\nStage *t = s;\ns[k].a[k][k] = 0;",
    "struct Stage {\n    float a[TN];\n};\nStage *t = shared;\nstatic_assert(sizeof(Stage) == 32);\nt[k].a[k] = 0;",
    "float b[2];\nb[0] = x[0]; b[1] = x[1]; // b[2] is not there",
    f"float b[TN];\n{FOR} {{ const int i = j + k; x[i] = b[j]; }}",
    f"float b[TN];\n{FOR} {{ const int i = j % 2 ? TN - 1 - j : j; b[i] = 0; }}",
    f"float b[TN];\n{FOR} {{\n    const int i = TN - 1 - j;\n    b[i] = x[j]; }}",
    f"float b[TN];\n{FOR} {{\n    const int i = TN - 1 - j;\n    b[i] = 0; }}\nfor (int i = 0; i < TN; i++) b[i] = 0;",
    "double b[TN];\nfor (int j = 0; j < TN; j += 2) double2_at(b[j]) = double2_at(x[j]);",
    f"float b[TN];\n{FOR} if (j > 3) b[j] = 0; else b[j] = 1;\nfor (int i = 0; i < TN; i++) x[i] = b[i];",
]
NOT_KNOWN = [
    "float b[TN];\nfor (int j = 0; j <= TN; j++) b[j] = 0;",
    "float b[TN];\nfor (int j = 0; j < TN; j++) float4_at(b[j]) = float4_at(x[j]);",
    "float b[TN];\nfor (int j = 0; j < TN; j++) *(float4 *)&b[j] = x[j];",
    "float b[TN];\nfor (int j = 0; j < TN; j++) reinterpret_cast<float4 &>(b[j]) = x[j];",
    "double b[TN];\nfor (int j = 0; j < TN; j++) double2_at(b[j]) = double2_at(x[j]);",
    f"float b[TN];\n{FOR} {{ const int i = j % 2 ? j : TN - j; b[i] = 0; }}",
    f"float b[TN];\n{FOR} {{ const int i = j % 2 ? j + 1 : j; b[i] = 0; }}",
    f"float b[TN];\nint i = 9;\n{FOR} {{ {{ const int i = j; }} b[i] = 0; }}",
    f"float b[TN];\n{FOR} {{ {{ const int i = j; }} b[i] = 0; }}\nfor (int i = 0; i < 9; i++) x[i] = 0;",
    f"float b[TN];\n{FOR} {{ const int i = j; {{ int i = 9; b[i] = 0; }} }}",
    f"float b[TN];\n{FOR} {{ const int i = threadIdx.x; b[i] = 0; }}",
    f"float b[TM];\n{FOR} b[j] = 0;",
    f"float b[TN];\n{FOR} b[j + 1] = 0;",
    f"float b[TN];\n{FOR} b[j - 1] = 0;",
    f"float b[TN];\n{FOR} b[j++] = 0;",
    f"float b[TN];\n{FOR} {{ b[j] = 0; j += 2; }}",
    f"float b[TN];\n{FOR} x[j] = 0;\nb[j] = 0;",
    "float b[TN];\nb[threadIdx.x] = 0;",
    "struct Stage {\n    float a[TN];\n};\nStage s;\ns.a[k] = 0;",
    "struct Stage {\n    float a[TN];\n} s;\ns.a[k] = 0;",
    "struct Stage {\n    float a[TN];\n};\nstatic_assert(sizeof(Stage) == 32);\nStage s;\ns.a[k] = 0;",
    "float b[TN];\nfill(b);",
    "float b[TN];\nfor (int j = 0; j < n; j++) b[j] = 0;",
    "float a[TN], b[TN];\na[0] = b[8];",
    f"float b[TM][TN];\n{FOR} b[j][0] = 0;",
    "float b[SIZE];\nb[0] = 0;",
]


@pytest.mark.parametrize("body", INSIDE)
def test_known_to_stay_inside(body: str) -> None:
    assert not may_run_past(body, SIZES)


@pytest.mark.parametrize("body", NOT_KNOWN)
def test_not_known_to_stay_inside(body: str) -> None:
    assert may_run_past(body, SIZES)


def test_no_reference_needs_a_second_look() -> None:
    course = any_course()
    lessons = [course.lesson(name) for name in course.names]
    # They hand rows, sums or fragments to a function.
    names = ("split_k", "ragged_mma", "wgmma", "roles", "persistent", "clusters", "fp8", "dp4a", "beat_cublas", "ozaki")
    looked_at = {course.resolve(name) for name in names}
    assert {it.name for it in lessons if may_run_past(it.solution_path.read_text(), it.tile.defines)} == looked_at
