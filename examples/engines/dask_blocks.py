"""Distribute kernels with Dask: arrays on a device travel between the workers, and a lost worker's tasks are repeated.

On a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/engines/dask_blocks.py

It needs numpy, dask and distributed. Importing the serialisers here lets the workers import them, too.
"""

import os
import tempfile

import blocks
from dask.distributed import Client, LocalCluster

import rawcuda.integrations.dask  # noqa: F401  (registers the serialisers)


def product_of(row, column, number, marker):
    """Multiply blocks. When one of the tasks runs for the first time, it kills its worker."""
    if number == 4:
        blocks.end_once(marker)
    return blocks.product_of(row, column)


def transposed(block):
    """Return the transpose of a block that another worker may have made: Dask then sends it between the workers."""
    return block.T.copy()


def main(marker):
    """Compute with two workers."""
    a, b, _ = blocks.matrices()
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            product, total = compute(client, a, b, marker)
    blocks.check(product, total, marker)


def compute(client, a, b, marker):
    """Submit all tasks, and return the product and the sum."""
    left, right = blocks.blocks_of(a), blocks.blocks_of(b)
    rows = range(blocks.SIZE // blocks.BLOCK)
    found = {}
    for i in rows:
        for j in rows:
            row, column = [left[i, k] for k in rows], [right[k, j] for k in rows]
            made = client.submit(product_of, row, column, 3 * i + j, marker, pure=False)
            found[j, i] = client.submit(transposed, made, pure=False)
    totals = client.map(blocks.total_of, range(blocks.CHUNKS), pure=False)
    gathered = client.gather(found)
    turned = blocks.assembled({place: block.download() for place, block in gathered.items()})  # the transposed product
    return turned.T, sum(client.gather(totals))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(os.path.join(folder, "lost"))
