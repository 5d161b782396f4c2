"""Distribute kernels to a pool of processes, which share two matrices in the memory of the GPU.

On a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/engines/process_blocks.py

It needs numpy. The matrices are shared by handles, so their blocks are not sent to the workers. If a worker dies, a new
pool does what is left. The pool starts its processes with "spawn", because a process that uses CUDA must not fork.
"""

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import blocks

import rawcuda

opened = {}


def start(*handles):
    """Open the matrices of the first process, in each worker."""
    for name, handle in zip("ab", handles):
        opened[name] = rawcuda.Memory.from_handle(handle).view("float32").reshape(blocks.SIZE, blocks.SIZE)


def product_of(i, j, marker):
    """Multiply blocks. When one of the tasks runs for the first time, it kills its worker."""
    n, rows = blocks.BLOCK, range(blocks.SIZE // blocks.BLOCK)
    if (i, j) == (1, 1):
        blocks.end_once(marker)
    row = [opened["a"][i * n : (i + 1) * n, k * n : (k + 1) * n].copy() for k in rows]
    column = [opened["b"][k * n : (k + 1) * n, j * n : (j + 1) * n].copy() for k in rows]
    return blocks.product_of(row, column).download()


def completed(tasks, handles):
    """Run all tasks. If a worker dies, the pool ends, and a new one runs the tasks that are left."""
    found = {}
    for _ in range(5):
        left = {key: task for key, task in tasks.items() if key not in found}
        if not left:
            break
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=spawn, initializer=start, initargs=handles) as pool:
            futures = {key: pool.submit(*task) for key, task in left.items()}
            for key, future in futures.items():
                try:
                    found[key] = future.result()
                except BrokenProcessPool:
                    pass
    return found


def main(marker):
    """Compute with two workers."""
    a, b, _ = blocks.matrices()
    device = rawcuda.Device(0)
    rows = range(blocks.SIZE // blocks.BLOCK)
    memories = [device.allocate(each.nbytes).copy_from(each.reshape(-1).view("uint8")) for each in (a, b)]
    device.synchronize()
    tasks = {(i, j): (product_of, i, j, marker) for i in rows for j in rows}
    tasks.update({number: (blocks.total_of, number) for number in range(blocks.CHUNKS)})
    with memories[0].share() as first, memories[1].share() as second:
        found = completed(tasks, (first, second))
    total = sum(found.pop(number) for number in range(blocks.CHUNKS))
    blocks.check(blocks.assembled(found), total, marker)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(os.path.join(folder, "lost"))
