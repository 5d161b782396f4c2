"""The kernels of emulator.py and executors.py in numba's CUDA simulator, which runs each thread as a Python thread.

`seconds` starts this file in a process of its own, because numba decides when it is imported whether it
simulates. Only that process imports numba.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if __name__ == "__main__" or TYPE_CHECKING:
    import numpy as np
    from numba import cuda, float32, uint32  # type: ignore[import-not-found,unused-ignore]

CODES = {"histogram": "u4"}  # of the elements of all arrays; float32 otherwise


def seconds(name: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: Any, part: int = 1) -> float | None:
    """Return the processor time of a launch, or None if this Python has no numba; bytes among the arguments are arrays.

    part  simulate only this part of the first dimension of the grid (8: an eighth), and multiply the time
    """
    done = subprocess.run(
        [sys.executable, __file__],
        input=repr((name, grid, block, part, *arguments)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
    )
    return float(done.stdout) if done.returncode == 0 else None


def add(out: Any, a: Any, b: Any, n: int) -> None:
    """Add two arrays."""
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + b[i]


def polynomial(out: Any, given: Any, n: int) -> None:
    """Compute a polynomial."""
    i = cuda.grid(1)
    if i >= n:
        return
    x = given[i]
    y = x * np.float32(0.5) + np.float32(1.25)
    z = x - y
    for _ in range(8):
        y = y * x + z
        z = z - x * np.float32(0.25)
        x = x * np.float32(0.5)
        y = y + x
    out[i] = y * z


def product(C: Any, A: Any, B: Any, n: int) -> None:
    """Multiply matrices in tiles of one block."""
    side = cuda.blockDim.x
    a, b = cuda.shared.array((side, side), float32), cuda.shared.array((side, side), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = np.float32(0)
    for k in range(0, n, side):
        a[ty, tx] = A[y * n + k + tx]
        b[ty, tx] = B[(k + ty) * n + x]
        cuda.syncthreads()
        for j in range(side):
            total += a[ty, j] * b[j, tx]
        cuda.syncthreads()
    C[y * n + x] = total


def reduce(out: Any, given: Any, n: int = 0) -> None:
    """Add the elements of each block."""
    size = cuda.blockDim.x
    part = cuda.shared.array(size, float32)
    t = cuda.threadIdx.x
    part[t] = given[cuda.blockIdx.x * size + t]
    cuda.syncthreads()
    k = size // 2
    while k:
        if t < k:
            part[t] += part[t + k]
        cuda.syncthreads()
        k >>= 1
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def mandelbrot(out: Any, w: int, h: int, most: int) -> None:
    """Count steps."""
    i = cuda.grid(1)
    if i >= w * h:
        return
    cr = np.float32(i % w) * np.float32(3) / np.float32(w) - np.float32(2)
    ci = np.float32(i // w) * np.float32(2) / np.float32(h) - np.float32(1)
    r = q = np.float32(0)
    k = 0
    while k < most and r * r + q * q < 4:
        t = r * r - q * q + cr
        q = np.float32(2) * r * q + ci
        r = t
        k += 1
    out[i] = k


def stencil(out: Any, given: Any, w: int, h: int) -> None:
    """Average five points."""
    x, y = cuda.grid(2)
    if x < 1 or y < 1 or x >= w - 1 or y >= h - 1:
        return
    i = y * w + x
    around = given[i - 1] + given[i + 1] + given[i - w] + given[i + w]
    out[i] = np.float32(0.5) * given[i] + np.float32(0.125) * around


def bodies(force: Any, body: Any, n: int) -> None:
    """Add the forces of all bodies on each."""
    tile = cuda.shared.array((256, 4), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    mx, my, mz = body[4 * i], body[4 * i + 1], body[4 * i + 2]
    x = y = z = np.float32(0)
    for k in range(0, n, 256):
        for c in range(4):
            tile[t, c] = body[4 * (k + t) + c]
        cuda.syncthreads()
        for j in range(256):
            dx, dy, dz = tile[j, 0] - mx, tile[j, 1] - my, tile[j, 2] - mz
            inverse = np.float32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + np.float32(0.01))
            s = tile[j, 3] * inverse * inverse * inverse
            x += dx * s
            y += dy * s
            z += dz * s
        cuda.syncthreads()
    force[4 * i], force[4 * i + 1], force[4 * i + 2], force[4 * i + 3] = x, y, z, 0


def histogram(bins: Any, given: Any, n: int) -> None:
    """Count the elements in 64 bins."""
    part = cuda.shared.array(64, uint32)
    t = cuda.threadIdx.x
    for i in range(t, 64, cuda.blockDim.x):
        part[i] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        cuda.atomic.add(part, given[i] & 63, 1)
    cuda.syncthreads()
    for i in range(t, 64, cuda.blockDim.x):
        cuda.atomic.add(bins, i, part[i])


def main() -> None:
    """Run the kernel that stdin describes, one block first, and print the processor time."""
    name, grid, block, part, *arguments = eval(sys.stdin.read())
    code = CODES.get(name, "f4")
    given = [np.frombuffer(each, code).copy() if isinstance(each, bytes) else each for each in arguments]
    kernel = cuda.jit(globals()[name])
    kernel[(1,) * len(grid), block](*given)
    started = time.process_time()
    kernel[(grid[0] // part, *grid[1:]), block](*given)
    print((time.process_time() - started) * part)


if __name__ == "__main__":
    main()
