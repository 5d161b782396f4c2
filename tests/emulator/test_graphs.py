"""Graphs that are captured from streams: their nodes, the calls that a capture forbids, and the effect of a launch."""

from __future__ import annotations

import ctypes
import struct
import threading

import pytest

from tests.emulator.emulator_client import KERNELS, Client
from tests.subject import module

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
OUT = ctypes.c_uint64()
module("emulator").Emulator()  # which declares the entry points
ENTRIES, parse = module("emulator.interface.thunks").ENTRIES, module("emulator.interface.thunks").parse
behaviour = module("headers.behaviour")
graphs, queues = module("emulator.entries.graphs.definitions"), module("emulator.machine.queues")
GLOBAL, THREAD_LOCAL, RELAXED = range(3)


@pytest.fixture(
    params=[("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)], ids=lambda mode: f"{mode[0]}{mode[1]}"
)
def client(request):
    made = Client(*request.param)
    yield made
    assert not made.emulator.kept_exceptions


@pytest.fixture
def memory(client):
    address = client.upload(bytes(4))
    client.do("cuCtxSynchronize")
    return address


def _begin(client, flags=1, mode=GLOBAL):
    stream = client.stream(flags)
    client.do("cuStreamBeginCapture_v2", stream, mode)
    return stream


def _end(client, stream):
    graph = ctypes.c_uint64()
    client.do("cuStreamEndCapture", stream, graph)
    return graph.value


def _nodes(client, graph):
    """Return the nodes of a graph in the emulator."""
    return client.emulator._machine.get(graphs.Graph, graph).nodes


def _after(client, graph):
    """Return, for each node, the numbers of those that it waits for."""
    nodes = _nodes(client, graph)
    return [tuple(nodes.index(other) for other in node.after) for node in nodes]


def _status(client, stream):
    status = ctypes.c_int()
    client.do("cuStreamIsCapturing", stream, status)
    return status.value


def _step(client, step, memory, digit, stream):
    assert client.launch(step, [memory, struct.pack("<I", digit)], stream=stream) == 0


def test_a_captured_graph_does_it_all_again(client, memory):
    step = client.kernels()("step")
    seen, source = [], client.pinned(b"\x07\0\0\0")
    look = HostFunction(lambda data: seen.append(data))
    stream = _begin(client)
    assert _status(client, stream) == 1
    client.do("cuMemsetD8Async", memory, 0, 4, stream)
    client.do("cuMemcpyHtoDAsync_v2", memory, source, 4, stream)
    _step(client, step, memory, 1, stream)
    _step(client, step, memory, 2, stream)
    client.do("cuLaunchHostFunc", stream, ctypes.cast(look, ctypes.c_void_p).value, 5)
    graph = _end(client, stream)
    assert _status(client, stream) == 0
    client.do("cuCtxSynchronize")
    assert client.number(memory) == 0 and not seen  # the capture did not run anything
    ready = client.get("cuGraphInstantiateWithFlags", graph, 0)
    for value in (7, 8):
        ctypes.memmove(source, struct.pack("<I", value), 4)  # a node reads its source when it runs
        client.do("cuGraphLaunch", ready, stream)
        client.do("cuStreamSynchronize", stream)
        assert client.number(memory) == value * 100 + 12
    assert seen == [5, 5]
    client.do("cuGraphDestroy", graph)
    client.do("cuGraphLaunch", ready, stream)  # it does not need the graph from which it was made
    client.do("cuStreamSynchronize", stream)
    client.do("cuGraphExecDestroy", ready)
    assert client.code("cuGraphLaunch", ready, stream) == 400
    client.do("cuStreamDestroy_v2", stream)
    assert set(client.live()) == {"memory", "module"}


def test_pageable_memory_is_read_at_each_launch(client, memory):
    source = ctypes.create_string_buffer(b"1111", 4)
    stream = _begin(client)
    client.do("cuMemcpyHtoDAsync_v2", memory, source, 4, stream)
    ready = client.get("cuGraphInstantiateWithFlags", _end(client, stream), 0)
    for content in (b"2222", b"3333"):
        source.raw = content
        client.do("cuGraphLaunch", ready, stream)
        client.do("cuStreamSynchronize", stream)
        assert client.download(memory, 4) == content


def test_streams_fork_and_join(client, memory):
    step = client.kernels()("step")
    first, second = _begin(client), client.stream()
    fork, join = client.event(2), client.event(2)
    _step(client, step, memory, 1, first)
    client.do("cuEventRecord", fork, first)
    client.do("cuStreamWaitEvent", second, fork, 0)
    assert _status(client, second) == 1
    _step(client, step, memory, 2, second)
    client.do("cuEventRecord", join, second)
    client.do("cuStreamWaitEvent", first, join, 0)
    _step(client, step, memory, 3, first)
    graph = _end(client, first)
    assert _status(client, second) == 0
    assert _after(client, graph) == [(), (0,), (0, 1)]
    ready = client.get("cuGraphInstantiateWithFlags", graph, 0)
    client.do("cuGraphLaunch", ready, first)
    client.do("cuStreamSynchronize", first)
    assert client.number(memory) == 123


def test_random_mode_tries_the_orders_that_a_graph_allows():
    def order(seed):
        client = Client("random", seed)
        memory, step = client.upload(bytes(4)), client.kernels()("step")
        client.do("cuCtxSynchronize")
        first, second = _begin(client), client.stream()
        fork, join = client.event(2), client.event(2)
        client.do("cuEventRecord", fork, first)
        client.do("cuStreamWaitEvent", second, fork, 0)
        _step(client, step, memory, 1, first)
        _step(client, step, memory, 2, second)
        client.do("cuEventRecord", join, second)
        client.do("cuStreamWaitEvent", first, join, 0)
        client.do("cuGraphLaunch", client.get("cuGraphInstantiateWithFlags", _end(client, first), 0), first)
        client.do("cuStreamSynchronize", first)
        return client.number(memory)

    assert {order(seed) for seed in range(8)} == {12, 21}


def test_kinds_of_nodes(client, memory):
    get = client.kernels()
    stream = _begin(client)
    look = HostFunction(lambda data: None)
    client.do("cuMemsetD8Async", memory, 0, 4, stream)
    client.do("cuMemcpyDtoDAsync_v2", memory, memory, 4, stream)
    assert client.launch(get("nothing"), [], stream=stream) == 0
    client.do("cuLaunchHostFunc", stream, ctypes.cast(look, ctypes.c_void_p).value, 5)
    graph = _end(client, stream)
    assert [(node.does.name, node.does.kind) for node in _nodes(client, graph)] == [
        ("a fill", queues.INSTANT),
        ("a copy", queues.INSTANT),
        ("nothing", queues.KERNEL),
        ("a host function", queues.HOST),
    ]
    client.do("cuGraphDestroy", graph)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 400


# -- calls that a capture forbids


def test_a_capturing_stream_cannot_be_waited_for(client, memory):
    for call in (("cuStreamSynchronize",), ("cuStreamQuery",)):
        stream = _begin(client)
        assert client.code(*call, stream) == 900
        assert _status(client, stream) == 2
        assert client.code("cuMemsetD8Async", memory, 0, 4, stream) == 901
        assert client.code("cuStreamEndCapture", stream, OUT) == 901
        assert _status(client, stream) == 0 and OUT.value == 0
    managed, stream = client.get("cuMemAllocManaged", 64, 1), _begin(client)
    assert client.code("cuStreamAttachMemAsync", stream, managed, 0, 4) == 900
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    stream = _begin(client)
    assert client.code("cuCtxSynchronize") == 900
    assert client.code("cuStreamEndCapture", stream, OUT) == 901


@pytest.mark.parametrize("mode, code", [(GLOBAL, 900), (THREAD_LOCAL, 900), (RELAXED, 0)])
@pytest.mark.parametrize("call", ["cuMemAlloc_v2", "cuModuleLoadData", "cuEventQuery", "cuEventSynchronize"])
def test_potentially_unsafe_calls(client, mode, code, call):
    image, event = ctypes.create_string_buffer(KERNELS.encode()), client.event()
    arguments = {"cuMemAlloc_v2": (OUT, 16), "cuModuleLoadData": (OUT, image)}.get(call, (event,))
    stream = _begin(client, mode=mode)
    assert client.code(call, *arguments) == code
    assert client.code("cuStreamEndCapture", stream, OUT) == (901 if code else 0)


@pytest.mark.parametrize("name", ["cuMemcpyDtoH_v2", "cuMemcpy", "cuMemcpy2D_v2", "cuMemcpyAtoH_v2", "cuMemsetD8_v2"])
def test_a_call_without_a_stream_is_not_captured(client, memory, name):
    """Not even in the relaxed mode, if the default stream of the thread captures."""
    there, host = module("emulator.interface.thunks").MEMCPY2D, ctypes.create_string_buffer(4)
    arguments = {
        "cuMemcpyAtoH_v2": (host, client.get("cuArrayCreate_v2", struct.pack("2N i I", 4, 0, 1, 1)), 0, 4),
        "cuMemcpy2D_v2": (there.pack(0, 0, 2, 0, memory, 0, 0, 0, 0, 1, ctypes.addressof(host), 0, 0, 0, 4, 1),),
        "cuMemsetD8_v2": (memory, 1, 4),
    }.get(name, (host, memory, 4))
    client.do("cuStreamBeginCapture_v2", 2, RELAXED)
    assert client.code(f"{name}_ptds", *arguments) == 900
    assert client.code("cuStreamEndCapture", 2, OUT) == 901


@pytest.mark.parametrize("call", [each for each in sorted(ENTRIES) if behaviour.of(each).capture == "unsafe"])
def test_every_unsafe_function_of_the_table(call):
    """The refusal comes before the arguments are read, so all of them may be 0."""
    client, count = Client(), len(parse(ENTRIES[call].line)[1])
    stream = _begin(client)
    assert client.code(call, *[0] * count) == 900
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    stream = _begin(client, mode=RELAXED)
    assert client.code(call, *[0] * count) != 900
    client.do("cuStreamEndCapture", stream, OUT)


LISTED = [each for each in sorted(ENTRIES) if behaviour.of(each).sources and "CUstream " in ENTRIES[each].line]


@pytest.mark.parametrize("call", [each for each in LISTED if behaviour.of(each).capture != "unsafe"])
def test_what_the_table_says_of_a_captured_stream(client, memory, call):
    """A call that is permitted may refuse its arguments, which are 0, but not because the stream is captured."""
    one, stream = struct.pack("<Q", 1), _begin(client)
    box = struct.pack("<i4x QQQ 2i", 1, memory, 4, 4, 0, 0)
    batch = one, one, one, 1, struct.pack("<i 2i 2i I", 1, 0, 0, 0, 0, 0), bytes(8), 1
    operation = 1, box + box + struct.pack("<3Q 2I", 4, 1, 1, 1, 0)
    arguments = {
        "cuStreamAddCallback": (stream, 1, 0, 0),
        "cuMemcpyBatchAsync": (*batch, 0, stream),
        "cuMemcpyBatchAsync_v2": (*batch, stream),
        "cuMemcpy3DBatchAsync": (*operation, 0, 0, stream),
        "cuMemcpy3DBatchAsync_v2": (*operation, 0, stream),
    }.get(call)
    if arguments is None:
        kinds = [kind for kind, _ in parse(ENTRIES[call].line)[1]]
        arguments = [stream if kind == "CUstream" else bytes(256) if "*" in kind else 0 for kind in kinds]
    assert (client.code(call, *arguments) == 900) == (behaviour.of(call).capture == "captured")
    client.code("cuStreamEndCapture", stream, OUT)


def test_another_thread_may_not_disturb_a_global_capture_unless_it_says_so(client):
    codes = []

    def other(mode):
        client.do("cuCtxSetCurrent", client.context)
        changed = ctypes.c_int(mode)
        client.do("cuThreadExchangeStreamCaptureMode", changed)
        codes.append(changed.value)
        codes.append(client.code("cuMemHostAlloc", OUT, 16, 0))

    for capture, own, expected in ((GLOBAL, RELAXED, 0), (THREAD_LOCAL, GLOBAL, 0), (GLOBAL, GLOBAL, 900)):
        stream = _begin(client, mode=capture)
        thread = threading.Thread(target=other, args=[own])
        thread.start()
        thread.join()
        assert codes == [GLOBAL, expected]
        codes.clear()
        assert client.code("cuStreamEndCapture", stream, OUT) == (901 if expected else 0)
    assert client.code("cuThreadExchangeStreamCaptureMode", ctypes.c_int(3)) == 1


def test_the_legacy_stream_may_not_depend_on_a_capture(client, memory):
    stream = _begin(client, flags=0)
    assert client.code("cuMemsetD8Async", memory, 0, 4, 0) == 906
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    managed = client.get("cuMemAllocManaged", 16, 1)
    pool = client.get("cuDeviceGetDefaultMemPool", 0)
    for name, *arguments in (
        ("cuMemAllocAsync", OUT, 16, 0),
        ("cuMemAllocFromPoolAsync", OUT, 16, pool, 1),
        ("cuStreamAttachMemAsync", 0, managed, 0, 1),
        ("cuMemPrefetchAsync", managed, 16, 0, 0),
    ):
        client.do("cuStreamBeginCapture_v2", stream, GLOBAL)
        assert client.code(name, *arguments) == 906, name
        assert client.code("cuStreamEndCapture", stream, OUT) == 901, name
    stream = _begin(client, flags=1)  # a non-blocking stream does not join it
    assert client.code("cuMemsetD8Async", memory, 0, 4, 0) == 0
    assert client.code("cuStreamEndCapture", stream, OUT) == 0
    assert client.code("cuStreamBeginCapture_v2", 0, GLOBAL) == 900


def test_a_capture_may_not_depend_on_other_work_nor_on_another_capture(client, memory):
    event = client.event(2)
    client.do("cuEventRecord", event, 0)
    stream = _begin(client)
    assert client.code("cuStreamWaitEvent", stream, event, 0) == 905
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    first, second = _begin(client), _begin(client)
    client.do("cuEventRecord", event, first)
    assert client.code("cuStreamWaitEvent", second, event, 0) == 902
    for stream in (first, second):
        assert client.code("cuStreamEndCapture", stream, OUT) == 901


def test_an_event_of_a_capture_cannot_be_asked(client):
    event, stream = client.event(), _begin(client, mode=RELAXED)
    client.do("cuEventRecord", event, stream)
    assert client.code("cuEventQuery", event) == 907
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    assert client.code("cuStreamWaitEvent", client.stream(), event, 0) == 907
    client.do("cuEventRecord", event, stream)
    assert client.code("cuEventSynchronize", event) == 0


def test_a_capture_ends_where_it_began(client, memory):
    first, second, event = _begin(client), client.stream(), client.event(2)
    client.do("cuEventRecord", event, first)
    client.do("cuStreamWaitEvent", second, event, 0)
    client.do("cuMemsetD8Async", memory, 1, 4, second)
    assert client.code("cuStreamEndCapture", second, OUT) == 903
    assert client.code("cuStreamEndCapture", first, OUT) == 901
    assert client.code("cuStreamEndCapture", first, OUT) == 401
    first = _begin(client)
    client.do("cuEventRecord", event, first)
    client.do("cuStreamWaitEvent", second, event, 0)
    client.do("cuMemsetD8Async", memory, 1, 4, second)
    assert client.code("cuStreamEndCapture", first, OUT) == 904  # second's work is not joined
    assert client.code("cuStreamBeginCapture_v2", second, GLOBAL) == 0
    assert client.code("cuStreamBeginCapture_v2", second, GLOBAL) == 401
    _end(client, second)


def test_a_capture_ends_in_its_thread_unless_it_is_relaxed(client):
    codes = []

    def end(stream):
        client.do("cuCtxSetCurrent", client.context)
        codes.append(client.code("cuStreamEndCapture", stream, OUT))

    for mode in (GLOBAL, RELAXED):
        stream = _begin(client, mode=mode)
        thread = threading.Thread(target=end, args=[stream])
        thread.start()
        thread.join()
    assert codes == [908, 0]


# -- graphs


def test_flags_of_an_instantiation(client):
    stream = _begin(client)
    graph = _end(client, stream)
    client.get("cuGraphInstantiateWithFlags", graph, 1 | 8)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 2) == 1  # only cuGraphInstantiateWithParams uploads
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 4) == 801
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 1 << 10) == 1


