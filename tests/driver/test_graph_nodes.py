"""Graphs that are built by hand: what each kind of node does, edges, and the objects that nodes keep."""

import array
import contextlib
import copy
import ctypes
import gc
import importlib
import os
import pickle
import sys
import tempfile
import threading
import time
import types
import weakref

import pytest

from tests.driver import graph_kernels, kernels
from tests.null.producers import Exporter, Tensor
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def step(device):
    with device.load(graph_kernels.STEP) as loaded:
        yield loaded["step"].configure(grid=1, block=1)


@pytest.fixture
def word(device):
    made = device.upload(array.array("I", [0]))
    yield made
    made.owner.close()  # (pytest keeps the array)


@pytest.fixture
def graph(device):
    with device.graph() as made:
        yield made


def floats(device, *numbers):
    return device.upload(array.array("f", numbers))


def run(graph, device, times=1):
    device.synchronize()  # what was queued on the default stream comes first
    with device.stream() as stream:
        for _ in range(times):
            graph.launch(stream)
        stream.synchronize()


# -- kinds of nodes


def test_a_kernel_node_takes_its_arguments_when_it_is_added(device, graph):
    with device.load(kernels.ADD) as loaded:
        a, b, c = floats(device, 1, 2), floats(device, 10, 20), floats(device, 0, 0)
        by_launch = graph.kernel(loaded["add"].configure(grid=1, block=32), a, b, c, 2)
        by_kernel = graph.kernel(loaded["add"], c, c, c, 2, grid=1, block=32, after=by_launch)
        assert (by_launch.kind, by_launch.label, by_launch.number) == ("kernel", "add", 0)
        assert by_kernel.pred == [by_launch] and by_launch.succ == [by_kernel]
        assert c.tolist() == [0, 0]
        run(graph, device)
        assert c.tolist() == [22, 44]


def test_arrays_of_other_libraries_are_ready_when_the_node_is_added(device, graph, step, word):
    """A node has no stream, whatever stream its Launch was configured for."""
    with device.stream() as stream:
        launch = step.kernel.configure(grid=1, block=1, stream=stream)
        exporter = Exporter(Tensor(word.ptr, shape=(1,), dtype=(1, 32, 1), device=(2, 0)))
        graph.kernel(launch, exporter, 7)
    assert exporter.asked == [{"max_version": (1, 3), "stream": 1}]  # that of the wait in graph.kernel()
    run(graph, device)
    assert word.tolist() == [7]


def test_order_is_that_of_the_edges(device, graph, step, word):
    third = graph.kernel(step, word, 3)
    second = graph.kernel(step, word, 2)
    first = graph.kernel(step, word, 1)
    graph.add_edge(first, second)
    graph.add_edge(second, third)
    run(graph, device)
    assert word.tolist() == [123]
    assert set(graph.edges) == {(second, third), (first, second)}


def test_several_dependencies(device, graph, word, step):
    start = graph.fill(word, 0)
    branches = [graph.copy(device.empty(1, "uint32"), word, after=start) for _ in range(3)]
    last = graph.kernel(step, word, 7, after=iter(branches))
    assert last.pred == branches and start.succ == branches
    joined = graph.join(*branches)
    assert joined.kind == "empty" and joined.pred == branches
    run(graph, device)
    assert word.tolist() == [7]


def test_copies_of_every_layout(device, graph):
    source = device.upload(array.array("i", range(24))).reshape(2, 3, 4)
    targets = {
        "whole": (device.empty((2, 3, 4), "int32"), source),
        "rows": (device.empty((2, 3, 2), "int32"), source[:, :, :2]),
        "columns": (device.empty((2, 2), "int32"), source[:, 0, ::3]),
        "transposed": (device.empty((4, 3, 2), "int32"), source.T),
        "broadcast": (device.empty((5, 4), "int32"), source[0, 0]),
        "number": (device.empty((), "int32"), source[1, 1, 1]),
    }
    for target, part in targets.values():
        target.fill(-1)
        graph.copy(target, part)
    run(graph, device)
    whole = [[[12 * i + 4 * j + k for k in range(4)] for j in range(3)] for i in range(2)]
    got = {name: target.tolist() for name, (target, _) in targets.items()}
    assert got == {
        "whole": whole,
        "rows": [[row[:2] for row in plane] for plane in whole],
        "columns": [[plane[0][0], plane[0][3]] for plane in whole],
        "transposed": [[[whole[i][j][k] for i in range(2)] for j in range(3)] for k in range(4)],
        "broadcast": [whole[0][0]] * 5,
        "number": 17,
    }


def test_a_copy_reads_host_memory_in_each_launch(device, graph):
    source, target, result = array.array("i", [1, 2, 3]), device.empty(3, "int32"), array.array("i", [0, 0, 0])
    first = graph.copy(target, source)
    graph.copy(result, target, after=first)
    for numbers in ([1, 2, 3], [7, 8, 9]):
        source[:] = array.array("i", numbers)
        run(graph, device)
        assert result.tolist() == numbers


def test_memory_is_copied_as_bytes(device, graph):
    with device.allocate(8) as one, device.allocate(8, kind="pinned") as two:
        one.fill(3)
        graph.copy(two, one)
        run(graph, device)
        assert bytes(two.view().memoryview()) == b"\3" * 8


@pytest.mark.parametrize(
    "dtype, value", [("uint8", 5), ("int16", -2), ("float32", 1.5), ("float64", 0.1), ("complex128", 1 + 2j)]
)
def test_fills(device, graph, dtype, value):
    whole, part = device.empty((4, 6), dtype), device.empty((4, 6), dtype)
    strange = device.empty((4, 6), dtype)
    for each in (whole, part, strange):
        each.fill(0)
    graph.fill(whole, value)
    graph.fill(part[:, :2], value)
    graph.fill(strange[::2, ::3], value)
    run(graph, device)
    assert whole.tolist() == [[value] * 6] * 4
    assert part.tolist() == [[value] * 2 + [0] * 4] * 4
    assert strange.tolist() == [[value, 0, 0] * 2, [0] * 6] * 2


def test_callbacks(device, graph, word, step):
    seen = []
    first = graph.callback(lambda: seen.append("first"))
    second = graph.kernel(step, word, 1, after=first)
    graph.callback(lambda: seen.append("last"), after=second)
    run(graph, device, 2)
    assert seen == ["first", "last"] * 2 and word.tolist() == [11]


def test_what_a_callback_raises_is_raised_by_the_next_wait(device, graph):
    def fail(word):
        raise KeyError(word)

    done = []
    graph.callback(done.append, 1, after=graph.callback(fail, "callback"))
    with device.stream() as stream:
        for _ in range(2):
            graph.launch(stream)
            with pytest.raises(KeyError, match="callback"):
                stream.synchronize()
        stream.synchronize()
    assert done == [1, 1]


