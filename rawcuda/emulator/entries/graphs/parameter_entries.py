"""Nodes that are added, queried and changed with structures of C.

How          a `Form` reads and writes one structure. The calls for each type of node and the calls for any type
             (cuGraphAddNode, ...) use the same forms. Every change of a node is made by `replace`.
Source       CUDA Driver API, "Graph Management"; cuda.h, CUgraphNodeParams and the structures inside it
Read next    executables.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import ACCESS_DESC, MEMCPY3D, POOL_PROPS, entry, out, put_bytes, put_u64, put_word, read
from ...machine.codes import Refused
from ...machine.machine import Machine
from ..code.modules import function_at
from ..memories.pools import properties_at
from ..tasks.attribute_entries import check_number
from ..tasks.launch_entries import read_arguments
from .condition_entries import condition_at, context_at
from .definitions import Graph, Node, copy_of, graph_at, node_at, nodes_at
from .operations import (
    Allocate,
    Child,
    Conditional,
    Copy,
    Empty,
    Fill,
    Free,
    Host,
    Launch,
    Operation,
    Record,
    Wait,
)
from .reservations import reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T", bound=Operation)

__all__ = ["add", "changed", "operation_at", "read_kernel"]

KERNEL = struct.Struct("P 7I PP PP")  # function; grid, block, shared; parameters, extra; kernel, context
FILL = struct.Struct("QN II NN")  # address, pitch; value, size of an element; width, height
HOST = struct.Struct("PP")
COPY = struct.Struct("2i P 0Q")  # flags, reserved, context; a CUDA_MEMCPY3D follows
ALLOCATE = struct.Struct("P 2N Q")  # after CUmemPoolProps: access descriptions, their number; size, address
CONDITIONAL = struct.Struct("Q iI PP")  # handle; type, size; bodies, context
CHILD = struct.Struct("P i 0P")
EVENT = struct.Struct("P")
FREE = struct.Struct("Q")
NODE = struct.Struct("<i 3i")  # type; a union of 232 bytes, and 8 bytes, follow
_UNION, _UNION_BYTES = 16, 232
_OLD_KERNEL = struct.calcsize("P 7I PP")  # bytes of CUDA_KERNEL_NODE_PARAMS_v1


# -- from structures


def read_kernel(machine: Machine, address: int, *, is_old: bool = False) -> Operation:
    """Read a CUDA_KERNEL_NODE_PARAMS, whose old form ends before `kern`."""
    if not address:
        raise Refused(1)
    words = KERNEL.unpack(ctypes.string_at(address, _OLD_KERNEL if is_old else KERNEL.size).ljust(KERNEL.size, b"\0"))
    handle, gx, gy, gz, bx, by, bz, shared, parameters, extra, kernel, _ = words
    function = function_at(machine, handle or kernel)
    arguments = read_arguments(function, parameters, extra)
    return Launch(function, (gx, gy, gz), (bx, by, bz), shared, arguments, {})


def _read_copy(machine: Machine, address: int, context: int) -> Operation:
    return Copy(read(MEMCPY3D, address), context_at(machine, context))


def _read_fill(machine: Machine, address: int, context: int) -> Operation:
    place, pitch, value, size, width, height = read(FILL, address)
    return Fill(place, pitch, value, size, width, height, context_at(machine, context))


def _read_host(machine: Machine, address: int) -> Operation:
    function, data = read(HOST, address)
    return Host(function, data)


def operation_at(machine: Machine, graph: Graph, address: int, *, old: Node | None = None) -> Operation:
    """Read a CUgraphNodeParams, whose unused bytes must be 0.

    old  the node that gets these parameters, or None for a new node
    """
    if not address:
        raise Refused(1)
    kind, *reserved = read(NODE, address)
    if any(reserved):
        raise Refused(1, "the reserved bytes of CUgraphNodeParams must be 0")
    at = address + _UNION
    used = _SIZES.get(kind)
    if used is None:
        raise Refused(801, f"nodes of type {kind} are not emulated")
    if any(ctypes.string_at(at + used, _UNION_BYTES + 8 - used)):
        raise Refused(1, "the bytes after the parameters in CUgraphNodeParams must be 0")
    if old is not None and old.does.type != kind:
        raise Refused(1, f"the node is {old.does.name} (type {old.does.type}), and the parameters are of type {kind}")
    if old is not None and kind in (10, 11, 13):
        raise Refused(801, f"the parameters of {old.does.name} cannot be changed")
    return _READ[kind](machine, graph, at)


def _read_node_copy(machine: Machine, graph: Graph, at: int) -> Operation:
    flags, reserved, context = read(COPY, at)
    if flags or reserved:
        raise Refused(1)
    return _read_copy(machine, at + COPY.size, context)


def _read_child(machine: Machine, graph: Graph, at: int) -> Operation:
    handle, ownership = read(CHILD, at)
    return child_of(machine, graph, graph_at(machine, handle), ownership)


def child_of(machine: Machine, graph: Graph, child: Graph, ownership: int = 0) -> Operation:
    """Return the operation of a child graph node: it holds a copy of the child, or, with ownership 1, the child."""
    if ownership not in (0, 1):
        raise Refused(1)
    if child.root is graph.root:
        raise Refused(1, "a graph cannot contain itself")
    if child.holds(Conditional) and not ownership:
        raise Refused(801, "a graph with conditional nodes can be a child graph only if it is moved there")
    if child.holds(Allocate, Free) and not ownership:
        raise Refused(801, "a graph with allocations or frees can be a child graph only if it is moved there")
    if ownership:
        if child.parent is not None or child.executables:
            raise Refused(1, "a graph that belongs to a node, or that has an executable graph, cannot be moved")
        child.counted = False
        return Child(child, 1)
    graph.check_node(Child(child))  # before the copy, which nothing would destroy
    made = copy_of(machine, child)
    made.counted = False
    return Child(made)


def _read_allocate(machine: Machine, graph: Graph, at: int) -> Operation:
    kind, handles, where, ordinal, _ = properties_at(at)
    accesses, count, nbytes, _ = read(ALLOCATE, at + POOL_PROPS.size)
    if kind != 1 or handles:
        raise Refused(1, "an allocation node needs pinned memory without handles for other processes")
    if where != 1:
        raise Refused(801, f"location type {where}: only device memory (1) can be allocated in a graph")
    device, access = machine.device(ordinal), {}
    for index in range(count):
        place, other, flags = read(ACCESS_DESC, accesses + index * ACCESS_DESC.size)
        if place != 1 or flags not in (1, 3):
            raise Refused(1)
        access[machine.device(other).ordinal] = flags
    if graph.parent is not None:
        raise Refused(801, "a graph inside a node cannot have allocation nodes: allocate in the outermost graph")
    memory = reserve(machine, graph, device, nbytes, access)
    put_u64(at + POOL_PROPS.size + ALLOCATE.size - 8, memory.base)
    return Allocate(memory)


def free_of(machine: Machine, graph: Graph, address: int) -> Operation:
    """Return the operation of a free node for the address of an allocation node."""
    memory = machine.graph_memory.get(address)
    if memory is None:
        raise Refused(1, f"{address:#x} is not the address of an allocation node")
    if memory.freed_by is not None and (memory.freed_by is graph or graph is memory.graph):
        raise Refused(1, f"the memory at {address:#x} has a free node already, and can have only one")
    if memory.freed_by is memory.graph:
        raise Refused(1, f"the graph that allocates the memory at {address:#x} frees it already")
    return Free(memory)


def _read_conditional(machine: Machine, graph: Graph, at: int) -> Operation:
    handle, form, size, _, context = read(CONDITIONAL, at)
    if form not in (0, 1, 2) or not size or (form == 1 and size != 1) or (form == 0 and size > 2):
        raise Refused(
            1,
            f"a conditional node of type {form} with {size} bodies: if (0) has 1 or 2, while (1) has 1, switch (2) any",
        )
    condition = condition_at(machine, graph, handle)
    if context_at(machine, context) is not condition.context:
        raise Refused(1, "the condition and its node must belong to the same context")
    bodies = tuple([machine.add(Graph()) for _ in range(size)])
    array = (ctypes.c_void_p * size)(*[body.handle for body in bodies])
    for body in bodies:
        body.counted = False
    put_word(at + 16, ctypes.addressof(array))
    return Conditional(condition, form, bodies, array)


_READ: dict[int, Callable[[Machine, Graph, int], Operation]] = {
    0: lambda machine, graph, at: read_kernel(machine, at),
    1: _read_node_copy,
    2: lambda machine, graph, at: _read_fill(machine, at, read(struct.Struct(FILL.format + "P"), at)[-1]),
    3: lambda machine, graph, at: _read_host(machine, at),
    4: _read_child,
    5: lambda machine, graph, at: Empty(),
    6: lambda machine, graph, at: Wait(machine.event(read(EVENT, at)[0])),
    7: lambda machine, graph, at: Record(machine.event(read(EVENT, at)[0])),
    10: _read_allocate,
    11: lambda machine, graph, at: free_of(machine, graph, read(FREE, at)[0]),
    13: _read_conditional,
}
_SIZES = {
    **{0: KERNEL.size, 1: COPY.size + MEMCPY3D.size, 2: struct.calcsize(FILL.format + "P 0Q"), 3: HOST.size},
    **{4: CHILD.size, 5: 0, 6: EVENT.size, 7: EVENT.size, 10: POOL_PROPS.size + ALLOCATE.size, 11: FREE.size},
    13: CONDITIONAL.size,
}


# -- adding


def add(
    machine: Machine,
    address: int,
    handle: int,
    others: int,
    count: int,
    make: Callable[[Graph], Operation],
    data: int = 0,
) -> Node:
    """Add a node, and write its handle."""
    out(address)
    graph = graph_at(machine, handle)
    after = nodes_at(machine, graph, others, count, data)
    does = make(graph)
    does.check(machine)
    node = graph.add(machine, does, after)
    if isinstance(does, Conditional):
        does.condition.node = node
    elif isinstance(does, Free):
        does.memory.freed_by = graph
    put_word(address, node.handle)
    return node


@entry(
    "cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)",
    since=12030,
)
def add_node_v2(
    machine: Machine, address: int, handle: int, others: int, data: int, count: int, parameters: int
) -> None:
    """Add a node of any type."""
    add(machine, address, handle, others, count, lambda graph: operation_at(machine, graph, parameters), data)


@entry(
    "cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, CUgraphNodeParams *nodeParams)",
    since=12020,
)
def add_node(machine: Machine, address: int, handle: int, others: int, count: int, parameters: int) -> None:
    """Add a node of any type."""
    add(machine, address, handle, others, count, lambda graph: operation_at(machine, graph, parameters))


_DEPENDENCIES = "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies"


@entry(f"cuGraphAddKernelNode_v2({_DEPENDENCIES}, const CUDA_KERNEL_NODE_PARAMS *nodeParams)", since=12000)
def add_kernel(machine: Machine, address: int, handle: int, others: int, count: int, parameters: int) -> None:
    """Add the launch of a kernel."""
    add(machine, address, handle, others, count, lambda graph: read_kernel(machine, parameters))


@entry(f"cuGraphAddKernelNode({_DEPENDENCIES}, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)", since=10000)
def add_old_kernel(machine: Machine, address: int, handle: int, others: int, count: int, parameters: int) -> None:
    """Add the launch of a kernel."""
    add(machine, address, handle, others, count, lambda graph: read_kernel(machine, parameters, is_old=True))


@entry(f"cuGraphAddMemcpyNode({_DEPENDENCIES}, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)", since=10000)
def add_copy(
    machine: Machine, address: int, handle: int, others: int, count: int, parameters: int, context: int
) -> None:
    """Add a copy."""
    add(machine, address, handle, others, count, lambda graph: _read_copy(machine, parameters, context))


@entry(
    f"cuGraphAddMemsetNode({_DEPENDENCIES}, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)", since=10000
)
def add_fill(
    machine: Machine, address: int, handle: int, others: int, count: int, parameters: int, context: int
) -> None:
    """Add a fill."""
    add(machine, address, handle, others, count, lambda graph: _read_fill(machine, parameters, context))


@entry(f"cuGraphAddHostNode({_DEPENDENCIES}, const CUDA_HOST_NODE_PARAMS *nodeParams)", since=10000)
def add_host(machine: Machine, address: int, handle: int, others: int, count: int, parameters: int) -> None:
    """Add a call of a host function."""
    add(machine, address, handle, others, count, lambda graph: _read_host(machine, parameters))


@entry(f"cuGraphAddChildGraphNode({_DEPENDENCIES}, CUgraph childGraph)", since=10000)
def add_child(machine: Machine, address: int, handle: int, others: int, count: int, child: int) -> None:
    """Add a copy of another graph."""
    add(machine, address, handle, others, count, lambda graph: child_of(machine, graph, graph_at(machine, child)))


@entry(f"cuGraphAddEmptyNode({_DEPENDENCIES})", since=10000)
def add_empty(machine: Machine, address: int, handle: int, others: int, count: int) -> None:
    """Add a node that does nothing."""
    add(machine, address, handle, others, count, lambda graph: Empty())


@entry(f"cuGraphAddEventRecordNode({_DEPENDENCIES}, CUevent event)", since=11010)
def add_record(machine: Machine, address: int, handle: int, others: int, count: int, event: int) -> None:
    """Add a record of an event."""
    add(machine, address, handle, others, count, lambda graph: Record(machine.event(event)))


@entry(f"cuGraphAddEventWaitNode({_DEPENDENCIES}, CUevent event)", since=11010)
def add_wait(machine: Machine, address: int, handle: int, others: int, count: int, event: int) -> None:
    """Add a wait for an event."""
    add(machine, address, handle, others, count, lambda graph: Wait(machine.event(event)))


@entry(f"cuGraphAddMemAllocNode({_DEPENDENCIES}, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)", since=11040)
def add_allocate(machine: Machine, address: int, handle: int, others: int, count: int, parameters: int) -> None:
    """Add an allocation, and write its address."""
    out(parameters)
    add(machine, address, handle, others, count, lambda graph: _read_allocate(machine, graph, parameters))


@entry(f"cuGraphAddMemFreeNode({_DEPENDENCIES}, CUdeviceptr dptr)", since=11040)
def add_free(machine: Machine, address: int, handle: int, others: int, count: int, memory: int) -> None:
    """Add a free of memory that a graph allocates."""
    add(machine, address, handle, others, count, lambda graph: free_of(machine, graph, memory))


# -- queries


def _does(node: Node, kind: type[T]) -> T:
    """Return the operation of a node, which must be of a given class."""
    if not isinstance(node.does, kind):
        raise Refused(1, f"this node is {node.does.name}, not of the type that this call handles")
    return node.does


def _put_kernel(machine: Machine, handle: int, address: int, size: int) -> None:
    out(address)
    node = node_at(machine, handle)
    does = _does(node, Launch)
    places = does.function.entry.parameters
    if node.shown is None or node.shown[:2] != (does.function, does.arguments):
        block = ctypes.create_string_buffer(does.arguments, max(len(does.arguments), 1))
        pointers = (ctypes.c_void_p * max(len(places), 1))(*[ctypes.addressof(block) + offset for offset, _ in places])
        node.shown = does.function, does.arguments, block, pointers
    words = KERNEL.pack(
        does.function.handle,
        *does.grid,
        *does.block,
        does.shared,
        ctypes.addressof(node.shown[3]) if places else 0,
        0,
        0,
        does.function.module.context.handle,
    )
    put_bytes(address, words[:size])


@entry("cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)", since=12000)
def get_kernel(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of a launch; the arguments lie in memory of the node."""
    _put_kernel(machine, handle, address, KERNEL.size)


