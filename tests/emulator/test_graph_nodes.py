"""Graphs that are built by hand, through the entry points: parameters, edges, clones, updates, memory, user objects."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import struct
import threading
import time

import pytest

from tests.driver.graph_kernels import CONDITIONS
from tests.emulator.emulator_client import KERNELS, Client
from tests.subject import module

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
OUT = ctypes.c_uint64()
KERNEL, FILL, HOST = struct.Struct("<Q7I4x4Q"), struct.Struct("<2Q2I2Q"), struct.Struct("<2Q")
COPY = struct.Struct("<" + "4Q i4x QQQ Q 2Q" * 2 + "3Q")


@pytest.fixture(params=[("eager", 0), ("lazy", 0), ("random", 1)], ids=lambda mode: f"{mode[0]}{mode[1]}")
def client(request):
    made = Client(*request.param)
    yield made
    assert not made.emulator.kept_exceptions


@pytest.fixture
def memory(client):
    address = client.upload(bytes(4))
    client.do("cuCtxSynchronize")
    return address


@pytest.fixture
def graph(client):
    return client.get("cuGraphCreate", 0)


def array_of(*handles):
    return (ctypes.c_uint64 * max(len(handles), 1))(*handles)


def add(client, graph, what, *arguments, after=()):
    return client.get(f"cuGraphAdd{what}", graph, array_of(*after), len(after), *arguments)


def kernel_words(function, memory, digit, keep=[]):  # noqa: B006 - C memory that lives on
    cells = ctypes.create_string_buffer(struct.pack("<QQ", memory, digit), 16)
    pointers = array_of(ctypes.addressof(cells), ctypes.addressof(cells) + 8)
    keep += cells, pointers
    return KERNEL.pack(function, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)


def step(client, graph, memory, digit, after=(), function=None):
    words = kernel_words(function or client.kernels()("step"), memory, digit)
    return add(client, graph, "KernelNode_v2", words, after=after)


def ready(client, graph, flags=0):
    return client.get("cuGraphInstantiateWithFlags", graph, flags)


def run(client, executable, times=1):
    for _ in range(times):
        client.do("cuGraphLaunch", executable, 0)
    client.do("cuCtxSynchronize")


def listed(client, name, *arguments, data=False):
    count = ctypes.c_size_t()
    extra = (0,) if data else ()
    client.do(name, *arguments, 0, *extra, count)
    found = array_of(*[0] * count.value)
    client.do(name, *arguments, found, *extra, count)
    return list(found)[: count.value]


def copy_words(target, source, nbytes, kinds={}):  # noqa: B006 - not changed
    side = []
    for address in (source, target):
        kind = kinds.get(address, 2)
        place = (kind, address, 0) if kind == 1 else (kind, 0, address)
        side.append((0, 0, 0, 0, *place, 0, 0, nbytes, 1))
    return COPY.pack(*side[0], *side[1], nbytes, 1, 1)


# -- nodes


@pytest.mark.parametrize("kind", [1, 4], ids=["host", "unified"])
@pytest.mark.parametrize("what", ["source", "target"])
def test_a_copy_does_not_take_freed_page_locked_memory_for_pageable_memory(client, graph, memory, what, kind):
    """The same copy, captured, was refused."""
    pinned = client.pinned(b"abcd")
    ends = (memory, pinned) if what == "source" else (pinned, memory)
    add(client, graph, "MemcpyNode", copy_words(*ends, 4, {pinned: kind}), client.context)
    executable = ready(client, graph)
    run(client, executable)
    client.do("cuMemFreeHost", pinned)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 1
    codes = [client.code("cuGraphLaunch", executable, 0), client.code("cuCtxSynchronize")]
    assert 700 in codes and "4-byte pinned allocation" in client.emulator.reports[-1]


def test_a_copy_of_memory_that_is_registered_no_longer_is_one_of_pageable_memory(client, graph, memory):
    host = ctypes.create_string_buffer(b"abcd", 4)
    address = ctypes.addressof(host)
    client.do("cuMemHostRegister_v2", address, 4, 0)
    add(client, graph, "MemcpyNode", copy_words(memory, address, 4, {address: 1}), client.context)
    client.do("cuMemHostUnregister", address)
    run(client, ready(client, graph))
    assert client.download(memory, 4) == b"abcd"


def test_parameters_can_be_read_back(client, graph, memory):
    other = client.upload(b"abcd")
    look = HostFunction(lambda data: None)
    address = ctypes.cast(look, ctypes.c_void_p).value
    event = client.event()
    function = client.kernels()("step")
    node = add(client, graph, "KernelNode_v2", kernel_words(function, memory, 7))
    got = ctypes.create_string_buffer(KERNEL.size)
    client.do("cuGraphKernelNodeGetParams_v2", node, got)
    words = KERNEL.unpack(got.raw)
    assert words[:8] == (function, 1, 1, 1, 1, 1, 1, 0) and words[10:] == (0, client.context)
    places = (ctypes.c_uint64 * 2).from_address(words[8])
    assert [ctypes.c_uint64.from_address(places[0]).value, ctypes.c_uint32.from_address(places[1]).value] == [memory, 7]
    old = ctypes.create_string_buffer(b"\xee" * KERNEL.size, KERNEL.size)
    client.do("cuGraphKernelNodeGetParams", node, old)
    assert old.raw[56:] == b"\xee" * 16  # the old structure is shorter
    for what, getter, size, *given in (
        ("MemcpyNode", "cuGraphMemcpyNodeGetParams", COPY.size, copy_words(memory, other, 4), client.context),
        ("MemsetNode", "cuGraphMemsetNodeGetParams", FILL.size, FILL.pack(memory, 0, 5, 4, 1, 1), client.context),
        ("HostNode", "cuGraphHostNodeGetParams", HOST.size, HOST.pack(address, 9)),
    ):
        node, got = add(client, graph, what, *given), ctypes.create_string_buffer(size)
        client.do(getter, node, got)
        assert got.raw == given[0], what
        assert client.code("cuGraphEventWaitNodeGetEvent", node, OUT) == 1  # another kind of node
    for what in ("Record", "Wait"):
        node = add(client, graph, f"Event{what}Node", event)
        client.do(f"cuGraphEvent{what}NodeGetEvent", node, OUT)
        assert OUT.value == event
        client.do(f"cuGraphEvent{what}NodeSetEvent", node, client.event())
    assert [_kind(client, node) for node in listed(client, "cuGraphGetNodes", graph)] == [0, 1, 2, 3, 7, 6]
    run(client, ready(client, graph))


def _kind(client, node):
    kind = ctypes.c_int()
    client.do("cuGraphNodeGetType", node, kind)
    return kind.value


def test_parameters_of_nodes_of_any_type(client, graph, memory):
    look = HostFunction(lambda data: None)
    address = ctypes.cast(look, ctypes.c_void_p).value

    def words(kind, body):
        return struct.pack("<i3i", kind, 0, 0, 0) + body.ljust(232 + 8, b"\0")

    function = client.kernels()("step")
    bodies = {
        0: kernel_words(function, memory, 3),
        1: struct.pack("<2iQ", 0, 0, client.context) + copy_words(memory, client.upload(b"abcd"), 4),
        2: FILL.pack(memory, 0, 5, 4, 1, 1) + struct.pack("<Q", client.context),
        3: HOST.pack(address, 1),
        4: struct.pack("<Qi", client.get("cuGraphCreate", 0), 0),
        5: b"",
        6: struct.pack("<Q", client.event()),
        7: struct.pack("<Q", client.event()),
    }
    for kind, body in bodies.items():
        node = client.get("cuGraphAddNode_v2", graph, 0, 0, 0, words(kind, body))
        assert _kind(client, node) == kind
        if kind != 4:
            client.do("cuGraphNodeSetParams", node, words(kind, body))
            executable = ready(client, graph)
            client.do("cuGraphExecNodeSetParams", executable, node, words(kind, body))
            client.do("cuGraphExecDestroy", executable)
        assert client.code("cuGraphNodeSetParams", node, words((kind + 1) % 2, bodies[(kind + 1) % 2])) == 1
        assert client.code("cuGraphAddNode", OUT, graph, 0, 0, words(kind, body.ljust(232, b"\0") + b"\1")) == 1
    assert client.code("cuGraphAddNode_v2", OUT, graph, 0, 0, 0, struct.pack("<i3i", 5, 0, 1, 0) + bytes(240)) == 1
    assert client.code("cuGraphAddNode_v2", OUT, graph, 0, 0, 0, words(8, b"")) == 801
    assert client.code("cuGraphAddNode_v2", OUT, graph, 0, 0, 0, 0) == 1


def test_what_nodes_refuse(client, graph, memory):
    event, function = client.event(), client.kernels()("step")
    assert client.code("cuGraphAddHostNode", OUT, graph, 0, 0, HOST.pack(0, 0)) == 1
    assert client.code("cuGraphAddMemsetNode", OUT, graph, 0, 0, FILL.pack(memory, 0, 5, 3, 1, 1), 0) == 1
    assert client.code("cuGraphAddMemsetNode", OUT, graph, 0, 0, FILL.pack(memory, 0, 300, 1, 1, 1), 0) == 1
    assert client.code("cuGraphAddMemsetNode", OUT, graph, 0, 0, FILL.pack(memory, 0, 5, 4, 2, 1), 0) == 1
    assert client.code("cuGraphAddMemsetNode", OUT, graph, 0, 0, FILL.pack(memory, 0, 5, 4, 0, 1), 0) == 1
    assert client.code("cuGraphAddMemcpyNode", OUT, graph, 0, 0, copy_words(memory, memory + 2, 4), 0) == 1
    assert client.code("cuGraphAddMemcpyNode", OUT, graph, 0, 0, copy_words(memory, memory, 0), 0) == 1
    assert client.code("cuGraphAddMemcpyNode", OUT, graph, 0, 0, copy_words(memory, memory, 4), event) == 201
    assert client.code("cuGraphAddEventRecordNode", OUT, graph, 0, 0, function) == 400
    assert client.code("cuGraphAddChildGraphNode", OUT, graph, 0, 0, graph) == 1
    assert client.code("cuGraphAddKernelNode_v2", OUT, graph, 0, 0, kernel_words(event, memory, 1)) == 400
    assert client.code("cuGraphAddEmptyNode", 0, graph, 0, 0) == 1
    assert client.code("cuGraphAddEmptyNode", OUT, event, 0, 0) == 400
    assert client.code("cuGraphCreate", OUT, 1) == 1
    assert listed(client, "cuGraphGetNodes", graph) == []


def test_attributes_of_a_kernel_node(client, graph, memory):
    first, second = step(client, graph, memory, 1), step(client, graph, memory, 2)
    value, got = struct.pack("<i", -2).ljust(64, b"\0"), ctypes.create_string_buffer(64)
    client.do("cuGraphKernelNodeSetAttribute", first, 8, value)
    client.do("cuGraphKernelNodeGetAttribute", first, 8, got)
    assert got.raw == value
    client.do("cuGraphKernelNodeCopyAttributes", second, first)
    client.do("cuGraphKernelNodeGetAttribute", second, 8, got)
    assert got.raw == value
    client.do("cuGraphKernelNodeSetParams_v2", first, kernel_words(client.kernels()("step"), memory, 3))
    client.do("cuGraphKernelNodeGetAttribute", first, 8, got)
    assert got.raw == value
    assert client.code("cuGraphKernelNodeGetAttribute", first, 99, got) == 1
    assert client.code("cuGraphKernelNodeSetAttribute", first, 8, struct.pack("<i", 5).ljust(64, b"\0")) == 1


# -- edges


def test_edges_and_their_data(client, graph, memory):
    a, b, c = [step(client, graph, memory, digit) for digit in (1, 2, 3)]
    client.do("cuGraphAddDependencies", graph, array_of(a, b), array_of(b, c), 2)
    assert listed(client, "cuGraphGetRootNodes", graph) == [a]
    assert listed(client, "cuGraphNodeGetDependencies", c) == [b]
    assert listed(client, "cuGraphNodeGetDependentNodes", a) == [b]
    for code, name, *arguments in (
        (1, "cuGraphAddDependencies", graph, array_of(a), array_of(b), 1),
        (1, "cuGraphAddDependencies", graph, array_of(a), array_of(a), 1),
        (1, "cuGraphAddDependencies", graph, array_of(a, a), array_of(c, c), 2),
        (1, "cuGraphRemoveDependencies", graph, array_of(a), array_of(c), 1),
        (1, "cuGraphAddDependencies_v2", graph, array_of(a), array_of(c), b"\0\1".ljust(8, b"\0"), 1),
        (1, "cuGraphAddEmptyNode", OUT, graph, array_of(a, a), 2),
    ):
        assert client.code(name, *arguments) == code
    programmatic = b"\1\0\1".ljust(8, b"\0")
    client.do("cuGraphAddDependencies_v2", graph, array_of(a), array_of(c), programmatic, 1)
    count, sources, targets = ctypes.c_size_t(5), array_of(*[9] * 5), array_of(*[9] * 5)
    assert client.code("cuGraphGetEdges", graph, sources, targets, count) == 402  # it would lose the data
    data = ctypes.create_string_buffer(40)
    client.do("cuGraphGetEdges_v2", graph, sources, targets, data, count)
    assert (list(sources), list(targets), count.value) == ([a, b, a, 0, 0], [b, c, c, 0, 0], 3)
    assert data.raw[:24] == bytes(16) + programmatic
    assert client.code("cuGraphNodeGetDependencies", c, sources, count) == 402
    assert client.code("cuGraphRemoveDependencies", graph, array_of(a), array_of(c), 1) == 1
    client.do("cuGraphRemoveDependencies_v2", graph, array_of(a), array_of(c), programmatic, 1)
    client.do("cuGraphRemoveDependencies", graph, array_of(b), array_of(c), 1)
    count.value = 1
    client.do("cuGraphGetNodes", graph, sources, count)
    assert count.value == 1 and sources[0] == a
    client.do("cuGraphDestroyNode", a)
    assert client.code("cuGraphDestroyNode", a) == 400
    assert listed(client, "cuGraphGetRootNodes", graph) == [b, c]


@pytest.mark.parametrize("room", [2**60, 2**63, 2**64 - 1])
def test_a_number_of_handles_for_which_no_array_has_room_is_refused(client, graph, memory, room):
    a = step(client, graph, memory, 1)
    b = step(client, graph, memory, 2, (a,))
    count, found = ctypes.c_size_t(), array_of(7, 7)
    for name, *arguments in (
        ("cuGraphGetNodes", graph, found),
        ("cuGraphGetRootNodes", graph, found),
        ("cuGraphGetEdges", graph, found, found),
        ("cuGraphNodeGetDependencies", b, found),
        ("cuGraphNodeGetDependentNodes", a, found),
    ):
        count.value = room
        assert client.code(name, *arguments, count) == 1, name
        assert list(found) == [7, 7] and count.value == room


def test_a_circle_is_found_at_the_instantiation(client, graph, memory):
    a, b, c = [step(client, graph, memory, digit) for digit in (1, 2, 3)]
    client.do("cuGraphAddDependencies", graph, array_of(a, b, c), array_of(b, c, a), 3)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 1
    parameters = ctypes.create_string_buffer(32)
    assert client.code("cuGraphInstantiateWithParams", OUT, graph, parameters) == 1
    _, _, node, result = struct.unpack("<QQQi4x", parameters.raw)
    assert node in (a, b, c) and result == 2
    assert "cycle" in client.emulator.explain(1)
    client.do("cuGraphRemoveDependencies", graph, array_of(c), array_of(a), 1)
    parameters.raw = struct.pack("<QQQi4x", 2, client.stream(), 7, 7)
    client.do("cuGraphInstantiateWithParams", OUT, graph, parameters)
    assert struct.unpack("<QQQi4x", parameters.raw)[2:] == (0, 0)
    flags = ctypes.c_uint64()
    client.do("cuGraphExecGetFlags", OUT.value, flags)
    assert flags.value == 2
    run(client, OUT.value)
    assert client.number(memory) == 123


# -- clones, children, updates


def test_clones_and_children(client, graph, memory):
    first = step(client, graph, memory, 1)
    inner = client.get("cuGraphCreate", 0)
    step(client, inner, memory, 2)
    child = add(client, graph, "ChildGraphNode", inner, after=[first])
    client.do("cuGraphDestroy", inner)
    inside = client.get("cuGraphCreate", 0)
    client.do("cuGraphChildGraphNodeGetGraph", child, OUT)
    inside, copied = OUT.value, client.get("cuGraphClone", graph)
    assert client.code("cuGraphDestroy", inside) == 1
    assert client.code("cuGraphInstantiateWithFlags", OUT, inside, 0) == 1
    assert client.code("cuGraphAddChildGraphNode", OUT, inside, 0, 0, graph) == 1
    client.do("cuGraphNodeFindInClone", OUT, child, copied)
    twin = OUT.value
    assert twin in listed(client, "cuGraphGetNodes", copied) and twin != child
    assert client.code("cuGraphNodeFindInClone", OUT, twin, graph) == 1
    client.do("cuGraphDestroy", graph)
    assert client.code("cuGraphNodeGetType", first, OUT) == 400
    run(client, ready(client, copied))
    assert client.number(memory) == 12


def test_update_results(client, graph, memory):
    def built(*digits, connected=True, fill=False):
        made, last = client.get("cuGraphCreate", 0), []
        if fill:
            last = [add(client, made, "MemsetNode", FILL.pack(memory, 0, 0, 4, 1, 1), 0)]
        for digit in digits:
            last = [step(client, made, memory, digit, last if connected else ())]
        return made, last

    old, _ = built(1, 2)
    executable = ready(client, old)
    result = ctypes.create_string_buffer(24)
    for (new, last), expected in (
        (built(3, 4), 0),
        (built(3), 2),
        (built(3, 4, connected=False), 2),
        (built(3, fill=True), 3),
    ):
        code = client.code("cuGraphExecUpdate_v2", executable, new, result)
        assert (code, struct.unpack_from("<i", result.raw)[0]) == (910 if expected else 0, expected)
        node, why = ctypes.c_uint64(), ctypes.c_int()
        assert client.code("cuGraphExecUpdate", executable, new, node, why) == code and why.value == expected
        if expected == 2 and len(listed(client, "cuGraphGetNodes", new)) == 2:
            assert struct.unpack_from("<Q", result.raw, 8)[0] == node.value == last[0]
    run(client, executable)
    assert client.number(memory) == 34
    assert client.code("cuGraphExecUpdate_v2", executable, graph, 0) == 1


def test_nodes_of_executable_graphs(client, graph, memory):
    node = step(client, graph, memory, 1)
    foreign = step(client, client.get("cuGraphCreate", 0), memory, 1)
    executable = ready(client, graph)
    words = kernel_words(client.kernels()("step"), memory, 5)
    client.do("cuGraphExecKernelNodeSetParams_v2", executable, node, words)
    client.do("cuGraphExecKernelNodeSetParams", executable, node, words[:56])
    assert client.code("cuGraphExecKernelNodeSetParams_v2", executable, foreign, words) == 1
    assert client.code("cuGraphExecHostNodeSetParams", executable, node, HOST.pack(1, 1)) == 1
    run(client, executable)
    assert client.number(memory) == 5
    switch = ctypes.c_uint(7)
    client.do("cuGraphNodeGetEnabled", executable, node, switch)
    assert switch.value == 1
    client.do("cuGraphNodeSetEnabled", executable, node, 0)
    client.do("cuGraphNodeGetEnabled", executable, node, switch)
    assert switch.value == 0
    run(client, executable)
    assert client.number(memory) == 5
    client.do("cuGraphUpload", executable, 0)
    client.do("cuGraphDestroyNode", node)
    assert client.code("cuGraphNodeSetEnabled", executable, node, 1) == 400


@pytest.mark.parametrize("flags, expected", [(0, (0, 0)), (8, (910, 8))])
def test_an_update_keeps_the_priorities_that_a_graph_uses(client, graph, memory, flags, expected):
    """CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY is 8, and so is CU_LAUNCH_ATTRIBUTE_PRIORITY."""
    step(client, graph, memory, 1)
    executable, result = ready(client, graph, flags), ctypes.create_string_buffer(24)
    for priority, wanted in ((0, (0, 0)), (-1, expected)):
        new = client.get("cuGraphCreate", 0)
        client.do("cuGraphKernelNodeSetAttribute", step(client, new, memory, 2), 8, struct.pack("<i60x", priority))
        code = client.code("cuGraphExecUpdate_v2", executable, new, result)
        assert (code, struct.unpack_from("<i", result.raw)[0]) == wanted


@pytest.mark.parametrize("how", ["node", "graph", "child"])
@pytest.mark.parametrize("what", ["source", "target", "fill"])
def test_the_memory_of_an_executable_node_stays_on_its_device(what, how):
    """Its kind and its context stay, too: they are compared with those at the instantiation."""
    client = Client(devices=2)
    first, other = client.upload(bytes(4)), client.upload(bytes(4))
    new = {
        "mine": client.upload(bytes(4)),
        "of a pool": client.get("cuMemAllocAsync", 4, 0),
        "a variable": client.get("cuModuleGetGlobal_v2", OUT, client.load(KERNELS), b"table"),
        "managed": client.get("cuMemAllocManaged", 4, 1),
        "page-locked": client.pinned(bytes(4)),
    }
    secondary, second = client.get("cuCtxCreate_v2", 0, 0), client.get("cuDevicePrimaryCtxRetain", 1)
    for name, context in (("of another context", secondary), ("of another device", second)):
        client.do("cuCtxSetCurrent", context)
        new[name] = client.upload(bytes(4))
        client.do("cuCtxSynchronize")
    client.do("cuCtxSetCurrent", client.context)

    def words(address):
        if what == "fill":
            return FILL.pack(address, 0, 7, 4, 1, 1)
        return copy_words(other, address, 4) if what == "source" else copy_words(address, other, 4)

    def built(address):
        made = client.get("cuGraphCreate", 0)
        return made, add(client, made, "MemsetNode" if what == "fill" else "MemcpyNode", words(address), client.context)

    graph, node = built(first)
    if how == "child":
        child, graph = graph, client.get("cuGraphCreate", 0)
        node = add(client, graph, "ChildGraphNode", child)
    executable, result = ready(client, graph), ctypes.create_string_buffer(24)
    client.do("cuMemFree_v2", first)

    def change(address):
        if how == "graph":
            code = client.code("cuGraphExecUpdate_v2", executable, built(address)[0], result)
            assert (code, struct.unpack_from("<i", result.raw)[0]) in ((0, 0), (910, 5))
            return code
        if how == "child":
            return client.code("cuGraphExecChildGraphNodeSetParams", executable, node, built(address)[0])
        name = "cuGraphExecMemsetNodeSetParams" if what == "fill" else "cuGraphExecMemcpyNodeSetParams"
        return client.code(name, executable, node, words(address), client.context)

    refused = 910 if how == "graph" else 1
    assert {name: change(address) for name, address in new.items()} == {
        name: 0 if name in ("mine", "of a pool", "a variable") else refused for name in new
    }
    run(client, executable)


# -- memory


def allocation_words(nbytes, ordinal=0):
    return ctypes.create_string_buffer(
        struct.pack("<2i2iQQH54x", 1, 0, 1, ordinal, 0, 0, 0) + struct.pack("<4Q", 0, 0, nbytes, 0), 120
    )


def test_memory_of_graphs(client, graph):
    words = allocation_words(4)
    node = add(client, graph, "MemAllocNode", words)
    address = struct.unpack_from("<Q", words.raw, 112)[0]
    assert client.emulator._machine.space.find(address) is None  # it is only reserved
    filled = add(client, graph, "MemsetNode", FILL.pack(address, 0, 7, 4, 1, 1), 0, after=[node])
    got = ctypes.create_string_buffer(120)
    client.do("cuGraphMemAllocNodeGetParams", node, got)
    assert struct.unpack_from("<2Q", got.raw, 104) == (4, address)
    executable = ready(client, graph)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 1  # one at a time
    client.do("cuGraphLaunch", executable, 0)
    assert client.number(address) == 7  # the copy is after it
    assert client.live()["memory"] == 1
    value = ctypes.c_uint64()
    for number, expected in ((0, 4), (1, 4), (2, 2 << 20), (3, 2 << 20)):
        client.do("cuDeviceGetGraphMemAttribute", 0, number, value)
        assert value.value == expected
    assert client.code("cuGraphLaunch", executable, 0) == 1
    client.do("cuMemFreeAsync", address, 0)
    client.do("cuGraphLaunch", executable, 0)
    client.do("cuMemFreeAsync", address, 0)
    client.do("cuGraphLaunch", executable, 0)  # while the free is pending, in lazy mode
    client.do("cuCtxSynchronize")
    assert client.number(address) == 7
    client.do("cuMemFree_v2", address)
    assert client.code("cuMemFreeAsync", address, 0) == 1
    client.do("cuDeviceGraphMemTrim", 0)
    client.do("cuDeviceGetGraphMemAttribute", 0, 2, value)
    assert value.value == 0
    for number, new, code in ((1, 0, 0), (3, 0, 0), (0, 0, 1), (1, 5, 1)):
        value.value = new
        assert client.code("cuDeviceSetGraphMemAttribute", 0, number, value) == code
    assert client.code("cuGraphDestroyNode", filled) == 801
    assert client.code("cuGraphRemoveDependencies", graph, array_of(node), array_of(filled), 1) == 801
    assert client.code("cuGraphClone", OUT, graph) == 801
    assert client.code("cuGraphAddChildGraphNode", OUT, client.get("cuGraphCreate", 0), 0, 0, graph) == 801
    assert client.code("cuGraphAddMemAllocNode", OUT, graph, 0, 0, allocation_words(0)) == 1
    assert client.code("cuGraphAddMemAllocNode", OUT, graph, 0, 0, allocation_words(4, 9)) == 101
    assert client.code("cuGraphAddMemFreeNode", OUT, graph, 0, 0, address + 4) == 1


def test_a_graph_frees_what_it_allocates(client, graph):
    words = allocation_words(4)
    node = add(client, graph, "MemAllocNode", words)
    address = struct.unpack_from("<Q", words.raw, 112)[0]
    freed = add(client, graph, "MemFreeNode", address, after=[node])
    client.do("cuGraphMemFreeNodeGetParams", freed, OUT)
    assert OUT.value == address
    assert client.code("cuGraphAddMemFreeNode", OUT, graph, 0, 0, address) == 1
    assert client.code("cuGraphAddMemFreeNode", OUT, client.get("cuGraphCreate", 0), 0, 0, address) == 1
    executable = ready(client, graph)
    run(client, executable, 3)
    assert client.emulator._machine.space.find(address) is None and not client.live().get("memory")
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    client.emulator._machine.repair()  # as after an interrupt
    client.do("cuDeviceGraphMemTrim", 0)
    client.do("cuMemGetInfo_v2", free, total)
    assert free.value == total.value


def test_graphs_cannot_have_more_memory_than_the_device(client, graph):
    """What a graph frees before it allocates more does not count twice, and a refused launch changes nothing."""
    size = 3 << 30  # of 4 GiB
    small, words = allocation_words(4), allocation_words(size)
    node = add(client, graph, "MemAllocNode", small)
    large = add(client, graph, "MemAllocNode", words, after=[node])
    executable, other = ready(client, graph), client.get("cuGraphCreate", 0)
    taken = client.allocate(size)
    assert client.code("cuGraphLaunch", executable, 0) == 2
    client.do("cuCtxSynchronize")
    assert client.live()["memory"] == 1
    client.do("cuMemFree_v2", taken)
    run(client, executable)
    assert client.code("cuMemAlloc_v2", OUT, size) == 2
    for address in (struct.unpack_from("<Q", each.raw, 112)[0] for each in (small, words)):
        client.do("cuMemFree_v2", address)
    client.do("cuDeviceGraphMemTrim", 0)
    for _ in range(2):
        words = allocation_words(size)
        large = add(client, other, "MemAllocNode", words, after=[large] if _ else ())
        large = add(client, other, "MemFreeNode", struct.unpack_from("<Q", words.raw, 112)[0], after=[large])
    run(client, ready(client, other), 2)
    assert not client.live().get("memory")


def test_memory_of_graphs_that_were_destroyed_is_forgotten(client):
    """Otherwise, each graph with an allocation stays in memory until the process ends."""
    known = client.emulator._machine.graph_memory
    kept = client.get("cuGraphCreate", 0)
    add(client, kept, "MemAllocNode", allocation_words(4))
    for _ in range(20):
        made = client.get("cuGraphCreate", 0)
        add(client, made, "MemAllocNode", allocation_words(4))
        client.do("cuGraphDestroy", made)
    gc.collect()
    assert len(known) == 1


def test_allocations_in_a_capture(client):
    stream = client.stream()
    client.do("cuStreamBeginCapture_v2", stream, 0)
    address = client.get("cuMemAllocAsync", 4, stream)
    client.do("cuMemsetD32Async", address, 5, 1, stream)
    client.do("cuMemFreeAsync", address, stream)
    client.do("cuStreamEndCapture", stream, OUT)
    assert [_kind(client, node) for node in listed(client, "cuGraphGetNodes", OUT.value)] == [10, 2, 11]
    run(client, ready(client, OUT.value), 2)
    other = client.get("cuMemAllocAsync", 4, stream)
    client.do("cuStreamBeginCapture_v2", stream, 0)
    assert client.code("cuMemFreeAsync", other, stream) == 1
    assert client.code("cuStreamEndCapture", stream, OUT) == 901


# -- captures


def test_a_capture_shows_its_graph(client, memory):
    stream, graph, nodes, count = client.stream(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t()
    status, ident = ctypes.c_int(), ctypes.c_uint64()
    function = client.kernels()("step")
    client.do("cuStreamBeginCapture_v2", stream, 0)
    assert client.launch(function, [memory, struct.pack("<I", 1)], stream=stream) == 0
    client.do("cuStreamGetCaptureInfo_v2", stream, status, ident, graph, nodes, count)
    (first,) = listed(client, "cuGraphGetNodes", graph.value)
    assert (status.value, count.value) == (1, 1) and ctypes.c_uint64.from_address(nodes.value).value == first
    empty = client.get("cuGraphAddEmptyNode", graph.value, 0, 0)  # permitted while the capture adds nodes, but not ...
    client.do("cuGraphAddDependencies", graph.value, array_of(first), array_of(empty), 1)
    client.do("cuGraphRemoveDependencies", graph.value, array_of(first), array_of(empty), 1)
    assert client.code("cuGraphDestroyNode", empty) == client.code("cuGraphDestroy", graph.value) == 401
    client.do("cuStreamUpdateCaptureDependencies", stream, 0, 0, 1)  # the next node waits for nothing
    assert client.launch(function, [memory, struct.pack("<I", 2)], stream=stream) == 0
    client.do("cuStreamUpdateCaptureDependencies_v2", stream, array_of(first), 0, 1, 0)
    data = ctypes.c_uint64(9)
    client.do("cuStreamGetCaptureInfo_v3", stream, status, ident, graph, nodes, data, count)
    assert (count.value, data.value) == (2, 0)
    client.do("cuStreamEndCapture", stream, OUT)
    assert OUT.value == graph.value and len(listed(client, "cuGraphGetRootNodes", graph.value)) == 3
    assert client.code("cuStreamUpdateCaptureDependencies", stream, 0, 0, 0) == 401


def test_a_capture_that_fails_leaves_no_graph(client, memory):
    stream = client.stream()
    before = len(client.emulator._machine.handles)
    client.do("cuStreamBeginCapture_v2", stream, 0)
    client.do("cuMemsetD8Async", memory, 0, 4, stream)
    assert client.code("cuStreamSynchronize", stream) == 900
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    assert len(client.emulator._machine.handles) == before


@pytest.mark.parametrize("flags", [0, 1])
def test_the_dependencies_of_a_capture_that_fails_cannot_be_changed(client, flags):
    stream = client.stream()
    client.do("cuStreamBeginCapture_v2", stream, 0)
    client.do("cuStreamUpdateCaptureDependencies", stream, 0, 0, flags)
    assert client.code("cuStreamSynchronize", stream) == 900
    assert client.code("cuStreamUpdateCaptureDependencies", stream, 0, 0, flags) == 901
    assert client.code("cuStreamEndCapture", stream, OUT) == 901


def test_capture_to_a_graph(client, graph, memory):
    first, stream, function = step(client, graph, memory, 1), client.stream(), client.kernels()("step")
    executable = ready(client, graph)
    client.do("cuStreamBeginCaptureToGraph", stream, graph, array_of(first), 0, 1, 0)
    assert client.launch(function, [memory, struct.pack("<I", 2)], stream=stream) == 0
    assert client.code("cuStreamBeginCaptureToGraph", client.stream(), graph, 0, 0, 0, 0) == 401
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 401
    assert client.code("cuGraphExecUpdate_v2", executable, graph, ctypes.create_string_buffer(24)) == 401
    client.do("cuStreamEndCapture", stream, OUT)
    assert OUT.value == graph
    run(client, ready(client, graph))
    assert client.number(memory) == 12


def test_a_graph_may_be_changed_while_a_stream_captures_into_it(client, memory):
    """Except to remove nodes and to use it. Nodes that a caller adds can decide conditions, and be waited for."""
    stream, graph, function = client.stream(), ctypes.c_uint64(), client.kernels()("step")
    client.do("cuStreamBeginCapture_v2", stream, 0)
    client.do("cuStreamGetCaptureInfo_v2", stream, ctypes.c_int(), 0, graph, 0, 0)
    client.do("cuGraphConditionalHandleCreate", OUT, graph.value, client.context, 1, 1)
    condition = OUT.value
    assert client.launch(function, [memory, struct.pack("<I", 1)], stream=stream) == 0
    (first,) = listed(client, "cuGraphGetNodes", graph.value)
    words = struct.pack("<i3iQiIQQ", 13, 0, 0, 0, condition, 0, 1, 0, client.context).ljust(256, b"\0")
    given = ctypes.create_string_buffer(words, 256)
    node = client.get("cuGraphAddNode_v2", graph.value, array_of(first), 0, 1, given)
    (body,) = (ctypes.c_uint64 * 1).from_address(struct.unpack_from("<Q", given.raw, 32)[0])
    step(client, body, memory, 2, function=function)
    client.do("cuStreamUpdateCaptureDependencies", stream, array_of(node), 1, 1)
    assert client.launch(function, [memory, struct.pack("<I", 3)], stream=stream) == 0
    for name, *arguments in (
        ("cuGraphKernelNodeSetAttribute", first, 2, bytes(64)),
        ("cuGraphAddEmptyNode", OUT, graph.value, 0, 0),
    ):
        client.do(name, *arguments)
    client.do("cuStreamEndCapture", stream, OUT)
    run(client, ready(client, OUT.value))
    assert client.number(memory) == 123


@pytest.mark.parametrize("how", ["edges", "dependencies", "no"])
def test_work_that_a_caller_cuts_off_does_not_have_to_be_joined(client, memory, how):
    """A capture with work that its first stream does not wait for ends with 904, except where the caller cut it off."""
    first, second, graph = client.stream(), client.stream(), ctypes.c_uint64()
    fork, join = client.event(2), client.event(2)
    client.do("cuStreamBeginCapture_v2", first, 0)
    client.do("cuStreamGetCaptureInfo_v2", first, ctypes.c_int(), 0, graph, 0, 0)
    client.do("cuMemsetD8Async", memory, 1, 4, first)
    client.do("cuEventRecord", fork, first)
    client.do("cuStreamWaitEvent", second, fork, 0)
    client.do("cuMemsetD8Async", memory, 2, 4, second)
    start, side = listed(client, "cuGraphGetNodes", graph.value)
    if how != "no":
        client.do("cuEventRecord", join, second)
        client.do("cuStreamWaitEvent", first, join, 0)
        if how == "dependencies":
            client.do("cuStreamUpdateCaptureDependencies", first, array_of(start), 1, 1)
        client.do("cuMemsetD8Async", memory, 3, 4, first)
    if how == "edges":
        last = listed(client, "cuGraphGetNodes", graph.value)[2]
        client.do("cuGraphRemoveDependencies", graph.value, array_of(side), array_of(last), 1)
    assert client.code("cuStreamEndCapture", first, OUT) == (904 if how == "no" else 0)


def test_a_stream_that_has_joined_may_be_destroyed(client, memory):
    first, second = client.stream(), client.stream()
    fork, join = client.event(2), client.event(2)
    for joined in (True, False):
        client.do("cuStreamBeginCapture_v2", first, 0)
        client.do("cuEventRecord", fork, first)
        second = client.stream()
        client.do("cuStreamWaitEvent", second, fork, 0)
        client.do("cuMemsetD8Async", memory, 1, 4, second)
        if joined:
            client.do("cuEventRecord", join, second)
            client.do("cuStreamWaitEvent", first, join, 0)
        client.do("cuStreamDestroy_v2", second)
        assert client.code("cuStreamEndCapture", first, OUT) == (0 if joined else 904)


def test_external_events_become_nodes(client):
    stream, event = client.stream(), client.event(2)
    client.do("cuStreamBeginCapture_v2", stream, 0)
    client.do("cuEventRecordWithFlags", event, stream, 1)
    client.do("cuStreamWaitEvent", stream, event, 1)
    client.do("cuStreamEndCapture", stream, OUT)
    assert [_kind(client, node) for node in listed(client, "cuGraphGetNodes", OUT.value)] == [7, 6]
    run(client, ready(client, OUT.value), 2)
    assert client.code("cuEventQuery", event) == 0


def test_a_disabled_node_does_nothing_in_a_capture_either(client, graph, memory):
    stream, first = client.stream(), step(client, graph, memory, 1)
    step(client, graph, memory, 2, after=[first])
    executable = ready(client, graph)
    client.do("cuGraphNodeSetEnabled", executable, first, 0)
    client.do("cuStreamBeginCapture_v2", stream, 0)
    client.do("cuGraphLaunch", executable, stream)
    client.do("cuStreamEndCapture", stream, OUT)
    run(client, ready(client, OUT.value))
    assert client.number(memory) == 2


def test_memory_of_a_graph_freed_after_a_retain(client):
    """It belongs to the primary context, which is not active when a graph of another context is launched."""
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    client.get("cuCtxCreate_v2", 0, 0)
    stream, memory, used = client.stream(), ctypes.c_uint64(), ctypes.c_uint64()
    client.do("cuStreamBeginCapture_v2", stream, 2)
    client.do("cuMemAllocAsync", memory, 1 << 20, stream)
    client.do("cuStreamEndCapture", stream, OUT)
    client.do("cuGraphLaunch", ready(client, OUT.value), stream)
    client.do("cuStreamSynchronize", stream)
    client.do("cuDevicePrimaryCtxRetain", OUT, 0)
    client.do("cuMemFreeAsync", memory.value, stream)
    client.do("cuStreamSynchronize", stream)
    client.do("cuDeviceGetGraphMemAttribute", 0, 0, used)
    assert used.value == 0


# -- conditions


def test_conditions(client, graph):
    context, event = client.context, client.event()
    client.do("cuGraphConditionalHandleCreate", OUT, graph, context, 1, 1)
    condition = OUT.value

    def words(handle, form=0, size=1, where=context):
        return struct.pack("<i3i", 13, 0, 0, 0) + struct.pack("<QiIQQ", handle, form, size, 0, where).ljust(240, b"\0")

    other = client.get("cuGraphCreate", 0)
    for code, target, given in (
        (1, graph, words(123)),
        (1, other, words(condition)),
        (1, graph, words(condition, 1, 2)),
        (1, graph, words(condition, 0, 3)),
        (1, graph, words(condition, 2, 0)),
        (1, graph, words(condition, 3)),
        (201, graph, words(condition, where=event)),
    ):
        assert client.code("cuGraphAddNode_v2", OUT, target, 0, 0, 0, given) == code
    given = ctypes.create_string_buffer(words(condition, 2, 2), 256)
    node = client.get("cuGraphAddNode_v2", graph, 0, 0, 0, given)
    bodies = (ctypes.c_uint64 * 2).from_address(struct.unpack_from("<Q", given.raw, 32)[0])
    assert client.code("cuGraphAddNode_v2", OUT, graph, 0, 0, 0, words(condition)) == 1  # it decides one node
    look = HostFunction(lambda data: None)
    host = HOST.pack(ctypes.cast(look, ctypes.c_void_p).value, 0)
    assert client.code("cuGraphAddHostNode", OUT, bodies[0], 0, 0, host) == 801
    memory = client.upload(bytes(4))
    step(client, bodies[1], memory, 6)
    run(client, ready(client, graph))
    assert client.number(memory) == 6
    assert client.code("cuGraphNodeSetParams", node, words(condition)) == 801
    client.do("cuGraphDestroy", graph)
    assert client.code("cuGraphGetNodes", bodies[0], 0, OUT) == 400
    assert client.code("cuGraphConditionalHandleCreate", OUT, other, context, 0, 2) == 1


@pytest.mark.parametrize("what", ["nothing", "an empty node"])
def test_a_loop_without_a_kernel_that_could_end_it(client, graph, memory, what):
    """A body that the program made itself, instead of the one that the driver returned, leaves such a loop."""
    client.do("cuGraphConditionalHandleCreate", OUT, graph, client.context, 1, 1)
    words = struct.pack("<i3iQiIQQ", 13, 0, 0, 0, OUT.value, 1, 1, 0, client.context).ljust(256, b"\0")
    given = ctypes.create_string_buffer(words, 256)
    client.get("cuGraphAddNode_v2", graph, 0, 0, 0, given)
    (body,) = (ctypes.c_uint64 * 1).from_address(struct.unpack_from("<Q", given.raw, 32)[0])
    if what == "an empty node":
        add(client, body, "EmptyNode")
    client.do("cuGraphLaunch", ready(client, graph), 0)
    assert client.code("cuCtxSynchronize") == 702
    assert "endless loop: a conditional node" in client.emulator.reports[-1]


def test_a_loop_of_short_kernels_ends_after_the_time_that_was_set(client, graph, monkeypatch):
    """The time of all its turns counts: here, each kernel takes a second of a clock that the test makes."""
    executables = module("emulator.entries.graphs.executables")
    monkeypatch.setattr(executables, "perf_counter", itertools.count().__next__)
    client.emulator._machine.space.timeout = 30
    memory = client.upload(b"\x64\0\0\0")
    countdown = client.get("cuModuleGetFunction", client.load(CONDITIONS), b"countdown")
    handle, body = conditional(client, graph, 1, loops=1)
    add(client, body, "KernelNode_v2", kernel_words(countdown, handle, memory))
    client.do("cuGraphLaunch", ready(client, graph), 0)
    assert client.code("cuCtxSynchronize") == 702
    assert "more than 30 seconds" in client.emulator.reports[-1]


def test_a_kernel_that_sets_what_is_no_condition(client):
    function = client.get("cuModuleGetFunction", client.load(CONDITIONS), b"choose")
    assert client.launch(function, [123, client.upload(bytes(4))]) == 0
    assert client.code("cuCtxSynchronize") == 719
    assert "is not the handle of a graph's condition" in client.emulator.reports[-1]


# -- user objects


def test_user_objects(client, graph):
    gone = []
    forget = HostFunction(lambda data: gone.append(data))
    address = ctypes.cast(forget, ctypes.c_void_p).value

    def wait_for(expected):
        for _ in range(200):
            if gone == expected:
                return
            time.sleep(0.01)
        assert gone == expected

    held = client.get("cuUserObjectCreate", 1, address, 2, 1)
    client.do("cuGraphRetainUserObject", graph, held, 1, 1)  # moved
    client.do("cuUserObjectRetain", held, 1)
    client.do("cuUserObjectRelease", held, 2)
    cloned, executable = client.get("cuGraphClone", graph), ready(client, graph)
    client.do("cuGraphDestroy", graph)
    client.do("cuGraphReleaseUserObject", cloned, held, 1)
    assert gone == []
    client.do("cuGraphLaunch", executable, 0)
    client.do("cuGraphExecDestroy", executable)
    client.do("cuCtxSynchronize")
    wait_for([1])
    assert client.code("cuUserObjectRetain", held, 1) == 400
    held = client.get("cuUserObjectCreate", 2, address, 1, 1)
    for code, name, *arguments in (
        (1, "cuUserObjectCreate", OUT, 1, address, 0, 1),
        (1, "cuUserObjectCreate", OUT, 1, address, 1, 0),
        (1, "cuUserObjectCreate", OUT, 1, 0, 1, 1),
        (1, "cuUserObjectRelease", held, 2),
        (1, "cuGraphReleaseUserObject", cloned, held, 1),
        (1, "cuGraphRetainUserObject", cloned, held, 1, 2),
        (1, "cuGraphRetainUserObject", cloned, held, 0, 0),
    ):
        assert client.code(name, *arguments) == code
    client.do("cuUserObjectRelease", held, 1)
    wait_for([1, 2])


@pytest.mark.parametrize("how", ["instantiated", "cloned", "captured", "replaced", "updated"])
def test_user_objects_of_child_graphs(client, graph, how):
    """Executable graphs, clones and captures hold what the child graphs hold, until they are destroyed."""
    gone, called = [], []
    forget, function = HostFunction(gone.append), HostFunction(called.append)
    addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in (forget, function)]

    def holding(data):
        child = client.get("cuGraphCreate", 0)
        add(client, child, "HostNode", struct.pack("PP", addresses[1], data))
        held = client.get("cuUserObjectCreate", data, addresses[0], 1, 1)
        client.do("cuGraphRetainUserObject", child, held, 1, 1)
        return child

    def embedded(child, into):
        node = add(client, into, "ChildGraphNode", child)
        client.do("cuGraphDestroy", child)
        return node

    expected = 7
    if how == "captured":
        child = holding(7)
        executable, stream, captured = ready(client, child), client.stream(), ctypes.c_uint64()
        client.do("cuGraphDestroy", child)
        client.do("cuStreamBeginCapture_v2", stream, 0)
        client.do("cuGraphLaunch", executable, stream)
        client.do("cuStreamEndCapture", stream, captured)
        client.do("cuGraphExecDestroy", executable)
        executable = ready(client, captured.value)
        client.do("cuGraphDestroy", captured.value)
    else:
        node = embedded(holding(7), graph)
        made = client.get("cuGraphClone", graph) if how == "cloned" else graph
        if how == "cloned":
            client.do("cuGraphDestroy", graph)
        executable = ready(client, made)
        if how == "replaced":
            expected, child = 8, holding(8)
            client.do("cuGraphExecChildGraphNodeSetParams", executable, node, child)
            client.do("cuGraphDestroy", child)
        elif how == "updated":
            expected, other = 8, client.get("cuGraphCreate", 0)
            embedded(holding(8), other)
            client.do("cuGraphExecUpdate_v2", executable, other, bytes(24))
            client.do("cuGraphDestroy", other)
        client.do("cuGraphDestroy", made)
    time.sleep(0.05)
    assert expected not in gone
    client.do("cuGraphLaunch", executable, 0)
    client.do("cuCtxSynchronize")
    assert called == [expected]
    client.do("cuGraphExecDestroy", executable)
    for _ in range(200):
        if expected in gone:
            break
        time.sleep(0.01)
    assert sorted(gone) == list(range(7, expected + 1))


def test_user_objects_that_an_update_replaces(client, graph):
    """They are released at once, or when the launches that are pending have ended."""
    gone = []
    forget = HostFunction(gone.append)
    address = ctypes.cast(forget, ctypes.c_void_p).value

    def holding(into, data):
        add(client, into, "EmptyNode")
        held = client.get("cuUserObjectCreate", data, address, 1, 1)
        client.do("cuGraphRetainUserObject", into, held, 1, 1)
        return into

    def update(data):
        other = holding(client.get("cuGraphCreate", 0), data)
        client.do("cuGraphExecUpdate_v2", executable, other, bytes(24))
        client.do("cuGraphDestroy", other)

    def settle(expected):
        for _ in range(200):
            if gone == expected:
                break
            time.sleep(0.01)
        assert gone == expected

    executable = ready(client, holding(graph, 1))
    client.do("cuGraphDestroy", graph)
    update(2)
    settle([1])
    flag, stream = client.pinned(bytes(4)), client.stream()
    client.do("cuStreamWaitValue32_v2", stream, flag, 1, 0)
    client.do("cuGraphLaunch", executable, stream)
    update(3)
    time.sleep(0.02)
    assert gone == [1]
    client.do("cuStreamWriteValue32_v2", client.stream(), flag, 1, 0)
    client.do("cuCtxSynchronize")
    settle([1, 2])
    client.do("cuGraphExecDestroy", executable)
    settle([1, 2, 3])


def test_user_objects_of_a_graph_that_cannot_be_added(client, graph):
    gone, child = [], client.get("cuGraphCreate", 0)
    forget = HostFunction(gone.append)
    address = ctypes.cast(forget, ctypes.c_void_p).value
    held = client.get("cuUserObjectCreate", 1, address, 1, 1)
    client.do("cuGraphRetainUserObject", child, held, 1, 1)
    add(client, child, "EventRecordNode", client.event())  # which bodies cannot contain
    _, body = conditional(client, graph, 1)
    before = client.live()
    assert client.code("cuGraphAddChildGraphNode", OUT, body, 0, 0, child) == 801
    executable, stream = ready(client, child), client.stream()
    client.do("cuStreamBeginCaptureToGraph", stream, body, 0, 0, 0, 0)
    assert client.code("cuGraphLaunch", executable, stream) == 801
    client.code("cuStreamEndCapture", stream, OUT)
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuGraphExecDestroy", executable)
    assert client.live() == before
    client.do("cuGraphDestroy", child)
    for _ in range(200):
        if gone:
            break
        time.sleep(0.01)
    assert gone == [1]


def test_user_objects_are_destroyed_after_a_launch_that_an_error_prevents(client, graph):
    gone = []
    forget = HostFunction(lambda data: gone.append(data))
    held = client.get("cuUserObjectCreate", 5, ctypes.cast(forget, ctypes.c_void_p).value, 1, 1)
    client.do("cuGraphRetainUserObject", graph, held, 1, 1)  # moved
    add(client, graph, "EmptyNode")
    executable, stream, flag = ready(client, graph), client.stream(), client.pinned(bytes(4))
    client.do("cuGraphDestroy", graph)
    client.do("cuStreamWaitValue32_v2", stream, flag, 1, 1)  # so that the launch is pending in each mode
    assert not client.launch(client.kernels()("trap"), [], stream=stream)
    client.do("cuGraphLaunch", executable, stream)
    ctypes.memmove(flag, b"\1\0\0\0", 4)
    assert client.code("cuStreamSynchronize", stream) == 719
    client.do("cuGraphExecDestroy", executable)
    for _ in range(200):
        if gone:
            break
        time.sleep(0.01)
    assert gone == [5]


def test_a_user_object_is_destroyed_once(client, graph):
    """Also if more references are moved to graphs than the caller has."""
    gone, other = [], client.get("cuGraphCreate", 0)
    forget = HostFunction(gone.append)
    held = client.get("cuUserObjectCreate", 1, ctypes.cast(forget, ctypes.c_void_p).value, 1, 1)
    for each in (graph, other):
        client.do("cuGraphRetainUserObject", each, held, 1, 1)
    for each in (graph, other):
        client.do("cuGraphDestroy", each)
    time.sleep(0.05)
    assert gone == [1]


def conditional(client, graph, default, loops=0, into=None, context=None):
    """Add a conditional node to a graph, or into a graph inside it; return its condition and its body."""
    context = context or client.context
    client.do("cuGraphConditionalHandleCreate", OUT, graph, context, default, 1)
    handle = OUT.value
    words = struct.pack("<i3iQiIQQ", 13, 0, 0, 0, handle, loops, 1, 0, context).ljust(256, b"\0")
    given = ctypes.create_string_buffer(words, 256)
    client.get("cuGraphAddNode_v2", into or graph, 0, 0, 0, given)
    return handle, ctypes.c_uint64.from_address(struct.unpack_from("<Q", given.raw, 32)[0]).value


@pytest.fixture
def two():
    """Return a client, and a context of its second device, to whose memory the first one has no access."""
    client = Client(devices=2)
    return client, client.get("cuDevicePrimaryCtxRetain", 1)


@contextlib.contextmanager
def elsewhere(client, context):
    client.do("cuCtxSetCurrent", context)
    yield
    client.do("cuCtxSynchronize")
    client.do("cuCtxSetCurrent", client.context)


@pytest.mark.parametrize(
    "what, inside",
    [
        *itertools.product(["kernel", "copy", "fill"], ["the body", "a child", "another body"]),
        ("condition", "the body"),
        ("condition", "another body"),
    ],
)
def test_a_body_works_in_the_context_of_its_node(two, what, inside):
    client, second = two
    memory, other = client.upload(bytes(4)), client.upload(bytes(4))
    with elsewhere(client, second):
        far = client.kernels()("step")
    for context in (client.context, second):
        graph = client.get("cuGraphCreate", 0)
        body = conditional(client, graph, 1)[1]
        into = body
        if inside == "a child":
            into = client.get("cuGraphCreate", 0)
        elif inside == "another body":
            into = conditional(client, graph, 1, into=body)[1]
        if what == "kernel":
            step(client, into, memory, 3, function=far if context == second else None)
        elif what == "copy":
            add(client, into, "MemcpyNode", copy_words(memory, other, 4), context)
        elif what == "fill":
            add(client, into, "MemsetNode", FILL.pack(memory, 0, 3, 4, 1, 1), context)
        else:
            conditional(client, graph, 1, into=into, context=context)
        if inside == "a child":
            add(client, body, "ChildGraphNode", into)
        code = client.code("cuGraphInstantiateWithFlags", OUT, graph, 0)
        assert code == (0 if context == client.context else 801)


@pytest.mark.parametrize("what", ["source", "target", "fill", "memory of a graph"])
def test_a_body_uses_memory_that_its_device_can_access(two, what):
    """The access is that at the instantiation."""
    client, second = two
    memory, graph = client.upload(bytes(4)), client.get("cuGraphCreate", 0)
    with elsewhere(client, second):
        far = client.upload(bytes(4))
    body = conditional(client, graph, 1)[1]
    if what == "memory of a graph":
        words = allocation_words(4, ordinal=1)
        add(client, client.get("cuGraphCreate", 0), "MemAllocNode", words)
        far = struct.unpack_from("<Q", words.raw, 112)[0]
    if what == "fill":
        add(client, body, "MemsetNode", FILL.pack(far, 0, 3, 4, 1, 1), client.context)
    else:
        words = copy_words(memory, far, 4) if what == "source" else copy_words(far, memory, 4)
        add(client, body, "MemcpyNode", words, client.context)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 801
    assert "device 0, which cannot access it" in client.emulator.explain(801)
    if what != "memory of a graph":
        client.do("cuCtxEnablePeerAccess", second, 0)
        run(client, ready(client, graph))


def test_a_body_does_not_copy_an_array(client, graph):
    """A captured copy to an array has no structure that could be asked for its kinds of memory."""
    array, stream = client.get("cuArrayCreate_v2", struct.pack("2N i I", 4, 0, 1, 1)), client.stream()
    body = conditional(client, graph, 1)[1]
    client.do("cuStreamBeginCaptureToGraph", stream, body, 0, 0, 0, 2)
    client.do("cuMemcpyHtoAAsync_v2", array, 0, client.pinned(bytes(4)), 4, stream)
    client.do("cuStreamEndCapture", stream, OUT)
    assert client.code("cuGraphInstantiateWithFlags", OUT, graph, 0) == 801


def test_an_update_keeps_the_context_of_a_conditional_node(two):
    client, second = two
    one, other = client.get("cuGraphCreate", 0), client.get("cuGraphCreate", 0)
    conditional(client, one, 1)
    conditional(client, other, 1, context=second)
    result = ctypes.create_string_buffer(24)
    assert client.code("cuGraphExecUpdate_v2", ready(client, one), other, result) == 910
    assert struct.unpack_from("<i", result.raw)[0] == 5


@pytest.mark.parametrize("first", ["executable", "graph"])
def test_a_pending_launch_keeps_the_conditions_of_its_graph(client, graph, memory, first):
    """Also after both are destroyed, in either order; later the conditions are gone."""
    choose = client.get("cuModuleGetFunction", client.load(CONDITIONS), b"choose")
    handle, body = conditional(client, graph, 0)
    (node,) = listed(client, "cuGraphGetNodes", graph)
    client.do("cuGraphAddKernelNode_v2", OUT, graph, 0, 0, kernel_words(choose, handle, client.upload(b"\1\0\0\0")))
    client.do("cuGraphAddDependencies", graph, array_of(OUT.value), array_of(node), 1)
    step(client, body, memory, 3)
    executable, stream = ready(client, graph), client.stream()
    client.do("cuCtxSynchronize")
    client.do("cuGraphLaunch", executable, stream)
    calls = [("cuGraphExecDestroy", executable), ("cuGraphDestroy", graph)]
    for call in calls if first == "executable" else calls[::-1]:
        client.do(*call)
    client.do("cuStreamSynchronize", stream)
    assert client.number(memory) == 3 and not client.emulator._machine.space.conditions


def test_an_update_takes_the_conditions_of_the_new_graph(client, graph, memory):
    """Their default values, and their handles, which the kernels of the new graph set."""
    module = client.load(CONDITIONS)
    choose = client.get("cuModuleGetFunction", module, b"choose")
    step_of = client.kernels()("step")

    def built(into, default, wanted, digit):
        handle, body = conditional(client, into, default)
        if wanted is not None:
            (body_node,) = listed(client, "cuGraphGetNodes", into)
            client.do("cuGraphAddKernelNode_v2", OUT, into, 0, 0, kernel_words(choose, handle, client.upload(wanted)))
            client.do("cuGraphAddDependencies", into, array_of(OUT.value), array_of(body_node), 1)
        step(client, body, memory, digit, function=step_of)
        return into

    executable = ready(client, built(graph, 0, None, 1))
    other = built(client.get("cuGraphCreate", 0), 1, None, 2)
    client.do("cuGraphExecUpdate_v2", executable, other, bytes(24))
    client.do("cuGraphDestroy", graph)
    client.do("cuGraphDestroy", other)  # its conditions are in use
    run(client, executable)
    assert client.number(memory) == 2
    client.do("cuGraphExecDestroy", executable)
    first = built(client.get("cuGraphCreate", 0), 1, bytes(4), 3)
    executable = ready(client, first)
    run(client, executable)
    assert client.number(memory) == 2
    second = built(client.get("cuGraphCreate", 0), 0, struct.pack("i", 1), 4)
    client.do("cuGraphExecUpdate_v2", executable, second, bytes(24))
    client.do("cuGraphDestroy", second)
    run(client, executable)
    assert client.number(memory) == 24


def test_an_update_does_not_change_a_pending_launch(client, graph, memory):
    """Not even the body of a conditional node, which is read while the launch runs."""
    function, stream, executable = client.kernels()("step"), client.stream(), None
    for digit in (1, 2):
        into = client.get("cuGraphCreate", 0)
        step(client, conditional(client, into, 1)[1], memory, digit, function=function)
        if executable is None:
            executable = ready(client, into)
        else:
            client.do("cuGraphExecUpdate_v2", executable, into, bytes(24))
        client.do("cuGraphLaunch", executable, stream)
    client.do("cuCtxSynchronize")
    assert client.number(memory) == 12


def test_a_launch_is_one_piece_of_the_order_of_its_stream(client, graph, memory):
    """Other threads' work comes before or after it, even while one of its kernels runs."""
    spin, function = client.kernels()("spin"), client.kernels()("step")
    flag, stream = client.pinned(bytes(4)), client.stream()
    cells = ctypes.create_string_buffer(struct.pack("<Q", flag), 8)
    pointers = array_of(ctypes.addressof(cells))
    words = KERNEL.pack(spin, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    first = step(client, graph, memory, 1, function=function)
    middle = add(client, graph, "KernelNode_v2", words, after=[first])
    step(client, graph, memory, 3, after=[middle], function=function)
    executable = ready(client, graph)

    def launch():
        client.do("cuCtxSetCurrent", client.context)
        client.do("cuGraphLaunch", executable, stream)
        client.do("cuStreamSynchronize", stream)

    def other():
        client.do("cuCtxSetCurrent", client.context)
        client.launch(function, [memory, 2], stream=stream)

    threads = [threading.Thread(target=each) for each in (launch, other)]
    for each in threads:
        each.start()
        time.sleep(0.1)
    ctypes.memmove(flag, b"\1\0\0\0", 4)
    for each in threads:
        each.join()
    client.do("cuCtxSynchronize")
    assert client.number(memory) in (132, 213)


def test_arguments_that_were_read_stay_where_they_are(client, graph, memory):
    node = step(client, graph, memory, 77)
    cloned = listed(client, "cuGraphGetNodes", client.get("cuGraphClone", graph))[0]

    def read(which):
        words = ctypes.create_string_buffer(72)
        client.do("cuGraphKernelNodeGetParams_v2", which, words)
        pointers = struct.unpack_from("<Q", words.raw, 40)[0]
        return pointers, [
            ctypes.c_uint64.from_address(each).value for each in (ctypes.c_uint64 * 2).from_address(pointers)
        ]

    first = read(node)
    assert read(cloned)[0] != first[0] and read(cloned)[1] == first[1]
    client.do("cuGraphKernelNodeSetAttribute", node, 2, bytes(64))
    assert read(node) == first
    assert [ctypes.c_uint64.from_address(each).value for each in (ctypes.c_uint64 * 2).from_address(first[0])] == first[
        1
    ]


def test_the_dependencies_of_two_streams_stay_where_they_are(client, memory):
    first, second, fork = client.stream(), client.stream(), client.event(2)
    client.do("cuStreamBeginCapture_v2", first, 0)
    client.do("cuEventRecord", fork, first)
    client.do("cuStreamWaitEvent", second, fork, 0)
    found = []
    for stream in (first, second):
        client.do("cuMemsetD8Async", memory, 1, 4, stream)
        client.do("cuStreamGetCaptureInfo_v2", stream, ctypes.c_int(), 0, 0, OUT, 0)
        found.append((OUT.value, ctypes.c_uint64.from_address(OUT.value).value))
    assert found[0][0] != found[1][0] and found[0][1] != found[1][1]
    assert ctypes.c_uint64.from_address(found[0][0]).value == found[0][1]


def test_a_launch_that_is_refused_runs_nothing(client, graph, memory):
    """The event that a launch attribute names was destroyed."""
    event, function = client.event(2), client.kernels()("step")
    node = step(client, graph, memory, 1, function=function)
    last = step(client, graph, memory, 2, after=[node], function=function)
    client.do("cuGraphKernelNodeSetAttribute", last, 7, struct.pack("<Qii", event, 0, 0).ljust(64, b"\0"))
    executable = ready(client, graph)
    client.do("cuEventDestroy_v2", event)
    assert client.code("cuGraphLaunch", executable, 0) == 400
    client.do("cuCtxSynchronize")
    assert client.number(memory) == 0


def test_the_legacy_stream_while_a_blocking_stream_is_captured(client):
    """What is refused changes nothing; questions are refused, but invalidate nothing."""
    stream, other, event = client.stream(0), client.stream(), client.event(2)
    client.do("cuStreamBeginCapture_v2", stream, 2)
    assert client.code("cuStreamGetCaptureInfo_v2", 1, ctypes.c_int(), 0, 0, 0, 0) == 906
    client.do("cuStreamEndCapture", stream, OUT)
    client.do("cuEventRecord", event, 0)
    client.do("cuEventSynchronize", event)
    client.do("cuStreamBeginCapture_v2", stream, 2)
    assert client.code("cuStreamWaitEvent", 0, event, 0) == 906
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    client.do("cuStreamBeginCapture_v2", stream, 2)
    client.do("cuEventRecord", event, stream)
    assert client.code("cuEventRecord", event, 0) == 906
    assert client.code("cuStreamWaitEvent", other, event, 0) == 901  # it is still an event of the capture
    assert client.code("cuStreamEndCapture", stream, OUT) == 901


def test_a_refused_child_graph_changes_nothing(client, graph, memory):
    """The inner nodes of the first child graph fit, those of the second do not."""
    child, other = client.get("cuGraphCreate", 0), client.get("cuGraphCreate", 0)
    for into, last in ((child, "EmptyNode"), (other, None)):
        inner = client.get("cuGraphCreate", 0)
        step(client, inner, memory, 1 if into == child else 2)
        add(client, into, "ChildGraphNode", inner)
        if last:
            add(client, into, last)
        else:
            step(client, into, memory, 3)
    node = add(client, graph, "ChildGraphNode", child)
    executable = ready(client, graph)
    assert client.code("cuGraphExecChildGraphNodeSetParams", executable, node, other) == 1
    client.do("cuGraphLaunch", executable, 0)
    client.do("cuCtxSynchronize")
    assert client.download(memory, 4) == struct.pack("i", 1)


def test_what_a_capture_refuses_can_be_done_later(client, graph):
    """Work on the legacy default stream, while a blocking stream is being captured."""
    memory, stream, captured = client.get("cuMemAllocAsync", 256, 0), client.stream(0), ctypes.c_uint64()
    gone = []
    forget = HostFunction(gone.append)
    held = client.get("cuUserObjectCreate", 5, ctypes.cast(forget, ctypes.c_void_p).value, 1, 1)
    client.do("cuGraphRetainUserObject", graph, held, 1, 1)
    executable = ready(client, graph)
    client.do("cuGraphDestroy", graph)
    for name, *arguments in (("cuMemFreeAsync", memory, 0), ("cuGraphLaunch", executable, 0)):
        client.do("cuStreamBeginCapture_v2", stream, 2)
        assert client.code(name, *arguments) == 906
        assert client.code("cuStreamEndCapture", stream, captured) == 901
    client.do("cuMemFreeAsync", memory, 0)
    client.do("cuGraphExecDestroy", executable)
    for _ in range(200):
        if gone:
            break
        time.sleep(0.01)
    assert gone == [5]


def test_the_text_of_a_graph(client, graph, memory, tmp_path):
    first = step(client, graph, memory, 1)
    add(client, graph, "EmptyNode", after=[first])
    path = tmp_path / "graph.dot"
    client.do("cuGraphDebugDotPrint", graph, str(path).encode() + b"\0", 1)
    text = path.read_text()
    assert text.startswith("digraph dot {") and "KERNEL | step | grid (1, 1, 1)" in text and "->" in text
    assert client.code("cuGraphDebugDotPrint", graph, str(tmp_path / "no" / "x").encode() + b"\0", 0) == 304
    assert client.code("cuGraphDebugDotPrint", graph, 0, 0) == 1


def test_what_was_destroyed_before_the_graph(client, memory):
    loaded = client.load(CONDITIONS)
    for make, destroy in (
        (lambda graph: add(client, graph, "EventRecordNode", event), lambda: client.do("cuEventDestroy_v2", event)),
        (lambda graph: add(client, graph, "EventWaitNode", event), lambda: client.do("cuEventDestroy_v2", event)),
        (
            lambda graph: add(
                client, graph, "KernelNode_v2", kernel_words(client.get("cuModuleGetFunction", loaded, b"choose"), 0, 0)
            ),
            lambda: client.do("cuModuleUnload", loaded),
        ),
    ):
        event, graph = client.event(), client.get("cuGraphCreate", 0)
        make(graph)
        executable = ready(client, graph)
        destroy()
        assert client.code("cuGraphLaunch", executable, 0) == 400
