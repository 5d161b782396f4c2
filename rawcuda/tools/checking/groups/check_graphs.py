"""The rows about graphs: captured, built by hand, changed, and launched again.

What it is   the group "graphs".
What not     conditions, which need code for newer devices.
Read next    check_order.py
"""

from __future__ import annotations

import ctypes
import time
from array import array
from ctypes import byref

from ....driver import current
from ....errors import CudaError
from ....headers import cuda_h
from .. import check_kernels
from ..rows import Given, expect, floats, in_thread, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


@row("graphs", "captured from a stream")
def _captured(given: Given) -> None:
    x = given.device.upload(floats(100))
    with given.device.stream() as stream:
        with stream.capture() as graph:
            given.kernel("scale").launch(x, 2.0, 100, grid=1, block=64, stream=stream)
        expect("before a launch", x.tolist(), floats(100).tolist())
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
        graph.close()
    expect("after three launches", x.tolist(), [8 * each for each in floats(100)])


@row("graphs", "captured from two streams")
def _two(given: Given) -> None:
    x = given.device.empty(1, "uint32").fill(0)
    given.device.synchronize()
    with given.device.stream() as one, given.device.stream() as two:
        with one.capture() as graph:
            x.fill(1, stream=one)
            two.wait(one)
            given.kernel("count").launch(x, grid=1, block=5, stream=two)
            one.wait(two)
            given.kernel("count").launch(x, grid=1, block=4, stream=one)
        graph.launch(one)
        one.synchronize()
        graph.close()
    expect("the count", x.tolist(), [10])


@row("graphs", "built by hand")
def _built(given: Given) -> None:
    x, back = given.device.upload(array("I", [3])), array("I", [0])
    with given.device.graph() as graph, given.device.stream() as stream:
        cleared = graph.fill(x, 100)
        counted = graph.kernel(given.kernel("count"), x, grid=2, block=16, after=cleared)
        graph.copy(back, x, after=counted)
        graph.launch(stream)
        stream.synchronize()
    expect("what the graph copied", back.tolist(), [132])


@row("graphs", "changed between launches")
def _changed(given: Given) -> None:
    x = given.device.empty(1, "uint32").fill(0)
    given.device.synchronize()
    with given.device.graph() as graph, given.device.stream() as stream:
        filled = graph.fill(x, 1)
        graph.kernel(given.kernel("count"), x, grid=1, block=1, after=filled)
        graph.launch(stream)
        stream.synchronize()
        expect("the first launch", x.tolist(), [2])
        filled.update(x, 50)
        graph.launch(stream)
        stream.synchronize()
    expect("the second launch", x.tolist(), [51])


@row("graphs", "memory of a graph", needs="MEMORY_POOLS_SUPPORTED", since=11040)
def _memory(given: Given) -> None:
    out = given.device.empty(1, "uint32").fill(0)
    given.device.synchronize()
    with given.device.graph() as graph, given.device.stream() as stream:
        memory = graph.allocate(4)
        view = memory.memory.view("uint32")
        filled = graph.fill(view, 11, after=memory)
        copied = graph.copy(out, view, after=filled)
        graph.free(memory, after=copied)
        graph.launch(stream)
        stream.synchronize()
    expect("what was copied from it", out.tolist(), [11])


@row("graphs", "code that is loaded in a capture")
def _loaded(given: Given) -> None:
    """The capture has the first launch of a kernel, and a strided copy of a shape that no other row copies."""
    x, source = given.device.upload(floats(100)), given.device.empty((2, 3, 2, 3, 2, 3), "int16").fill(7)
    target = given.device.empty((3, 2, 3, 2, 3, 2), "int16").fill(0)
    given.device.synchronize()
    with given.device.stream() as stream:
        with stream.capture("global") as graph:
            module = given.device.load(check_kernels.SOURCE)
            module["scale"].launch(x, 2.0, 100, grid=1, block=64, stream=stream)
            target.copy_from(source.transpose((5, 4, 3, 2, 1, 0)), stream=stream)
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        module.close()
    expect("what the kernel wrote", x.tolist(), [2 * each for each in floats(100)])
    expect("what was copied", target.reshape(-1).tolist(), [7] * 216)


@row("graphs", "an event that is asked in a capture")
def _asked(given: Given) -> None:
    x = given.device.empty(1, "uint32").fill(0)
    given.device.synchronize()
    with given.device.stream() as one, given.device.stream() as two, given.device.event() as event:
        event.record(two)
        two.synchronize()
        with one.capture("global") as graph:
            x.fill(3, stream=one)
            expect("whether the event is reached, for the thread that captures", event.query(), True)
            expect("whether it is reached, for another thread", in_thread(event.query), True)
        graph.launch(one)
        one.synchronize()
        graph.close()
    expect("what the graph wrote", x.tolist(), [3])


