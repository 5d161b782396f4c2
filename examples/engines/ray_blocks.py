"""Distribute kernels with Ray: arrays are kept in its object store, and the tasks of a lost worker are repeated.

On a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/engines/ray_blocks.py

It needs numpy and ray. On a machine with GPUs, give the tasks `num_gpus`, and Ray sets CUDA_VISIBLE_DEVICES.
"""

import os
import sys
import tempfile

import blocks
import ray


@ray.remote(max_retries=3)
def product_of(number, marker, *row_and_column):
    """Multiply blocks. When one of the tasks runs for the first time, it kills its worker."""
    if number == 4:
        blocks.end_once(marker)
    half = len(row_and_column) // 2
    return blocks.product_of(row_and_column[:half], row_and_column[half:])


@ray.remote(max_retries=3)
def total_of(number):
    """Sum a chunk."""
    return blocks.total_of(number)


def main(marker):
    """Compute with two workers."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, *filter(None, sys.path)])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": {"PYTHONPATH": path}},
        log_to_driver=False,
    )
    a, b, _ = blocks.matrices()
    left, right = ({place: ray.put(block) for place, block in blocks.blocks_of(each).items()} for each in (a, b))
    rows = range(blocks.SIZE // blocks.BLOCK)
    found = {
        (i, j): product_of.remote(3 * i + j, marker, *(left[i, k] for k in rows), *(right[k, j] for k in rows))
        for i in rows
        for j in rows
    }
    totals = [total_of.remote(number) for number in range(blocks.CHUNKS)]
    product = blocks.assembled({place: block.download() for place, block in zip(found, ray.get(list(found.values())))})
    blocks.check(product, sum(ray.get(totals)), marker)
    ray.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(os.path.join(folder, "lost"))
