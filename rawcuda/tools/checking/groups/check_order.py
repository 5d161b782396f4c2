"""The rows about order: what waits for what, on streams, by events, and by functions of the host.

What it is   the group "order". A host function that sleeps delays a stream. If other work does not wait for the stream,
             the result is wrong, both on a GPU and on the emulator in its lazy mode.
What not     how long anything takes.
Read next    check_exchange.py
"""

from __future__ import annotations

import ctypes
import threading
import time
from array import array

from ....driver import current
from ....gpu.streams.stream import Stream
from ....headers import cuda_h
from ..rows import Given, expect, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []

_SLEEP = 0.02  # seconds


def _behind(given: Given, first: Any, second: Any, wait: Any) -> None:
    """Fill memory late on one stream, let another stream wait and copy the memory, and compare."""
    source, target = (given.device.empty(1000, "int32").fill(0) for _ in range(2))
    given.device.synchronize()
    first.call(time.sleep, _SLEEP)
    source.fill(5, stream=first)
    wait()
    given.kernel("nothing").launch(grid=1, block=1, stream=second)
    target.reinterpret("uint8").copy_from(_Unordered(source), stream=second)
    second.synchronize()
    expect("what the second stream copied", target.tolist(), [5] * 1000)
    first.synchronize()


class _Unordered:
    """Memory that does not say on which stream it was written, so that only the row's own waiting orders the work."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self.__cuda_array_interface__ = {
            "shape": (view.nbytes,),
            "typestr": "|u1",
            "data": (view.ptr, False),
            "version": 3,
            "stream": None,
        }


@row("order", "work on one stream")
def _one(given: Given) -> None:
    with given.device.stream() as stream:
        _behind(given, stream, stream, lambda: None)


@row("order", "a stream that waits for an event")
def _event(given: Given) -> None:
    with given.device.stream() as first, given.device.stream() as second, given.device.event() as event:

        def wait() -> None:
            event.record(first)
            second.wait(event)

        _behind(given, first, second, wait)


@row("order", "a stream that waits for a stream")
def _stream(given: Given) -> None:
    with given.device.stream() as first, given.device.stream() as second:
        _behind(given, first, second, lambda: second.wait(first))


@row("order", "the legacy default stream waits")
def _legacy(given: Given) -> None:
    with given.device.current(), given.device.stream(nonblocking=False) as first:
        _behind(given, first, Stream.legacy, lambda: None)


@row("order", "the host waits for an event")
def _host(given: Given) -> None:
    with given.device.stream() as stream, given.device.event() as event:
        heard: list[int] = []
        go = threading.Event()
        stream.call(go.wait, 10)  # seconds
        stream.call(heard.append, 1)
        event.record(stream)
        expect("the states of the stream and the event before", [stream.query(), event.query()], [False, False])
        go.set()
        event.synchronize()
        expect("the calls before the event", heard, [1])
        expect("the event's state", event.query(), True)


@row("order", "functions of the host, in order")
def _calls(given: Given) -> None:
    with given.device.stream() as stream:
        heard: list[int] = []
        for number in range(5):
            stream.call(heard.append, number)
        stream.synchronize()
        expect("the calls", heard, list(range(5)))


@row("order", "time between events")
def _timing(given: Given) -> str:
    with given.device.stream() as stream, given.device.event(timing=True) as a, given.device.event(timing=True) as b:
        a.record(stream)
        stream.call(time.sleep, _SLEEP)
        b.record(stream)
        b.synchronize()
        elapsed = b.elapsed_ms(since=a)
    if not _SLEEP * 500 < elapsed < 1e6:  # half of it: the clocks of the host and of the device may differ
        raise AssertionError(f"{elapsed} ms passed on the device while a function slept for {_SLEEP * 1000:.0f} ms")
    return f"{elapsed:.1f} ms"


@row("order", "values in memory", since=11070)
def _values(given: Given) -> None:
    flag = given.device.upload(array("I", [0]))
    with given.device.stream() as first, given.device.stream() as second:

        def wait() -> None:
            first.write_value(flag[0], 1)
            second.wait_value(flag[0], 1)

        _behind(given, first, second, wait)
    expect("the value", flag.tolist(), [1])


@row("order", "memory that is closed while in use")
def _closed(given: Given) -> None:
    back = array("i", bytes(4000))
    with given.device.stream() as stream:
        pinned, memory = given.device.allocate(4000, kind="pinned"), given.device.allocate(4000)
        stream.call(time.sleep, _SLEEP)
        memory.fill(1, stream=stream)
        pinned.copy_from(memory, stream=stream)
        memory.close()  # waits, or frees in stream order
        given.device.allocate(4000).fill(2).close()
        stream.synchronize()
        pinned.copy_to(back)
        pinned.close()
    expect("what was copied before", back.tolist(), [0x01010101] * 1000)


@row("order", "exports that are dropped while in use", needs="MEMORY_POOLS_SUPPORTED", since=11020)
def _dropped(given: Given) -> None:
    """Another library uses the memory on a stream of its own, which is not known here unless the export named it."""
    driver, theirs = current(), cuda_h.CUstream()
    with given.device.current():
        driver.cuStreamCreate(ctypes.byref(theirs), 1)  # CU_STREAM_NON_BLOCKING
    for form in ("a capsule for this stream", "a lease"):
        with given.device.stream() as stream:
            memory, back = given.device.allocate(4000, stream=stream), given.device.allocate(4000, kind="pinned")
            memory.fill(1, stream=stream)
            back.fill(0)
            given.device.synchronize()
            held: Any = memory.lease() if form == "a lease" else memory.view().__dlpack__(stream=theirs.value)
            Stream.from_handle(theirs.value).call(time.sleep, _SLEEP)
            with given.device.current():
                driver.cuMemcpyDtoHAsync_v2(back.ptr, memory.ptr, 4000, theirs)
            memory.close()
            del held
            again = given.device.allocate(4000, stream=stream)
            again.fill(2, stream=stream)
            stream.synchronize()
            with given.device.current():
                driver.cuStreamSynchronize(theirs)
            expect(f"what was copied, with {form}", back.view("uint8").tolist(), [1] * 4000)
            again.close()
            back.close()
    with given.device.current():
        driver.cuStreamDestroy_v2(theirs)