@row("graphs", "memory that is closed in a capture", needs="MEMORY_POOLS_SUPPORTED", since=11020)
def _closed(given: Given) -> None:
    with given.device.stream() as stream, given.device.stream() as other, given.device.event() as event:
        memory, back = given.device.allocate(4000, stream=stream), given.device.allocate(4000, kind="pinned")
        memory.fill(1, stream=stream)
        back.fill(0)
        given.device.synchronize()
        stream.call(time.sleep, 0.02)
        back.copy_from(memory, stream=stream)
        event.record(stream)
        with stream.capture() as graph:
            back.fill(3, stream=stream)
            memory.close()  # the copy to the host is still to come
            again = given.device.allocate(4000, stream=other)
            again.fill(2, stream=other)
        other.synchronize()
        event.synchronize()
        expect("what was copied before the capture", back.view("uint8").tolist(), [1] * 4000)
        graph.launch(stream)
        stream.synchronize()
        expect("what the graph wrote", back.view("uint8").tolist(), [3] * 4000)
        for each in (graph, again, back):
            each.close()


@row("graphs", "what a capture refuses", since=11000)
def _refused(given: Given) -> str:
    """Ask which calls are refused in a capture; drivers may differ, but the next capture must work with all of them."""
    driver, stream, event = current(), cuda_h.CUstream(), cuda_h.CUevent()
    x, graph = given.device.empty(1, "uint32").fill(0), cuda_h.CUgraph()
    new = cuda_h.CUdeviceptr(), ctypes.c_void_p(), cuda_h.CUmodule(), cuda_h.CUstream(), cuda_h.CUevent()
    memory, host, module, made_stream, made_event = new
    text, free, total = check_kernels.SOURCE.encode() + b"\0", ctypes.c_size_t(), ctypes.c_size_t()
    calls: dict[str, tuple[Any, ...]] = {
        "cuMemAlloc_v2": (byref(memory), 256),
        "cuMemFree_v2": (memory,),
        "cuMemHostAlloc": (byref(host), 256, 0),
        "cuMemFreeHost": (host,),
        "cuModuleLoadData": (byref(module), ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p)),
        "cuModuleUnload": (module,),
        "cuStreamCreate": (byref(made_stream), 1),
        "cuStreamDestroy_v2": (made_stream,),
        "cuEventCreate": (byref(made_event), 0),
        "cuEventDestroy_v2": (made_event,),
        "cuEventQuery": (event,),
        "cuEventSynchronize": (event,),
        "cuStreamQuery": (stream,),
        "cuStreamSynchronize": (stream,),
        "cuCtxSynchronize": (),
        "cuMemcpyDtoD_v2": (x.ptr, x.ptr, 4),
        "cuMemsetD8_v2": (x.ptr, 0, 4),
        "cuMemGetInfo_v2": (byref(free), byref(total)),
    }
    with given.device.current():
        driver.cuStreamCreate(byref(stream), 1)  # CU_STREAM_NON_BLOCKING
        driver.cuEventCreate(byref(event), 2)  # CU_EVENT_DISABLE_TIMING
        driver.cuEventRecord(event, None)
        driver.cuCtxSynchronize()
        for symbol, arguments in calls.items():
            driver.cuStreamBeginCapture_v2(stream, 0)  # CU_STREAM_CAPTURE_MODE_GLOBAL
            given.ask(f"{symbol} in a capture", symbol, *arguments)
            try:
                driver.cuStreamEndCapture(stream, byref(graph))
                driver.cuGraphDestroy(graph)
            except CudaError:  # the call broke the capture
                pass
            if given.answers[f"{symbol} in a capture"]:  # what it was to make or release is needed by the next call
                driver[symbol](*arguments)
        driver.cuStreamDestroy_v2(stream)
        driver.cuEventDestroy_v2(event)
        driver.cuCtxSynchronize()
    with given.device.stream() as ours, ours.capture("global") as afterwards:
        x.fill(7, stream=ours)
    with given.device.stream() as ours:
        afterwards.launch(ours)
        ours.synchronize()
        afterwards.close()
    expect("what a graph wrote that was captured afterwards", x.tolist(), [7])
    return f"{sum(map(bool, given.answers.values()))} of {len(calls)} calls"


@row("graphs", "functions of Python")
def _callback(given: Given) -> None:
    heard: list[str] = []
    with given.device.graph() as graph, given.device.stream() as stream:
        first = graph.callback(heard.append, "one")
        graph.callback(heard.append, "two", after=first)
        graph.launch(stream)
        stream.synchronize()
    expect("the calls", heard, ["one", "two"])