@entry("cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)", since=10000)
def get_old_kernel(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of a launch; the arguments lie in memory of the node."""
    _put_kernel(machine, handle, address, _OLD_KERNEL)


@entry("cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)", since=10000)
def get_copy(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of a copy."""
    does = _does(node_at(machine, handle), Copy)
    put_bytes(address, MEMCPY3D.pack(*does.words))


@entry("cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)", since=10000)
def get_fill(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of a fill."""
    does = _does(node_at(machine, handle), Fill)
    put_bytes(address, FILL.pack(does.address, does.pitch, does.value, does.width, does.count, does.height))


@entry("cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)", since=10000)
def get_host(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of a host function."""
    does = _does(node_at(machine, handle), Host)
    put_bytes(address, HOST.pack(does.function, does.data))


@entry("cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)", since=11010)
def get_record(machine: Machine, handle: int, address: int) -> None:
    """Write the event that a node records."""
    does = _does(node_at(machine, handle), Record)
    put_word(address, does.event.handle)


@entry("cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)", since=11010)
def get_wait(machine: Machine, handle: int, address: int) -> None:
    """Write the event that a node waits for."""
    does = _does(node_at(machine, handle), Wait)
    put_word(address, does.event.handle)


@entry("cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)", since=11040)
def get_allocate(machine: Machine, handle: int, address: int) -> None:
    """Write the parameters of an allocation, without its access descriptions."""
    does = _does(node_at(machine, handle), Allocate)
    memory = does.memory
    properties = POOL_PROPS.pack(1, 0, 1, memory.device.ordinal, 0, 0, 0)
    put_bytes(address, properties + ALLOCATE.pack(0, 0, memory.size, memory.base))


@entry("cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)", since=11040)
def get_free(machine: Machine, handle: int, address: int) -> None:
    """Write the address that a node frees."""
    does = _does(node_at(machine, handle), Free)
    put_u64(address, does.memory.base)


# -- changing


def changed(machine: Machine, handle: int, kind: type[Operation], make: Callable[[Node], Operation]) -> None:
    """Give a node of a graph another operation."""
    node = node_at(machine, handle)
    _does(node, kind)
    does = make(node)
    does.check(machine)
    if isinstance(does, Launch) and isinstance(node.does, Launch):
        does.attributes = node.does.attributes
    node.does = does


@entry("cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)", since=12000)
def set_kernel(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a launch."""
    changed(machine, handle, Launch, lambda node: read_kernel(machine, address))


@entry("cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)", since=10000)
def set_old_kernel(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a launch."""
    changed(machine, handle, Launch, lambda node: read_kernel(machine, address, is_old=True))


def _context_of(node: Node) -> int:
    if isinstance(node.does, (Copy, Fill)):
        return node.does.context.handle
    return 0


@entry("cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)", since=10000)
def set_copy(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a copy."""
    changed(machine, handle, Copy, lambda node: _read_copy(machine, address, _context_of(node)))


@entry("cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)", since=10000)
def set_fill(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a fill."""
    changed(machine, handle, Fill, lambda node: _read_fill(machine, address, _context_of(node)))


@entry("cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)", since=10000)
def set_host(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a host function."""
    changed(machine, handle, Host, lambda node: _read_host(machine, address))


@entry("cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)", since=11010)
def set_record(machine: Machine, handle: int, event: int) -> None:
    """Set the event that a node records."""
    changed(machine, handle, Record, lambda node: Record(machine.event(event)))


@entry("cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)", since=11010)
def set_wait(machine: Machine, handle: int, event: int) -> None:
    """Set the event that a node waits for."""
    changed(machine, handle, Wait, lambda node: Wait(machine.event(event)))


@entry("cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)", since=12020)
def set_node(machine: Machine, handle: int, address: int) -> None:
    """Set the parameters of a node of any type."""
    node = node_at(machine, handle)
    does = operation_at(machine, node.graph, address, old=node)
    if isinstance(does, Child):
        raise Refused(801, "the child graph of a node cannot be replaced: change the nodes of the child graph")
    changed(machine, handle, type(node.does), lambda node: does)


# -- attributes of launches


def _launch_at(machine: Machine, handle: int) -> Launch:
    return _does(node_at(machine, handle), Launch)


@entry(
    "cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)",
    since=11000,
)
def set_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Set an attribute of a launch."""
    out(address)
    does = _launch_at(machine, handle)
    check_number(number)
    wanted = {**does.attributes, number: ctypes.string_at(address, 64)}
    made = Launch(does.function, does.grid, does.block, does.shared, does.arguments, wanted)
    made.check(machine)
    node_at(machine, handle).does = made


@entry(
    "cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)",
    since=11000,
)
def get_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Write an attribute of a launch; one that was not set is 0."""
    out(address)
    check_number(number)
    put_bytes(address, _launch_at(machine, handle).attributes.get(number, bytes(64)))


@entry("cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)", since=11000)
def copy_attributes(machine: Machine, target: int, source: int) -> None:
    """Copy all attributes of a launch to another."""
    to, of = _launch_at(machine, target), _launch_at(machine, source)
    node_at(machine, target).does = Launch(
        to.function, to.grid, to.block, to.shared, to.arguments, {**to.attributes, **of.attributes}
    )
