"""The rows about graphs: captured, built by hand, changed, and launched again.

What it is   the group "graphs".
What not     conditions, which need code for newer devices.
Read next    order.py
"""

from __future__ import annotations

from array import array

from ..rows import Given, expect, floats, row

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


@row("graphs", "functions of Python")
def _callback(given: Given) -> None:
    heard: list[str] = []
    with given.device.graph() as graph, given.device.stream() as stream:
        first = graph.callback(heard.append, "one")
        graph.callback(heard.append, "two", after=first)
        graph.launch(stream)
        stream.synchronize()
    expect("the calls", heard, ["one", "two"])