def test_events(device, graph, word, step):
    with device.event() as inside, device.event() as before, device.stream() as stream, device.stream() as other:
        word.fill(1, stream=other)
        before.record(other)
        waited = graph.wait(before)
        recorded = graph.record(inside, after=graph.kernel(step, word, 2, after=waited))
        assert (waited.kind, recorded.kind) == ("wait", "record")
        graph.launch(stream)
        other.wait(inside)
        copied = device.empty(1, "uint32")
        copied.copy_from(word, stream=other)
        other.synchronize()
        assert copied.tolist() == [12]
        stream.synchronize()


def test_a_child_graph(device, graph, word, step):
    with device.graph() as inner:
        first = inner.kernel(step, word, 2)
        inner.kernel(step, word, 3, after=first)
        before = graph.kernel(step, word, 1)
        node = graph.embed(inner, after=before)
        graph.kernel(step, word, 4, after=node)
        inner.kernel(step, word, 9)  # too late: the node has a copy
        assert [each.kind for each in node.child.nodes] == ["kernel", "kernel"]
    run(graph, device)
    assert word.tolist() == [1234]
    child = node.child
    child.kernel(step, word, 5, after=child.nodes[-1])
    word.fill(0)
    run(graph, device)  # the graph was changed, so it is instantiated again
    assert word.tolist() == [12354]
    with pytest.raises(ValueError, match="belongs to a node"):
        child.instantiate()
    with pytest.raises(ValueError, match="cannot contain itself"):
        graph.embed(graph)
    with pytest.raises(ValueError, match="cannot contain itself"):
        child.embed(graph)


@pytest.mark.parametrize("form", ["child", "then"])
@pytest.mark.parametrize("way", ["with", "close", "detach"])
def test_the_graph_in_a_node_belongs_to_the_node(device, graph, word, step, form, way):
    if form == "child":
        with device.graph() as inner:
            node = graph.embed(inner)
    elif device._primary.driver.version < 12040:
        pytest.skip("conditional nodes need a driver of CUDA 12.4")
    else:
        node = graph.if_then(graph.create_condition(1))
    with getattr(node, form) as body:
        first = body.kernel(step, word, 1)
        if way == "close":
            body.close()
        elif way == "detach":
            assert body.detach() == body.handle
    assert not body.closed and getattr(node, form) is body
    body.kernel(step, word, 2, after=first)
    run(graph, device)
    assert word.tolist() == [12]


def test_an_empty_graph_can_be_launched(device, graph):
    run(graph, device, 2)
    assert graph.nodes == [] and graph.edges == []


# -- memory


def test_memory_of_a_graph_may_have_the_address_of_memory_that_it_has_freed(graph, monkeypatch):
    """A driver may give it again, as soon as the node that frees it comes before the other allocation."""
    first = graph.allocate(4)
    address = first.ptr
    second = graph.allocate(4, after=graph.free(first))
    monkeypatch.setattr(type(second), "ptr", address)
    given = module("gpu.graphs.node_parameters").free(graph, second)
    given.check(graph)
    assert given.arguments[0].value == address


def test_an_allocation_may_have_the_handle_of_one_whose_graph_was_closed(device, graph, monkeypatch):
    with device.graph() as closed:
        first = closed.allocate(4)
        graph.free(first)
        handle = first.handle
    with device.graph() as other:
        second = other.allocate(4)
        monkeypatch.setattr(type(second), "handle", handle)
        given = module("gpu.graphs.node_parameters").free(graph, second)
        given.check(graph)
        assert given.arguments[0].value == second.ptr


def test_memory_that_lives_in_a_graph(device, graph, step):
    out = device.upload(array.array("I", [0]))
    made = graph.allocate(4)
    there = made.memory.view("uint32")
    last = graph.fill(there, 1, after=made)
    for digit in (2, 3):
        last = graph.kernel(step, there, digit, after=last)
    last = graph.copy(out, there, after=last)
    freed = graph.free(made, after=last)
    assert (made.kind, made.nbytes, freed.kind) == ("allocation", 4, "free")
    assert made.ptr == made.memory.ptr
    run(graph, device, 3)
    assert out.tolist() == [123]
    for refused in (graph.clone, freed.destroy):
        with pytest.raises(errors.CudaError):
            refused()
    with pytest.raises(ValueError, match="is freed by another node"):
        graph.free(made)


def test_the_memory_of_a_node_is_closed_with_its_graph(device, graph, step):
    """In each use: a launch of a view took the address."""
    made = graph.allocate(4)
    graph.free(made, after=graph.fill(made.memory, 0, after=made))
    memory = made.memory
    view = memory.view("uint32")
    uses = [
        lambda: step(view, 1),
        lambda: step(view[:1], 1),
        lambda: step(memory, 1),
        lambda: step(rawcuda.In(view), 1),
        lambda: view.fill(1),
        lambda: rawcuda.copy(view, bytes(4)),
        lambda: device.graph().kernel(step, view, 1),
        lambda: made.memory.ptr,
    ]
    run(graph, device, 1)
    graph.close()
    for use in uses:
        with pytest.raises(rawcuda.Closed):
            use()
    assert memory.closed


def test_a_closed_graph_is_destroyed_after_the_last_export_of_its_memory(device, graph):
    made = graph.allocate(4)
    lease, calls = made.memory.lease(), []
    with rawcuda.trace(lambda call: calls.append(getattr(call, "name", ""))):
        graph.close()
        assert "cuGraphDestroy" not in calls
        del lease
        module("ownership").drain()
    assert calls.count("cuGraphDestroy") == 1


def test_memory_that_outlives_the_launch(device, graph):
    made = graph.allocate(16)
    graph.fill(made.memory, 7, after=made)
    with device.stream() as stream:
        graph.launch(stream)
        got = bytearray(16)
        made.memory.copy_to(got, stream=stream)
        assert got == b"\7" * 16
        with pytest.raises(errors.InvalidUse):
            graph.launch(stream)  # it is allocated already
        made.release(stream)
        graph.launch(stream)
        made.release(stream)
        stream.synchronize()
        with graph.instantiate(auto_free=True) as executable:
            for _ in range(3):
                executable.launch(stream)
            made.release(stream)
            stream.synchronize()


def test_memory_is_freed_by_another_graph(device, graph):
    made = graph.allocate(16)
    with device.graph() as other:
        other.free(made)
        run(graph, device)
        run(other, device)
        with pytest.raises(errors.InvalidUse):
            run(other, device)
        run(graph, device)
        run(other, device)


