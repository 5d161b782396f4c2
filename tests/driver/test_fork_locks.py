"""A child of fork() does not wait for a lock that another thread of its parent held; reset() in a host function."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conftest import Python
from tests.subject import rawcuda

FORK = """
import io, os, signal, threading, time, traceback, warnings
import numpy
from tests.subject import module, rawcuda
warnings.simplefilter("ignore")  # about fork() in a process with threads
device, source = rawcuda.Device(0), numpy.arange(8, dtype="f4")
stream, graph = device.stream(), device.graph()
rawcuda.view(source.__dlpack__()).tolist()
names = {
    "dlpack": ("taking", "_beginning"), "driver": ("_lock",), "gpu.core.handles": ("destroying",),
    "gpu.core.points": ("beginning",), "gpu.core.reservation": ("_undoing",), "gpu.devices.peers": ("_lock",),
    "gpu.devices.ranges": ("_lock",), "tools.trace_forms": ("_writing",),
}
locks = [getattr(module(each), name) for each in names for name in names[each]]
graph.empty(), graph.close()
graph = device.graph()
graph.empty()
reserved = device.virtual_memory(1, reserve=1 << 22)
locks += [graph._lock, reserved._lock, device._primary._lock]
held, end = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set(), end.wait()
    for lock in locks:
        lock.release()

thread = threading.Thread(target=hold)
thread.start(), held.wait()
child = os.fork()
if not child:
    signal.alarm(20)  # ends the child if it waits
    code = 1
    try:
        with rawcuda.trace(io.StringIO()):
            assert rawcuda.view(source.__dlpack__()).tolist() == source.tolist()
        assert numpy.from_dlpack(rawcuda.view(source)).tolist() == source.tolist()
        stream.close()
        for call in (
            lambda: stream.capture().__enter__(), device.stream, lambda: device.allocate(4), graph.empty,
            lambda: reserved.grow(1 << 22), lambda: rawcuda.Device(1),
        ):
            try:
                call()
            except (rawcuda.ForkedAfterInit, rawcuda.Closed):
                pass
            else:
                raise AssertionError(f"{call} was accepted")
        code = 0
    finally:
        traceback.print_exc()
        os._exit(code)
print(os.waitpid(child, 0)[1])
end.set(), thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
def test_a_child_does_not_wait_for_locks_of_its_parent(python: Python) -> None:
    pytest.importorskip("numpy")
    result = python(FORK)
    assert result.stdout == "0\n", result.stderr


def test_a_reset_in_a_host_function_closes_nothing(device: Any) -> None:
    memory, stream = device.allocate(64), device.stream()
    caught: list[Exception] = []

    def work() -> None:
        try:
            device.reset(force=True)
        except rawcuda.InvalidUse as error:
            caught.append(error)

    stream.call(work)
    stream.synchronize()
    assert "a host function must not call Device.reset()" in str(caught[0])
    assert not memory.closed and not stream.closed
    memory.fill(1, stream=stream)
    stream.synchronize()
    assert memory.view().tolist()[0] == 1
    stream.close(), memory.close()
