"""The operations of the load, as often in 8 threads together as in one thread after the other, and both times.

    python3 -m tests.load.threads [ROUNDS] [REPEATS] [--minutes MINUTES]

Each of 8 workers does ROUNDS operations (200 if not given), which its seed chooses, and compares its results. First one
thread does the work of all 8, then 8 threads do the same work; REPEATS times (3), or until the 8 threads have worked
for MINUTES in total. The report is printed as JSON: the operations in each way, the seconds and those of processors,
the ratios of both, and what is left at the end. This is meant for free-threaded Python (PYTHON_GIL=0), where only the
package's own locks keep threads apart, and works on every Python.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.load.worker import Load, Worker, settle
from tests.subject import module, rawcuda

THREADS = 8


class Thorough(Worker):
    """The operations of the load, and those on what all threads share."""

    shared = bytearray(range(256))

    def do_exchange_on_the_host(self, device: Any) -> None:
        view = rawcuda.view(self.shared)
        for version in (1, 0), None:
            again = rawcuda.view(view[3:67:2].__dlpack__(max_version=version))
            assert again.tolist() == list(range(3, 67, 2))
            del again
            view.__dlpack__(max_version=version)  # nobody consumes it
        assert bytes(view.memoryview()[250:]) == bytes(range(250, 256))

    def do_drop_a_capsule_under_an_exception(self, device: Any) -> None:
        def fail() -> None:
            capsule = rawcuda.view(self.shared).__dlpack__()
            raise KeyError(type(capsule).__name__)

        try:
            fail()
        except KeyError as error:
            assert error.args == ("PyCapsule",)

    def do_launch_one_kernel_with_arguments_of_all_kinds(self, device: Any) -> None:
        kernel = self.load.modules[self.at]["step"]
        cell = device.empty(1, "uint32").fill(3)
        kernel.launch(cell, 4, grid=1, block=1)
        kernel.launch(rawcuda.view(cell), 5, grid=1, block=1)
        kernel.launch(cell.owner, 6, grid=1, block=1)
        assert cell.tolist() == [3456]

    def do_read_what_is_looked_up_late(self, device: Any) -> None:
        kernel = self.load.modules[self.at]["step"]
        assert kernel.parameters and device.name and device.compute_capability
        assert rawcuda.devices()[self.at].ordinal == self.at
        assert rawcuda.cu.CUdevice_attribute is not None


def work(worker: Worker, rounds: int) -> None:
    """Do a number of operations; an error is kept for the report, and ends the work of all."""
    for _ in range(rounds):
        if worker.load.errors:
            return
        try:
            worker.round()
        except BaseException:
            worker.load.errors.append(traceback.format_exc()[-3000:])


def one_after_the_other(load: Load, rounds: int, seed: int) -> None:
    for number in range(THREADS):
        work(Thorough(load, seed + number), rounds)


def together(load: Load, rounds: int, seed: int) -> None:
    workers = [Thorough(load, seed + number) for number in range(THREADS)]
    threads = [threading.Thread(target=work, args=(worker, rounds), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
        if thread.is_alive():
            load.errors.append(f"{thread.name} hangs")


def measured(way: Callable[[Load, int, int], None], *arguments: Any) -> tuple[float, float]:
    """Return the seconds that work takes, and those of processors: the first depend on what else the machine does."""
    gc.collect()
    started, busy = time.perf_counter(), time.process_time()
    way(*arguments)
    return round(time.perf_counter() - started, 2), round(time.process_time() - busy, 2)


def main() -> None:
    """Do the work in both ways, and print the report."""
    parser = argparse.ArgumentParser("python3 -m tests.load.threads")
    parser.add_argument("rounds", nargs="?", type=int, default=200)
    parser.add_argument("repeats", nargs="?", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0)
    given = parser.parse_args()
    rounds = given.rounds
    library = module("emulator").Emulator(devices=2)
    rawcuda.use(library)
    load = Load(library)
    first = Thorough(load, -1)
    for first.at in range(len(load.devices)):
        for name in first.names:  # what is imported and loaded once is not measured
            getattr(first, name)(load.devices[first.at])
    together(load, rounds, -100)  # the emulator's list of what was freed is full afterwards, which slows it down
    alone: list[tuple[float, float]] = []
    in_threads: list[tuple[float, float]] = []
    while not load.errors and (
        sum(seconds for seconds, _ in in_threads) < 60 * given.minutes
        if given.minutes
        else len(in_threads) < given.repeats
    ):
        seed = 100 * len(in_threads)
        alone.append(measured(one_after_the_other, load, rounds, seed))
        in_threads.append(measured(together, load, rounds, seed))
    while load.handed:
        load.handed.popleft().close()
    for loaded in load.modules:
        loaded.close()
    settle(load)
    for primary in module("gpu.core.context")._contexts.values():
        primary.forget()
    left = {kind: count for kind, count in library.live_handles().items() if count and kind != "context"}
    report = {
        "python": sys.version.split()[0],
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "operations": THREADS * rounds * len(in_threads),
        "one after the other": alone,
        "together": in_threads,
        "ratio": [round(sum(both) / sum(one), 2) for one, both in zip(zip(*alone), zip(*in_threads))],
        "errors": load.errors,
        "left": left,
        "exports": len(module("dlpack").outstanding),
    }
    print(json.dumps(report), flush=True)
    os._exit(1 if load.errors else 0)  # a thread that hangs is in the report


if __name__ == "__main__":
    main()