@pytest.mark.parametrize("nbytes, kind", [(0, ValueError), (-1, ValueError), (2**63, ValueError), (True, TypeError)])
def test_sizes_that_no_allocation_has(graph, nbytes, kind):
    with pytest.raises(kind, match="nbytes"):
        graph.allocate(nbytes)
    assert graph.nodes == []


# -- what nodes keep


def test_nodes_keep_what_they_use(device, step):
    graph = device.graph()
    target = device.empty(2, "float32")
    source = floats(device, 3, 4)
    memory = source.owner
    graph.copy(target, source)
    memory.close()
    del source, memory
    gc.collect()
    run(graph, device)
    assert target.tolist() == [3, 4]
    executable = graph.instantiate()
    graph.close()
    run(executable, device)
    executable.close()


def test_an_exporter_lives_as_long_as_a_launch_may_use_it(device):
    class Exporter:
        alive = 0

        def __init__(self):
            self.memory = device.upload(array.array("f", [5.0]))
            self.__cuda_array_interface__ = self.memory.__cuda_array_interface__
            Exporter.alive += 1

        def __del__(self):
            Exporter.alive -= 1

    with device.stream() as stream:
        graph, target = device.graph(), device.empty(1, "float32")
        graph.copy(target, Exporter())
        assert Exporter.alive == 1
        graph.launch(stream)
        graph.close()
        del graph
        gc.collect()
        device.synchronize()
        assert Exporter.alive == 0 and target.tolist() == [5.0]


def test_a_module_or_an_event_that_is_closed(device, graph, word):
    loaded = device.load(graph_kernels.STEP)
    node = graph.kernel(loaded["step"], word, 1, grid=1, block=1)
    run(graph, device)
    loaded.close()
    with pytest.raises(errors.Closed, match="uses <Module"):
        graph.launch()
    node.destroy()
    event = device.event()
    graph.record(event)
    event.close()
    with pytest.raises(errors.Closed, match="uses <Event"):
        graph.launch()


def test_a_graph_is_freed_without_the_collector(device, word, step):
    gc.collect()
    gc.disable()
    try:
        graph = device.graph()
        first = graph.kernel(step, word, 1)
        graph.copy(device.empty(1, "uint32"), word, after=first)
        graph.launch()
        device.synchronize()
        weak = weakref.ref(graph)
        del graph, first
        assert weak() is None
    finally:
        gc.enable()


# -- edges


class NotSearched(dict):
    """What the nodes of a graph do, of which nobody may look at each."""

    def values(self):
        raise AssertionError


def test_what_only_one_node_may_do_is_found_without_a_search(device, graph, monkeypatch):
    monkeypatch.setattr(graph, "_given", NotSearched())
    allocation = graph.allocate(64)
    graph.free(allocation, after=allocation)
    with pytest.raises(ValueError, match="already"):
        graph.free(allocation)
    if device._primary.driver.version < 12040:
        return
    condition = graph.create_condition(1)
    graph.if_then(condition)
    with pytest.raises(ValueError, match="already"):
        graph.if_then(condition)


def test_an_edge_is_removed_without_a_look_at_the_others(device, graph, monkeypatch):
    first, second = graph.empty(), graph.empty()
    last = graph.empty(after=(first, second))
    monkeypatch.setattr(module("gpu.graphs.nodes"), "_neighbours", None)
    graph.remove_edge(first, last)
    monkeypatch.undo()
    assert graph.edges == [(second, last)]


@pytest.mark.codes("cuGraphRemoveDependencies returned 1", "cuGraphRemoveDependencies_v2 returned 1")
def test_edges(device, graph, word, step):
    a, b, c = [graph.kernel(step, word, digit) for digit in (1, 2, 3)]
    graph.add_edge(a, b)
    graph.add_edge(b, c)
    with pytest.raises(ValueError, match="already"):
        graph.add_edge(a, b)
    with pytest.raises(ValueError) as caught:
        graph.add_edge(c, a)
    for node in (a, b, c):
        assert repr(node) in str(caught.value)
    with pytest.raises(ValueError, match="cycle"):
        graph.add_edge(a, a)
    with pytest.raises(ValueError, match="no edge"):
        graph.remove_edge(a, c)
    assert set(graph.edges) == {(a, b), (b, c)}
    graph.remove_edge(a, b)
    assert graph.edges == [(b, c)] and b.pred == [] and a.succ == []
    b.destroy()
    b.destroy()
    assert graph.nodes == [a, c] and graph.edges == []
    with pytest.raises(errors.Closed, match="destroyed"):
        graph.add_edge(a, b)
    with pytest.raises(errors.Closed, match="destroyed"):
        graph.kernel(step, word, 1, after=b)
    assert repr(b) == "<kernel node, destroyed>"


def test_nodes_of_another_graph(device, graph, word, step):
    with device.graph() as other:
        mine, theirs = graph.kernel(step, word, 1), other.kernel(step, word, 1)
        for refused in (
            lambda: graph.kernel(step, word, 2, after=theirs),
            lambda: graph.add_edge(mine, theirs),
            lambda: graph.add_edge(theirs, mine),
            lambda: graph.remove_edge(theirs, mine),
        ):
            with pytest.raises(ValueError, match="another graph") as caught:
                refused()
            assert repr(theirs) in str(caught.value)
        with graph.instantiate() as executable, pytest.raises(ValueError, match="not a node of the graph"):
            executable[theirs]
        assert graph.nodes == [mine]


@pytest.mark.parametrize("after", [1, "x", object(), [1], b"x"])
def test_what_is_no_node(graph, word, step, after):
    with pytest.raises(TypeError, match="after"):
        graph.kernel(step, word, 1, after=after)
    assert graph.nodes == []


def test_a_node_that_is_given_twice(graph, word, step):
    node = graph.kernel(step, word, 1)
    with pytest.raises(ValueError, match="twice"):
        graph.empty(after=[node, node])


# -- refusals


def test_arguments_are_checked_when_the_node_is_added(device, graph, step, word):
    with pytest.raises(TypeError, match="takes 2 arguments"):
        graph.kernel(step, word)
    with pytest.raises(ValueError, match="does not fit"):
        graph.kernel(step, word, 2**32)
    with pytest.raises(ValueError, match="host memory"):
        graph.kernel(step, array.array("I", [0]), 1)
    with pytest.raises(TypeError, match="Launch or a Kernel"):
        graph.kernel(print, word, 1)
    with pytest.raises(TypeError, match="already configured"):
        graph.kernel(step, word, 1, grid=1)
    with pytest.raises(TypeError, match="no stream"):
        graph.kernel(step.kernel, word, 1, grid=1, block=1, stream=None)
    with pytest.raises(ValueError, match="block"):
        graph.kernel(step.kernel, word, 1, grid=1, block=4096)
    closed = device.allocate(4)
    closed.close()
    with pytest.raises(errors.Closed):
        graph.kernel(step, closed, 1)
    with pytest.raises(errors.Closed):
        graph.copy(word, closed)
    with pytest.raises(errors.Closed):
        graph.fill(closed, 1)
    assert graph.nodes == []
    run(graph, device)


