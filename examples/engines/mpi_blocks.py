"""Distribute kernels with MPI: each rank computes its share, and sends arrays on the device to rank 0.

On a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/engines/mpi_blocks.py

It needs numpy, mpi4py and an implementation of MPI, and starts mpiexec itself. MPI repeats nothing: if a rank dies, it
ends all others. So each rank stores the blocks that it has finished, and the run is repeated until all blocks exist.
"""

import os
import subprocess
import sys
import tempfile

import blocks
import numpy

RANKS = 3


def run(folder):
    """Compute this rank's share of what is missing."""
    from mpi4py import MPI

    from rawcuda.integrations import mpi

    comm = MPI.COMM_WORLD
    device, _, _ = blocks.kernels()
    a, b, _ = blocks.matrices()
    left, right, rows = blocks.blocks_of(a), blocks.blocks_of(b), range(blocks.SIZE // blocks.BLOCK)
    places = [(i, j) for i in rows for j in rows]
    mine = [place for number, place in enumerate(places) if number % comm.size == comm.rank]
    for i, j in mine:
        if (i, j) == (1, 1):
            blocks.end_once(os.path.join(folder, "lost"))
        if comm.rank and os.path.exists(stored(folder, i, j)):
            continue
        made = blocks.product_of([left[i, k] for k in rows], [right[k, j] for k in rows])
        store(stored(folder, i, j), made.download())
    for i, j in places:  # rank 0 receives each block into the memory of its device
        owner = places.index((i, j)) % comm.size
        if owner and comm.rank == owner:
            with mpi.buffer(device.upload(numpy.load(stored(folder, i, j))), comm, "send") as data:
                comm.Send(data, dest=0)
        if owner and comm.rank == 0:
            there = device.empty((blocks.BLOCK, blocks.BLOCK), "float32")
            with mpi.buffer(there, comm, "receive") as data:
                comm.Recv(data, source=owner)
            store(stored(folder, i, j), there.download())
    ours = sum(blocks.total_of(number) for number in range(comm.rank, blocks.CHUNKS, comm.size))
    total = comm.allreduce(ours)
    if comm.rank == 0:
        product = blocks.assembled({place: numpy.load(stored(folder, *place)) for place in places})
        blocks.check(product, total, os.path.join(folder, "lost"))


def stored(folder, i, j):
    """Return the file of a block."""
    return os.path.join(folder, f"{i}-{j}.npy")


def store(path, block):
    """Write a block. The file gets its name only when it is complete."""
    with open(f"{path}.{os.getpid()}", "wb") as file:
        numpy.save(file, numpy.asarray(block))
    os.replace(file.name, path)


def main():
    """Start the ranks, and start them again if one of them dies."""
    with tempfile.TemporaryDirectory() as folder:
        mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
        mpiexec = mpiexec if os.path.exists(mpiexec) else "mpiexec"
        for _ in range(5):
            command = [mpiexec, "-n", str(RANKS), sys.executable, os.path.abspath(__file__), folder]
            result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if not result.returncode:
                print(result.stdout, end="")
                return
        sys.exit(f"the ranks failed five times: {result.stdout}{result.stderr}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        main()
