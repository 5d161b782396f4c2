"""Kernels in Python, for numba-cuda and for Triton. make.py --python compiles them, without a GPU."""
from __future__ import annotations

import math


def builds() -> "list[tuple[str, str]]":
    """Compile all kernels; return file names and PTX."""
    return [*numba_builds(), *triton_builds()]


def numba_builds() -> "list[tuple[str, str]]":
    """Compile with numba-cuda, one module for each kernel."""
    from numba import cuda, float32, float64, int32, void

    def saxpy(out, x, y, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    def block_sum(out, x):
        part = cuda.shared.array(64, float64)
        t = cuda.threadIdx.x
        part[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 32
        while step:
            if t < step:
                part[t] += part[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(out, cuda.blockIdx.x, part[0])

    def functions(out, x):
        i = cuda.grid(1)
        if i < x.size:
            v = x[i]
            out[i, 0] = math.sin(v)
            out[i, 1] = math.exp(v)
            out[i, 2] = math.sqrt(abs(v))
            out[i, 3] = v ** 3
            out[i, 4] = math.atan2(v, 2.0)

    def integers(out, x, y):
        i = cuda.grid(1)
        if i < x.size and y[i] != 0:
            out[i] = x[i] // y[i] * 1000 + x[i] % y[i] + cuda.popc(x[i]) + cuda.clz(y[i])

    vector, matrix = float64[::1], float64[:, ::1]
    made = []
    for function, types in ((saxpy, (float32[::1], float32[::1], float32[:], float32)), (block_sum, (vector, vector)),
                            (functions, (matrix, vector)), (integers, (int32[::1], int32[::1], int32[::1]))):
        text, _ = cuda.compile_ptx(function, void(*types), cc=(8, 0))
        made.append((f"numba_{function.__name__}.sm80", text))
    return made


def triton_builds() -> "list[tuple[str, str]]":
    """Compile with Triton, one module for each kernel."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def add(out, x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        tl.store(out + at, tl.load(x + at, mask=mask, eviction_policy="evict_last") + tl.load(y + at, mask=mask, other=0.0), mask=mask)

    @triton.jit
    def softmax(out, x, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        row = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"), eviction_policy="evict_first")
        row = tl.exp(row - tl.max(row, 0))
        tl.store(out + tl.program_id(0) * n + at, row / tl.sum(row, 0), mask=at < n)

    @triton.jit
    def product(out, x, y, n, BLOCK: tl.constexpr):
        i, j, k = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :], tl.arange(0, BLOCK)
        sum = tl.zeros((BLOCK, BLOCK), tl.float32)
        for start in range(0, n, BLOCK):
            a = tl.load(x + i * n + start + k[None, :])
            b = tl.load(y + (start + k[:, None]) * BLOCK + j)
            sum = tl.dot(a, b, sum, input_precision="ieee")
        tl.store(out + i * BLOCK + j, sum)

    @triton.jit
    def scan_and_count(out, bins, x, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + at)
        tl.store(out + at, tl.cumsum(v, 0))
        tl.atomic_add(bins + (v & 7), 1)

    made = []
    sources = ((add, {"out": "*fp32", "x": "*fp32", "y": "*fp32", "n": "i32"}, 128), (softmax, {"out": "*fp32", "x": "*fp32", "n": "i32"}, 64),
               (product, {"out": "*fp32", "x": "*fp32", "y": "*fp32", "n": "i32"}, 16),
               (scan_and_count, {"out": "*i32", "bins": "*i32", "x": "*i32"}, 128))
    for function, signature, block in sources:
        for target in (80, 100):
            source = ASTSource(function, signature={**signature, "BLOCK": "constexpr"}, constexprs={"BLOCK": block})
            text = triton.compile(source, target=GPUTarget("cuda", target, 32), options={"num_warps": 2, "ptx_version": 84 if target == 80 else 86, "enable_fp_fusion": True}).asm["ptx"]
            made.append((f"triton_{function.__name__}.sm{target}", text))
    return made