def test_copies_and_fills_that_are_refused(device, graph, word):
    numbers = device.upload(array.array("f", range(8)))
    with pytest.raises(TypeError, match="converts nothing"):
        graph.copy(word, numbers[:1])
    with pytest.raises(ValueError, match="broadcast"):
        graph.copy(numbers, numbers[:3])
    with pytest.raises(ValueError, match="share bytes"):
        graph.copy(numbers[1:], numbers[:-1])
    with pytest.raises(ValueError, match="nothing to copy"):
        graph.copy(numbers[:0], numbers[:0])
    with pytest.raises(ValueError, match="nothing to fill"):
        graph.fill(numbers[:0], 1)
    with pytest.raises(ValueError, match="pageable"):
        graph.fill(array.array("f", [1]), 2)
    with pytest.raises(errors.ProtocolError, match="readonly"):
        graph.copy(b"1234", word)
    with pytest.raises(errors.ProtocolError, match="readonly"):
        graph.fill(rawcuda.view(word, writable=False), 1)
    with pytest.raises((TypeError, ValueError)):
        graph.fill(word, "x")
    with pytest.raises(ValueError, match="contiguous"):
        graph.copy(numbers.reshape(2, 4).T, rawcuda.view(array.array("f", range(8))).reshape(4, 2))
    for what in (1, None, "x"):
        with pytest.raises(TypeError, match="function"):
            graph.callback(what)
        with pytest.raises(TypeError, match="Event"):
            graph.record(what)
        with pytest.raises(TypeError, match="Event"):
            graph.wait(what)
        with pytest.raises(TypeError, match="Graph"):
            graph.embed(what)
        with pytest.raises(TypeError, match="allocation"):
            graph.free(what)
    with device.stream() as stream, pytest.raises(TypeError, match="Event"):
        graph.record(stream)
    assert graph.nodes == []


def test_a_graph_that_is_closed(device, word, step):
    graph = device.graph()
    node = graph.kernel(step, word, 1)
    child = graph.embed(device.graph()).child
    graph.close()
    graph.close()
    for use in (
        graph.launch,
        graph.upload,
        graph.instantiate,
        graph.clone,
        graph.debug_dot,
        graph.empty,
        lambda: graph.nodes,
        lambda: graph.edges,
        lambda: node.pred,
        lambda: node.update(word, 1),
        lambda: child.empty(),
        lambda: child.nodes,
        lambda: graph.add_edge(node, node),
    ):
        with pytest.raises(errors.Closed):
            use()
    assert repr(graph) == "<Graph closed>" and "kernel node" in repr(node)


def test_objects_of_another_device(device, word, step):
    if len(rawcuda.devices()) < 2:
        pytest.skip("needs two devices")
    there = rawcuda.Device(1)
    with there.graph() as graph, device.event() as event, device.graph() as other:
        with pytest.raises(ValueError, match="on device 0, the graph on device 1"):
            graph.kernel(step, word, 1)
        with pytest.raises(ValueError, match="on device 0, the graph on device 1"):
            graph.record(event)
        with pytest.raises(ValueError, match="on device 0, the graph on device 1"):
            graph.embed(other)
        with device.stream() as stream, pytest.raises(ValueError, match="on device 1, the stream on device 0"):
            with stream.capture(into=graph):
                pass
        with graph.instantiate() as executable, pytest.raises(ValueError, match="device"):
            executable.update(other)


def test_graphs_and_nodes_cannot_be_copied(graph, word, step):
    node = graph.kernel(step, word, 1)
    with graph.instantiate() as executable:
        for thing in (graph, node, executable):
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be"):
                    make(thing)


def test_a_graph_gives_its_handle_away(device):
    graph = device.graph()
    graph.empty()
    handle = graph.detach()
    assert handle and graph.closed
    with pytest.raises(errors.Closed):
        graph.nodes
    rawcuda.cu.cuGraphDestroy(module("headers.cuda_h").CUgraph(handle))


def test_many_threads_add_nodes(device, graph, word, step):
    failed = []

    def work():
        try:
            for _ in range(20):
                graph.empty(after=graph.kernel(step, word, 1))
                assert graph.nodes
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(graph.nodes) == 160 and len(graph.edges) == 80


class HostArray:
    """An array of bytes of another library."""

    def __init__(self, size):
        self.bytes = bytearray(size)

    @property
    def __array_interface__(self):
        there = (ctypes.c_ubyte * len(self.bytes)).from_buffer(self.bytes)
        return {"version": 3, "shape": (len(there),), "typestr": "|u1", "data": (ctypes.addressof(there), False)}


def embedded(graph):
    """Return a graph that contains a copy of this one as a child graph."""
    outer = graph.device.graph()
    outer.embed(graph)
    return outer


COPIES = {
    "instantiated": lambda graph: graph.instantiate(),
    "cloned": lambda graph: graph.clone(),
    "embedded": embedded,
}


@pytest.mark.parametrize("way", COPIES)
def test_a_graph_is_copied_while_another_thread_adds_a_node(device, graph, way, monkeypatch):
    given, begun = module("gpu.graphs.node_parameters").Given, threading.Event()
    check = given.check

    def checks(*arguments):  # with the lock of the graph
        begun.set()
        time.sleep(0.3)
        check(*arguments)

    graph.empty()
    host, source = HostArray(64), device.upload(b"A" * 64)
    alive = weakref.ref(host)
    monkeypatch.setattr(given, "check", checks)
    adding = threading.Thread(target=graph.copy, args=(host, source))
    adding.start()
    assert begun.wait(20)
    monkeypatch.undo()
    with COPIES[way](graph) as copied:
        adding.join()
        graph.close()
        buffer = host.bytes
        del host, adding
        gc.collect()
        copied.launch()
        device.synchronize()
        assert buffer == b"A" * 64 and alive() is not None  # it has the node, and keeps what the node uses
    source.owner.close()


# -- descriptions