def test_a_graph_goes_once(client, memory):
    stream = _begin(client)
    client.do("cuMemsetD8Async", memory, 1, 4, stream)
    client.do("cuMemcpyDtoDAsync_v2", memory, memory, 4, stream)
    graph = _end(client, stream)
    assert _after(client, graph) == [(), (0,)]
    client.do("cuGraphDestroy", graph)
    assert client.code("cuGraphDestroy", graph) == 400


def test_destroying_a_stream_that_captures_ends_the_capture(client, memory):
    stream = _begin(client, flags=0)
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuMemsetD8Async", memory, 1, 4, 0)  # the legacy stream is free again
    client.do("cuCtxSynchronize")


def test_the_number_of_a_capture(client):
    stream, status, ident = _begin(client), ctypes.c_int(), ctypes.c_uint64()
    client.do("cuStreamGetCaptureInfo", stream, status, ident)
    assert status.value == 1 and ident.value
    _end(client, stream)
    client.do("cuStreamGetCaptureInfo", stream, status, 0)
    assert status.value == 0


def test_a_context_that_goes_takes_its_captures_along():
    client = Client(devices=2)
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    _begin(client)
    client.do("cuCtxPushCurrent_v2", second)
    assert client.code("cuMemAlloc_v2", OUT, 16) == 900  # a capture of this thread in any context
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert client.code("cuMemAlloc_v2", OUT, 16) == 0
    assert not client.emulator.kept_exceptions


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_nodes_that_wait_for_all_nodes_of_a_child_graph_take_linear_time(mode):
    """Before the child graph, in it and after it: each node waits for one step, not for all that come before."""
    executables, n = module("emulator.entries.graphs.executables"), 200
    client = Client(mode)
    machine = client.emulator._machine
    inner, outer = client.get("cuGraphCreate", 0), client.get("cuGraphCreate", 0)
    for _ in range(n):
        client.get("cuGraphAddEmptyNode", inner, 0, 0)
    earlier = (ctypes.c_uint64 * n)(*[client.get("cuGraphAddEmptyNode", outer, 0, 0) for _ in range(n)])
    child = (ctypes.c_uint64 * 1)(client.get("cuGraphAddChildGraphNode", outer, earlier, n, inner))
    for _ in range(n):
        client.get("cuGraphAddEmptyNode", outer, child, 1)
    steps = []
    executables._steps(machine.get(graphs.Graph, outer), frozenset(), steps)
    assert sum(len(before) for _, before in steps) < 5 * n
    names = [node for node in executables._order(machine, machine.get(graphs.Graph, outer), set())]
    assert len(names) == 3 * n and set(names[:n]) == {machine.handles[each] for each in earlier}
    assert {node.graph for node in names[n : 2 * n]} != {node.graph for node in names[2 * n :]}
