"""Entry points: graphs.

What it is   what can be done with a graph that a capture made: look at it, copy, instantiate, update, launch and destroy it.
What not     it makes no nodes one by one: see gaps.py.
How          launching gives the nodes to a stream, one after another; in random mode in any order that they allow.
Source       CUDA Driver API, "Graph Management"
Read next    captures.py, gaps.py
"""
from __future__ import annotations

from .captures import Graph, GraphExec, Node
from .codes import Refused
from .machine import Machine
from .thunks import entry
from .words import get_u64, out, put_bytes, put_int, put_u64, text

__all__: list[str] = []


@entry("cuGraphCreate(CUgraph *phGraph, unsigned int flags)", since=10000)
def create(machine: Machine, address: int, flags: int) -> None:
    """Make an empty graph."""
    out(address)
    if flags:
        raise Refused(1)
    put_u64(address, machine.add(Graph()).handle)


@entry("cuGraphDestroy(CUgraph hGraph)", since=10000)
def destroy(machine: Machine, handle: int) -> None:
    """Forget a graph; what was instantiated from it stays."""
    machine.get(Graph, handle).forget(machine)
    del machine.handles[handle]


@entry("cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)", since=10000)
def clone(machine: Machine, address: int, handle: int) -> None:
    """Copy a graph."""
    out(address)
    copied = Graph()
    copied.nodes = [machine.add(Node(node.run, node.name, node.kind, node.after)) for node in machine.get(Graph, handle).nodes]
    put_u64(address, machine.add(copied).handle)


@entry("cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)", since=10000)
def get_nodes(machine: Machine, handle: int, nodes: int, count: int) -> None:
    """Count a graph's nodes, or list as many as there is room for; the rest is filled with NULL."""
    _list(machine.get(Graph, handle).nodes, nodes, count)


@entry("cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)", since=10000)
def get_root_nodes(machine: Machine, handle: int, nodes: int, count: int) -> None:
    """Count or list the nodes that wait for none."""
    _list([node for node in machine.get(Graph, handle).nodes if not node.after], nodes, count)


def _list(found: list[Node], nodes: int, count: int) -> None:
    out(count)
    if nodes:
        for index in range(get_u64(count)):
            put_u64(nodes + 8 * index, found[index].handle if index < len(found) else 0)
        put_u64(count, min(get_u64(count), len(found)))
    else:
        put_u64(count, len(found))


@entry("cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)", since=10000)
def node_type(machine: Machine, handle: int, address: int) -> None:
    """Say what a node does."""
    put_int(address, machine.get(Node, handle).graph_type)


def _instantiate(machine: Machine, address: int, handle: int, flags: int) -> None:
    out(address)
    machine.context()
    if flags & ~15:
        raise Refused(1)
    put_u64(address, machine.add(GraphExec(machine.get(Graph, handle), flags)).handle)


@entry("cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)", since=11040)
def instantiate(machine: Machine, address: int, handle: int, flags: int) -> None:
    """Make a graph ready to launch."""
    _instantiate(machine, address, handle, flags)


@entry("cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)",
       since=12000)
def instantiate_with_parameters(machine: Machine, address: int, handle: int, parameters: int) -> None:
    """Make a graph ready to launch; flags come in a structure, and a result goes back in it."""
    _instantiate(machine, address, handle, get_u64(parameters))
    put_bytes(parameters + 16, bytes(12))        # no erring node, CUDA_GRAPH_INSTANTIATE_SUCCESS


@entry("cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, "
       "size_t bufferSize)", since=11000)
@entry("cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, "
       "size_t bufferSize)", since=10000)
def instantiate_v1(machine: Machine, address: int, handle: int, node: int, log: int, size: int) -> None:
    """Make a graph ready to launch, as CUDA 11 did."""
    _instantiate(machine, address, handle, 0)
    if node:
        put_u64(node, 0)
    if log and size:
        put_bytes(log, b"\0")