@pytest.mark.parametrize("kind", ["a fill", "a copy to it", "a copy from it"])
def test_a_node_waits_for_the_copy_or_fill_that_wrote_its_array_last(device, graph, kind):
    x, y = device.empty(8, "uint8"), device.upload(bytes([7] * 8))
    with device.stream() as first, device.stream() as second:
        first.call(time.sleep, 0.02)
        x.fill(5, stream=first)
        with rawcuda.trace([]) as trace:
            if kind == "a fill":
                graph.fill(x, 7)
            elif kind == "a copy to it":
                graph.copy(x, y)
            else:
                graph.copy(y, x)
        assert {event.name for event in trace.events} & {"cuStreamSynchronize", "cuEventSynchronize"}
        graph.launch(second)
        second.synchronize()
        first.synchronize()
        assert (x.tolist(), y.tolist()) == (([7] * 8,) * 2 if kind != "a copy from it" else ([5] * 8,) * 2)


def test_nodes_run_in_order_however_they_were_added(device, graph, word, step):
    """A long chain whose first node was added last, and one of which each edge was added against its direction."""
    nodes = [graph.kernel(step, word, digit) for digit in (3, 2, 1)]
    for second, first in zip(nodes, nodes[1:]):
        graph.add_edge(first, second)
    graph.launch(rawcuda.Stream.legacy)
    device.synchronize()
    assert word.tolist() == [123]
    with pytest.raises(ValueError, match="would create a cycle"):
        graph.add_edge(nodes[0], nodes[2])
    chain = [graph.empty() for _ in range(60)]
    for first, second in zip(chain[::-1], chain[-2::-1]):
        graph.add_edge(first, second)
    with pytest.raises(ValueError, match="would create a cycle") as caught:
        graph.add_edge(chain[0], chain[-1])
    assert str(caught.value).count(" -> ") == 60


def test_a_node_whose_predecessor_is_destroyed_by_an_argument_leaves_nothing(device, graph, step, word):
    first = graph.fill(word, 1)

    class Number:
        def __index__(self):
            first.destroy()
            return 5

    with pytest.raises(rawcuda.Closed, match="destroyed"):
        graph.kernel(step, word, Number(), after=first)
    assert not graph.nodes and not graph._kept


def test_a_conditional_node_of_a_closed_graph(device):
    with device.graph() as graph:
        node = graph.if_then(graph.create_condition(default=1))
    for use in (lambda: node.then, lambda: node.form, lambda: node.condition, lambda: node.branches):
        with pytest.raises(rawcuda.Closed, match="this Graph is closed"):
            use()


def test_debug_dot(device, graph, word, step):
    first = graph.kernel(step, word, 1)
    graph.fill(word, 0, after=first)
    text = graph.debug_dot()
    assert text.startswith("digraph") and "step" in text and "->" in text
    assert len(graph.debug_dot(verbose=True)) > len(text)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_debug_dot_writes_where_no_other_user_can_put_a_link(graph, tmp_path, monkeypatch, mode):
    """The driver opens the file by its path, and would write through a link that was put in its place."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    graph.empty()
    if mode == 0o1777:
        assert graph.debug_dot().startswith("digraph")
    else:
        with pytest.raises(PermissionError, match="can be written by other users.*chmod go-w"):
            graph.debug_dot()
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_no_other_user_can_open_the_file_of_debug_dot(device, graph, tmp_path, monkeypatch):
    """Not even for a moment, in which the mode is not changed yet: who has opened it reads what is written later."""
    driver, modes, before = device._primary.driver, [], os.umask(0)
    call = driver.cuGraphDebugDotPrint

    def noticed(*arguments):
        modes.extend(each.stat().st_mode & 0o777 for each in tmp_path.iterdir())
        return call(*arguments)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    monkeypatch.setitem(driver.__dict__, "cuGraphDebugDotPrint", noticed)
    try:
        assert graph.debug_dot()
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_debug_dot_without_descriptors_leaves_nothing(graph, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph.empty()
    assert graph.debug_dot()  # (it has imported what it needs)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises((OSError, errors.CudaError)):
            graph.debug_dot()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["os.open", "os.close", "os.unlink"])
def test_an_interrupt_of_debug_dot_leaves_nothing(graph, tmp_path, monkeypatch, name):
    """A signal is handled when such a call returns."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner, _, function = name.partition(".")
    real = getattr(importlib.import_module(owner), function)

    def interrupted(path, *arguments, **named):
        done = real(path, *arguments, **named)
        if name == "os.close" or str(path).startswith(str(tmp_path)):
            if name == "os.open":
                os.close(done)
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            graph.debug_dot()
    assert not list(tmp_path.iterdir())
    assert graph.debug_dot()


def test_a_picture(device, graph, word, step):
    first = graph.kernel(step, word, 1)
    with device.graph() as inner:
        inner.kernel(step, word, 2)
        graph.embed(inner, after=first)
    graph.callback(lambda: None, after=first)
    picture = graph._repr_svg_()
    assert picture.startswith("<svg") and picture.count("marker-end") == 2
    for text in ("A graph of 3 nodes", "0 kernel", "step", "child graph", "2 callback", "&lt;lambda&gt;"):
        assert text in picture
    assert graph._repr_html_().partition(">")[2].startswith("&lt;Graph 0x")


def test_repr(graph, word, step):
    assert repr(graph) == f"<Graph {graph.handle:#x}>"
    node = graph.kernel(step, word, 1)
    assert repr(node) == f"<kernel node {node.handle:#x}: step>"
    with graph.instantiate() as executable:
        assert repr(executable) == f"<Executable {executable.handle:#x}>"
    assert repr(executable) == "<Executable closed>"
    with pytest.raises(errors.Closed):
        executable.launch()


# -- modules and events that a graph uses, and that are closed

NOTHING = ".version 7.0 .target sm_70 .address_size 64 .visible .entry k() { ret; }"


def embedding(graph):
    outer = graph.device.graph()
    outer.embed(graph)
    return outer


def capturing(graph):
    stream = graph.device.stream()
    with stream.capture() as outer:
        graph.launch(stream)
    return outer


@pytest.mark.parametrize("way", [lambda graph: graph, lambda graph: graph.clone(), embedding, capturing])
@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize("what", ["module", "event"])
def test_what_a_graph_uses_is_closed(device, what, launched, way):
    """Neither an instantiation nor a launch gives the driver a handle that has ended."""
    graph = device.graph()
    if what == "module":
        used = device.load(NOTHING)
        graph.kernel(used["k"], grid=1, block=1)
    else:
        used = device.event()
        graph.record(used)
    made = way(graph)
    if launched:
        made.launch()
    used.close()
    with pytest.raises(rawcuda.Closed, match="^a node of this graph uses .*, which is closed"):
        made.launch()
    with pytest.raises(rawcuda.Closed, match="uses"):
        made.instantiate()
    device.synchronize()


