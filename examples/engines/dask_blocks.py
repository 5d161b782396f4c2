"""Distribute kernels with Dask: arrays on a device travel between the workers, and a lost worker's tasks are repeated.

On a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/engines/dask_blocks.py

It needs numpy, dask and distributed. Importing the serialisers here lets the workers import them, too.
"""

import os
import tempfile

import blocks
from dask.distributed import Client, LocalCluster

import rawcuda.integrations.dask  # noqa: F401  (registers how views and memory travel)


def product_of(row, column, number, marker):
    """Multiply blocks; one of the tasks takes its worker with it when it runs first."""
    if number == 4:
        blocks.end_once(marker)
    return blocks.product_of(row, column)


def transposed(block):
    """Take a block that another worker made, and return its transpose: here it travels between workers."""
    return block.T.copy()


def main(marker):
    """Compute with two workers."""
    a, b, _ = blocks.matrices()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        left, right = client.scatter([blocks.blocks_of(a)])[0].result(), blocks.blocks_of(b)
        rows = range(blocks.SIZE // blocks.BLOCK)
        found = {}
        for i in rows:
            for j in rows:
                row, column = [left[i, k] for k in rows], [right[k, j] for k in rows]
                made = client.submit(product_of, row, column, 3 * i + j, marker, pure=False)
                found[i, j] = client.submit(transposed, made, pure=False)
        totals = client.map(blocks.total_of, range(blocks.CHUNKS), pure=False)
        product = blocks.assembled({place: block.download() for place, block in client.gather(found).items()})
        blocks.check(_transposed_blocks(product), sum(client.gather(totals)), marker)


def _transposed_blocks(product):
    n = blocks.BLOCK
    for i in range(0, blocks.SIZE, n):
        for j in range(0, blocks.SIZE, n):
            product[i : i + n, j : j + n] = product[i : i + n, j : j + n].T.copy()
    return product


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(os.path.join(folder, "lost"))
