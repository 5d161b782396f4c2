"""Share memory on a device with another process, which waits for an event before it uses the memory.

From the checkout:            PYTHONPATH=. python3 examples/shared_memory.py
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/shared_memory.py

The handles are arguments of the other process, so they are sent as pickles. Both processes use the same bytes. The end
of the with block waits until the other process has closed them. This needs Linux.
"""

import multiprocessing
import sys

import rawcuda


def work(handle, ready, done):
    """Wait for the work of the first process, change its memory, and record an event for which it waits."""
    with rawcuda.Memory.from_handle(handle) as memory, rawcuda.Event.from_handle(ready) as first:
        with rawcuda.Event.from_handle(done) as second:
            stream = memory.device.stream()
            stream.wait(first)
            memory.view("float32")[:1].fill(42, stream=stream)
            second.record(stream)
            stream.synchronize()


def main():
    """Share an array and two events."""
    device = rawcuda.Device(0)
    stream, memory = device.stream(), device.allocate(4096)
    ready, done = device.event(shareable=True), device.event(shareable=True)
    memory.view("float32").fill(1, stream=stream)
    ready.record(stream)
    with memory.share(timeout=60) as handle, ready.share() as first, done.share() as second:
        process = multiprocessing.get_context("spawn").Process(target=work, args=(handle, first, second))
        process.start()
        process.join()
        stream.wait(done)
    stream.synchronize()
    assert memory.view("float32")[:2].tolist() == [42.0, 1.0]
    print("the other process has changed the first element")


if __name__ == "__main__":
    if sys.platform.startswith("linux"):
        main()
    else:
        print("sharing between processes needs Linux")