def test_a_node_that_is_destroyed_keeps_nothing_of_the_graphs_in_it(device):
    with device.graph() as graph, device.stream() as stream:
        memory = device.allocate(64)
        child = device.graph()
        child.fill(memory, 1)
        outer = device.graph()
        outer.embed(child)
        node = graph.embed(outer)
        (inner,) = node.child.nodes
        (last,) = inner.child.nodes
        last.update(memory, 2)
        with stream.capture(into=graph):
            memory.view().fill(3, stream=stream)
        assert graph._kept
        for each in graph.nodes:
            each.destroy()
        for each in (node, inner, last):
            with pytest.raises(errors.Closed, match="was destroyed"):
                each.handle
        assert not graph._kept and not graph._given
        child.close(), outer.close(), memory.close()


def test_no_node_is_added_while_a_capture_into_the_graph_begins(device):
    """The thread that adds one waits for the lock of the graph, and finds then that a capture has begun."""
    raised = []
    with device.graph() as graph, device.stream() as stream, device.allocate(8) as memory:

        def add():
            try:
                graph.empty()
            except ValueError as error:
                raised.append(str(error))

        thread = threading.Thread(target=add)
        recording = stream.capture(into=graph)
        with graph._lock:
            thread.start()
            time.sleep(0.1)
            recording.__enter__()
        thread.join()
        memory.fill(1, stream=stream)
        recording.__exit__(None, None, None)
        assert len(graph.nodes) == 1 and "is in progress" in raised[0]


