"""Make the PTX of this folder with Triton, which needs no GPU for that: python3 dot.py FOLDER.

The tests run the PTX in dot.*.ptx; tests/reruns/test_triton.py makes it again with the newest Triton.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# file: architecture, type of A and B, stages of the pipeline
BUILDS = {"sm75_fp16": (75, "fp16", 1), "sm80_fp16": (80, "fp16", 3), "sm80_fp32": (80, "fp32", 2),
          "sm80_bf16": (80, "bf16", 2), "sm80_i8": (80, "i8", 2), "sm89_fp8e4nv": (89, "fp8e4nv", 2)}  # fmt: skip


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B, a tile of C for each block."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total += tl.dot(x, y)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def ptx(architecture: int, type: str, stages: int) -> str:
    """Compile the kernel, and leave out what only debuggers read."""
    signature = {"a": f"*{type}", "b": f"*{type}", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    source = ASTSource(
        fn=matmul,
        signature={**signature, "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"},
        constexprs={"BM": 32, "BN": 32, "BK": 32},
        attrs={(at,): [["tt.divisibility", 16]] for at in range(6)},
    )
    made = triton.compile(source, GPUTarget("cuda", architecture, 32), {"num_warps": 4, "num_stages": stages})
    text = re.sub(r"(?m)^\s*\.section[^{]*\{[^}]*\}\s*|^\s*\.(file|loc)\b.*\n|\s*//.*$", "", made.asm["ptx"])
    return re.sub(r"\n\s*\n+", "\n", text)


if __name__ == "__main__":
    for name, build in BUILDS.items():
        Path(sys.argv[1], f"dot.{name}.ptx").write_text(ptx(*build))