def _update(machine: Machine, handle: int, graph_handle: int) -> int:
    """Put a graph's nodes in place of an instantiated one's, if they are alike; return a CUgraphExecUpdateResult."""
    made, graph = machine.get(GraphExec, handle), machine.get(Graph, graph_handle)
    if [node.after for node in made.nodes] != [node.after for node in graph.nodes]:
        return 2
    if [node.graph_type for node in made.nodes] != [node.graph_type for node in graph.nodes]:
        return 3
    made.nodes = tuple(graph.nodes)
    return 0


@entry("cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)", since=12000)
def update(machine: Machine, handle: int, graph: int, information: int) -> int:
    """Replace what an instantiated graph does by what a graph of the same shape does."""
    out(information)
    result = _update(machine, handle, graph)
    put_bytes(information, result.to_bytes(8, "little") + bytes(16))
    return 910 if result else 0


@entry("cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out, "
       "CUgraphExecUpdateResult *updateResult_out)", since=10020)
def update_v1(machine: Machine, handle: int, graph: int, node: int, address: int) -> int:
    """Replace what an instantiated graph does, as CUDA 11 did."""
    out(address)
    result = _update(machine, handle, graph)
    if node:
        put_u64(node, 0)
    put_int(address, result)
    return 910 if result else 0


@entry("cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)", since=12000)
def exec_flags(machine: Machine, handle: int, address: int) -> None:
    """Give the flags of an instantiated graph."""
    put_u64(address, machine.get(GraphExec, handle).flags)


@entry("cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)", since=11010)
def upload(machine: Machine, handle: int, stream: int) -> None:
    """Do nothing: a graph is where it is launched."""
    machine.get(GraphExec, handle)
    machine.stream(stream)


@entry("cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)", since=10000)
def launch(machine: Machine, handle: int, stream_handle: int) -> None:
    """Give a graph's nodes to a stream."""
    stream = machine.stream(stream_handle)
    graph = machine.get(GraphExec, handle)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(801, "a graph inside a graph is not emulated")
    for node in graph.order(machine.queues.chance):
        machine.queues.submit(stream, node.run, node.name, node.kind)


@entry("cuGraphExecDestroy(CUgraphExec hGraphExec)", since=10000)
def exec_destroy(machine: Machine, handle: int) -> None:
    """Forget an instantiated graph."""
    machine.get(GraphExec, handle)
    del machine.handles[handle]


@entry("cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)", since=11030)
def print_dot(machine: Machine, handle: int, path: int, flags: int) -> None:
    """Write a graph as text for Graphviz: each node with what it does, and an arrow from what it waits for."""
    nodes = machine.get(Graph, handle).nodes
    lines = [f'  n{index} [label="{node.name}"];' for index, node in enumerate(nodes)]
    lines += [f"  n{before} -> n{index};" for index, node in enumerate(nodes) for before in node.after]
    try:
        with open(text(path), "w", encoding="utf-8") as file:
            file.write("\n".join(["digraph graph_of_work {", *lines, "}", ""]))
    except OSError as error:
        raise Refused(304, str(error)) from None


# -- memory that graphs allocate: none does

@entry("cuDeviceGraphMemTrim(CUdevice device)", since=11040)
def trim_memory(machine: Machine, device: int) -> None:
    """Do nothing."""
    machine.device(device)


@entry("cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)", since=11040)
def get_memory_attribute(machine: Machine, device: int, number: int, address: int) -> None:
    """Say that graphs use no memory of their own."""
    out(address)
    machine.device(device)
    if not 0 <= number <= 3:
        raise Refused(1)
    put_u64(address, 0)


@entry("cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)", since=11040)
def set_memory_attribute(machine: Machine, device: int, number: int, address: int) -> None:
    """Reset a high-water mark, which is 0."""
    machine.device(device)
    if number not in (1, 3) or get_u64(address):
        raise Refused(1)