def test_a_node_with_graphs_nested_deep_is_destroyed(device, graph):
    """Deeper than Python's stack, as far as the functions for nodes see it."""
    inner, root = graph, device.graph()
    inner.empty()
    for _ in range(20):
        outer = device.graph()
        outer.embed(inner)
        inner = outer
    node = root.embed(inner)
    inside = module("gpu.graphs.nodes")._inside(node)
    assert len(inside) == 21 and inside[-1].kind == "empty"
    depths = []

    def trace(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith(("nodes.py", "graph.py")):
            names, above = 0, frame
            while above is not None:
                names += above.f_code is frame.f_code
                above = above.f_back
            depths.append(names)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        inside[-1].handle  # noqa: B018
        node.destroy()
    finally:
        sys.settrace(before)
    assert max(depths) < 4
    assert inside[-1]._handle is None and not root.nodes


def test_a_second_capture_into_a_graph_leaves_the_first_one_in_progress(device, graph):
    with device.stream() as stream, device.stream() as other, device.allocate(8) as memory:
        with stream.capture(into=graph):
            memory.fill(1, stream=stream)
            for refused in (other.capture(into=graph).__enter__, graph.empty):
                with pytest.raises(ValueError, match="is in progress"):
                    refused()
        assert len(graph.nodes) == 1


@pytest.mark.parametrize("call", ["upload", "disable", "enable", "is_enabled"])
def test_an_executable_graph_is_used_by_one_thread_at_a_time(device, monkeypatch, call):
    """The driver does not lock it."""
    free = []
    driver, calls = device._primary.driver, device._primary.calls
    with device.graph() as graph, device.allocate(8) as memory:
        node = graph.fill(memory, 1)
        made = graph.instantiate()

        def used(*_):
            def try_it():
                free.append(made._lock.acquire(blocking=False))

            thread = threading.Thread(target=try_it)
            thread.start()
            thread.join()

        for name in ("cuGraphUpload", "cuGraphNodeSetEnabled", "cuGraphNodeGetEnabled"):
            monkeypatch.setitem((calls if name == "cuGraphUpload" else driver).__dict__, name, used)
        if call == "upload":
            made.upload()
        elif call == "is_enabled":
            assert made[node].is_enabled is False
        else:
            getattr(made[node], call)()
        monkeypatch.undo()
        assert free == [False]
        made.close()


def test_an_upload_with_a_closed_module_is_refused(device, step, word):
    with device.graph() as graph, device.load(graph_kernels.STEP) as loaded:
        graph.kernel(loaded["step"].configure(grid=1, block=1), word, 1)
        made = graph.instantiate()
        loaded.close()
        with pytest.raises(errors.Closed, match="a node of this graph uses"):
            made.upload()
        made.close()


def test_two_graphs_that_free_each_others_memory_take_their_locks_in_one_order(device, monkeypatch):
    """The nodes are new objects, so the other graph is asked for their addresses, under its lock."""
    node_parameters, both = module("gpu.graphs.node_parameters"), threading.Barrier(2)
    read = node_parameters.free

    def free(graph, allocation):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # both are here only if neither holds the lock that the other one needs
        return read(graph, allocation)

    monkeypatch.setattr(node_parameters, "free", free)
    with device.graph() as one, device.graph() as two:
        one.allocate(64), two.allocate(64)
        gc.collect()
        (first,), (second,) = one.nodes, two.nodes
        threads = [
            threading.Thread(target=one.free, args=(second,), daemon=True),
            threading.Thread(target=two.free, args=(first,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)


def test_a_graph_that_frees_memory_of_another_one_holds_both_locks(device, monkeypatch):
    """Both are asked whether they free it already, and another thread may let the other one free it."""
    freed, seen = module("gpu.graphs.node_parameters").Freed, []
    check = freed.check

    def look(given, graph):
        seen.append([each._root._lock._is_owned() for each in (graph, given.allocation().graph)])
        check(given, graph)

    monkeypatch.setattr(freed, "check", look)
    with device.graph() as one, device.graph() as two:
        two.free(one.allocate(64))
    assert seen == [[True, True]]


@pytest.mark.parametrize("form", ["child", "branches"])
def test_a_graph_whose_inner_graphs_were_read_waits_for_no_collection(device, form):
    graph, inner = device.graph(), device.graph()
    try:
        node = graph.embed(inner) if form == "child" else graph.if_then(graph.create_condition())
    except rawcuda.RawCudaError as error:
        pytest.skip(str(error))
    made = node.child if form == "child" else node.branches[0]
    assert made is (node.child if form == "child" else node.then)
    made.empty()
    found = weakref.ref(graph)
    gc.disable()
    try:
        del graph, node, made
        assert found() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("what", ["copy to", "copy from", "fill", "fill with gaps"])
def test_a_node_refuses_memory_that_the_device_of_the_graph_cannot_access(device, second, graph, what):
    here, there = (each.zeros((4, 3, 2), "float32").T for each in (device, second))
    add = {
        "copy to": lambda: graph.copy(there, device.zeros((2, 3, 4), "float32")),
        "copy from": lambda: graph.copy(device.zeros((2, 3, 4), "float32"), there),
        "fill": lambda: graph.fill(there, 1),
        "fill with gaps": lambda: graph.fill(there[:, ::2], 1),
    }[what]
    with pytest.raises(ValueError, match=r"cannot access memory of device 1: .*enable_peer_access\(Device\(1\)\)"):
        add()
    assert not graph.nodes
    device.enable_peer_access(second)
    add()
    run(graph, device)
    second.synchronize()
    device.disable_peer_access(second)


@pytest.mark.parametrize("what", ["copy", "fill", "update"])
def test_a_node_waits_for_the_stream_that_wrote_a_view_of_another_library_s_array(device, graph, what):
    memory, y = device.allocate(16), device.zeros(4, "float32")
    theirs = types.SimpleNamespace(__cuda_array_interface__=memory.view("float32").__cuda_array_interface__)
    made = rawcuda.view(theirs)
    with device.stream() as stream, device.stream() as other:
        made.fill(1)
        device.synchronize()
        made.fill(41, stream=stream)
        if what == "fill":
            graph.fill(made, 5)
        else:
            node = graph.copy(y, made if what == "copy" else y[:4].copy())
            if what == "update":
                node.update(y, made)
        graph.launch(other)
        other.synchronize()
        device.synchronize()
        assert (made if what == "fill" else y).tolist() == [5 if what == "fill" else 41] * 4


@pytest.mark.parametrize(
    "how", ["launch", "launch again", "update", "destroy", "close", "executable", "close executable"]
)
def test_a_finalizer_of_what_a_graph_used_may_wait_for_a_lock_whose_owner_launches_the_graph(device, word, step, how):
    """As that of an array of an allocator with a lock: it does not run while a lock of the graph is held."""
    lock, begun, got = threading.RLock(), threading.Event(), []
    memory = device.zeros(1, "uint32")
    device.synchronize()

    class Array:
        __cuda_array_interface__ = {"version": 3, "shape": (1,), "typestr": "<u4", "data": (memory.ptr, False)}

        def __del__(self):
            begun.set()
            got.append(lock.acquire(timeout=5))
            if got[-1]:
                lock.release()

    graph = device.graph()
    node = graph.kernel(step, word if how == "launch" else Array(), 1)
    stream = device.stream()
    executable = graph.instantiate()
    if how == "launch":
        step.kernel.configure(grid=1, block=1, stream=stream)(Array(), 1)  # kept until the stream is done
        while not stream.query():
            pass
    if how in ("launch again", "close"):
        executable.close()
        graph.launch(stream)
        stream.synchronize()
    elif how in ("update", "destroy"):
        executable.close()
    begun.clear()

    def change():
        if how == "update":
            node.update(step, word, 2)
        elif how == "destroy":
            node.destroy()
        elif how == "close":
            graph.close()
        elif how == "executable":
            graph_node = executable[node]
            node.update(step, word, 2)
            executable._given.clear()  # as after an interrupt of an update
            graph_node.update(step, word, 2)
        elif how == "close executable":
            node.update(step, word, 2)
            executable.close()
        elif how == "launch again":
            node.update(step, word, 2)
            graph.launch(stream)
        for _ in range(200):
            if begun.is_set():
                break
            if how == "launch":
                executable.launch(stream)
                while not stream.query():
                    pass
            gc.collect()
            device.event().close()

    thread = threading.Thread(target=change)
    with lock:
        thread.start()
        assert begun.wait(10)
        with contextlib.suppress(errors.Closed):
            if how in ("launch", "executable", "close executable"):
                executable.launch(stream)
            else:
                graph.launch(stream)
    thread.join()
    assert got and all(got)
    device.synchronize()
    executable.close()
    graph.close()


@pytest.mark.parametrize("how", ["instantiate", "launch", "upload", "clone"])
def test_what_was_dropped_is_released_while_no_lock_of_the_graph_is_held(device, graph, word, step, monkeypatch, how):
    """The release of page-locked memory lets go of its exporter, whose finalizer may wait for a lock."""
    held = []

    class Exporter(bytearray):
        def __del__(self):
            held.append(graph._lock._is_owned())

    def recording(graph):  # asked for with the lock
        memory.clear()

    graph.kernel(step, word, 1)
    graph.launch()
    graph.kernel(step, word, 1)  # the next launch instantiates the graph again
    device.synchronize()
    memory = [device.register(Exporter(64))]
    monkeypatch.setattr(type(graph), "_recording", recording)
    made = getattr(graph, how)()
    device.synchronize()
    module("ownership").drain()
    assert held == [False]
    if made is not None:
        made.close()


@pytest.mark.parametrize("how", ["executable", "graph", "graph with memory", "launched graph"])
def test_close_runs_no_finalizers_of_what_was_dropped_while_it_holds_its_lock(device, how):
    """Another thread may use the graph, and hold the lock for which such a finalizer waits."""
    graph, got = device.graph(), []
    if how == "graph with memory":
        memory = graph.allocate(64).memory
        assert not memory.closed
    else:
        graph.empty()
    if how == "launched graph":
        graph.launch()
        device.synchronize()
    used = graph.instantiate() if how == "executable" else graph

    def enter():
        got.append(used._lock.acquire(timeout=5))
        if got[-1]:
            used._lock.release()

    class Buffer(bytearray):
        def __del__(self):
            thread = threading.Thread(target=enter)
            thread.start()
            thread.join()

    rawcuda.Memory.register(Buffer(4096))  # and the next call that releases something releases it
    used.close()
    gc.collect()
    assert got == [True]
    graph.close()


class Asked:
    """An array of another library, an iterable or a number, whose code first calls a function."""

    def __init__(self, call, memory=None, nodes=()):
        self.call, self.memory, self.nodes = call, memory, nodes

    @property
    def __cuda_array_interface__(self):
        self.call()
        return {"version": 3, "shape": (1,), "typestr": "<u4", "data": (self.memory.ptr, False)}

    def __iter__(self):
        self.call()
        return iter(self.nodes)

    def __index__(self):
        self.call()
        return 64


class AskedStream:
    """A stream of another library, whose code first calls a function."""

    def __init__(self, call, stream):
        self.call, self.stream = call, stream

    def __cuda_stream__(self):
        self.call()
        return 0, self.stream.handle


READING = {
    "kernel": lambda g: g.graph.kernel(g.step, g.array, 1),
    "copy to it": lambda g: g.graph.copy(g.array, g.word),
    "copy from it": lambda g: g.graph.copy(g.word, g.array),
    "fill": lambda g: g.graph.fill(g.array, 1),
    "after": lambda g: g.graph.empty(after=g.asked),
    "allocate": lambda g: g.graph.allocate(g.asked),
    "condition": lambda g: g.graph.create_condition(g.asked),
    "count": lambda g: g.graph.switch(g.graph.create_condition(), g.asked),
    "update": lambda g: g.node.update(g.step, g.array, 1),
    "new arguments": lambda g: g.node.update(g.array, 1),
    "executable": lambda g: g.executable[g.node].update(g.step, g.array, 1),
    "launch of an executable": lambda g: g.executable.launch(g.stream),
    "launch": lambda g: g.graph.launch(g.stream),
    "upload": lambda g: g.executable.upload(g.stream),
}


@pytest.mark.parametrize("how", READING)
def test_the_code_of_an_argument_runs_while_no_lock_of_the_graph_is_held(device, graph, word, step, how):
    """It may wait for a lock of its library, whose owner uses the graph."""
    memory, node, found = device.zeros(1, "uint32"), graph.kernel(step, word, 1), []
    stream, free = device.stream(), device.stream()
    executable = graph.instantiate()
    graph.launch(stream)

    def ask():
        thread = threading.Thread(target=lambda: (graph.nodes, executable.launch(free)), daemon=True)
        thread.start()
        thread.join(5)
        found.append(not thread.is_alive())

    given = types.SimpleNamespace(graph=graph, word=word, step=step, node=node, executable=executable)
    given.array, given.asked, given.stream = Asked(ask, memory), Asked(ask, nodes=[node]), AskedStream(ask, stream)
    try:
        READING[how](given)
    except errors.Unsupported:
        pytest.skip("the driver is too old")
    assert found and all(found)
    device.synchronize()
    executable.close()


def test_the_nodes_that_a_capture_into_a_graph_is_to_follow_are_read_while_no_lock_is_held(device, graph, word):
    node, found = graph.empty(), []

    def ask():
        thread = threading.Thread(target=lambda: graph.nodes, daemon=True)
        thread.start()
        thread.join(5)
        found.append(not thread.is_alive())

    with device.stream() as stream, stream.capture(into=graph, after=Asked(ask, nodes=[node])):
        word.fill(1, stream=stream)
    assert found and all(found)


@pytest.mark.parametrize("way", ["graph", "executable"])
def test_new_arguments_are_for_the_kernel_that_a_node_has_after_they_were_read(device, graph, word, step, way):
    """Another thread may change the node meanwhile, or the code of an argument does."""
    node, calls = graph.kernel(step, word, 1), []
    with device.load(graph_kernels.STEP.replace("10,", "100,")) as loaded, graph.instantiate() as executable:
        changed = node if way == "graph" else executable[node]
        other = loaded["step"].configure(grid=1, block=1)

        def change():
            if not calls:
                changed.update(other, word, 3)
            calls.append("asked")

        changed.update(Asked(change, word), 5)
        word.fill(7)
        run(graph if way == "graph" else executable, device)
        assert word.tolist() == [705] and len(calls) > 1


@pytest.mark.parametrize("what", ["graph", "node", "module", "after"])
def test_what_the_code_of_an_argument_closes_is_not_given_to_the_driver(device, word, what):
    """Nor is what another thread closes then."""
    memory, calls = device.zeros(1, "uint32"), []
    graph, loaded = device.graph(), device.load(graph_kernels.STEP)
    step, first = loaded["step"].configure(grid=1, block=1), graph.empty()
    node = graph.kernel(step, word, 1)
    close = {"graph": graph.close, "node": node.destroy, "module": loaded.close, "after": first.destroy}[what]
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        with pytest.raises(errors.Closed):
            if what == "node":
                node.update(step, Asked(close, memory), 1)
            else:
                graph.kernel(step, Asked(close, memory), 1, after=first)
    assert not [name for name in calls if "KernelNode" in name]
    graph.close()
    loaded.close()


@pytest.mark.parametrize("what", ["module", "event", "graph", "allocation"])
def test_what_another_thread_closes_before_a_node_has_the_lock_is_not_given_to_the_driver(
    device, graph, word, monkeypatch, what
):
    parameters, calls = module("gpu.graphs.node_parameters"), []
    with device.load(graph_kernels.STEP) as loaded, device.event() as event, device.graph() as other:
        step, allocation = loaded["step"].configure(grid=1, block=1), other.allocate(64)
        name, add, close = {
            "module": ("kernel", lambda: graph.kernel(step, word, 1), loaded.close),
            "event": ("record", lambda: graph.record(event), event.close),
            "graph": ("embed", lambda: graph.embed(other), other.close),
            "allocation": ("free", lambda: graph.free(allocation), other.close),
        }[what]
        read = getattr(parameters, name)

        def reads(*given):
            found = read(*given)
            close()
            return found

        monkeypatch.setattr(parameters, name, reads)
        with rawcuda.trace(lambda each: calls.append(getattr(each, "name", ""))), pytest.raises(errors.Closed):
            add()
    assert not [name for name in calls if name.startswith("cuGraphAdd")] and not graph.nodes


class Taken:
    """The lock of a graph, which another thread has at first: there, it calls a function."""

    def __init__(self, lock, call):
        self.lock, self.call = lock, call

    def __enter__(self):
        call, self.call = self.call, None
        if call is not None:
            call()
        return self.lock.__enter__()

    def __exit__(self, *raised):
        self.lock.__exit__(*raised)


@pytest.mark.parametrize("how", ["find", "number"])
def test_a_node_that_another_thread_destroys_before_a_call_has_the_lock(device, graph, how):
    """A driver may have given its handle to another node, or its memory back."""
    node, calls = graph.empty(), []
    other = graph.clone()
    asked = other if how == "find" else graph
    asked._lock = Taken(asked._lock, node.destroy)
    with rawcuda.trace(lambda each: calls.append(getattr(each, "name", ""))):
        with pytest.raises(errors.Closed, match="was destroyed"):
            if how == "find":
                other.find(node)
            else:
                node.number
    assert "cuGraphDestroyNode" in calls and "cuGraphNodeFindInClone" not in calls
    other.close()


@pytest.mark.parametrize("how", ["launch", "upload", "release"])
def test_a_stream_that_another_thread_closes_before_a_call_has_the_lock(device, graph, how):
    """It is not given to the driver, for which its handle may be that of another stream by then."""
    stream, calls = device.stream(), []
    node = graph.allocate(64) if how == "release" else graph.empty()
    used = graph if how == "release" else graph.instantiate()
    if how == "release":
        del node._known  # as of a node that a capture has added
    used._lock = Taken(used._lock, stream.close)
    with rawcuda.trace(lambda each: calls.append(getattr(each, "name", ""))):
        with pytest.raises(errors.Closed, match="this Stream is closed"):
            getattr(node if how == "release" else used, how)(stream)
    assert "cuStreamDestroy_v2" in calls
    assert not {"cuGraphLaunch", "cuGraphUpload", "cuMemFreeAsync"} & {*calls}
    used.close()
