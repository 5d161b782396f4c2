"""Measure how fast arrays travel between Dask's workers, and to the client: NumPy's and ours, in turn.

    PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 benchmarks/between_workers.py [ROUNDS] [MIB]

It needs numpy and distributed. Two workers on this machine hold arrays of random numbers. "worker to worker": a task on
one of them uses arrays of the other. "gather": the client gets them, through the scheduler. In each round every kind of
array is sent once, in another order; the result is the median of the rounds, and of the ratios to NumPy's in the same
round.
"""

import statistics
import sys
import time

import numpy
from dask.distributed import Client, LocalCluster, wait

import rawcuda
import rawcuda.integrations.dask  # noqa: F401

ROUNDS, MIB = (int(sys.argv[1:][at]) if len(sys.argv) > at + 1 else usual for at, usual in enumerate((9, 64)))


def ndarray(number, seed):
    """Make NumPy's array."""
    return numpy.random.default_rng(seed).random(number, "float32")


def host_view(number, seed):
    """Make a view of host memory."""
    return rawcuda.view(ndarray(number, seed))


def device_view(number, seed):
    """Make an array on the device, which the emulator keeps on the host."""
    return rawcuda.Device(0).upload(ndarray(number, seed))


def length(array):
    """Use an array."""
    return array.shape[0]


def measure(client, make, seed):
    """Return the rates in MB/s, worker to worker and gather."""
    here, there = list(client.scheduler_info()["workers"])
    number = MIB << 18
    made = [client.submit(make, number, seed + i, workers=[here], pure=False) for i in range(2)]
    wait(made)
    began = time.perf_counter()
    wait([client.submit(length, each, workers=[there], pure=False) for each in made])
    between = time.perf_counter() - began
    del made
    made = [client.submit(make, number, seed + i, workers=[here], pure=False) for i in range(2)]
    wait(made)
    began = time.perf_counter()
    found = client.gather(made)
    gathered = time.perf_counter() - began
    assert found[1].shape == (number,)
    return 8 * number / between / 1e6, 8 * number / gathered / 1e6


def main():
    """Print the table."""
    kinds = [ndarray, host_view, device_view]
    rates = {kind.__name__: [] for kind in kinds}
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            for turn in range(ROUNDS + 1):  # the first round is not counted
                for kind in kinds[turn % 3 :] + kinds[: turn % 3]:
                    found = measure(client, kind, turn)
                    if turn:
                        rates[kind.__name__].append(found)
    for column, name in enumerate(("worker to worker", "gather")):
        plain = [each[column] for each in rates["ndarray"]]
        for kind, each in rates.items():
            ours = [rate[column] for rate in each]
            ratio = statistics.median(one / other for one, other in zip(ours, plain))
            print(f"{name:18} {kind:12} {statistics.median(ours):6.0f} MB/s   {ratio:5.2f} of NumPy's")


if __name__ == "__main__":
    main()
