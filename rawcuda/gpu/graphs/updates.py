"""Changes of nodes, in a graph and in executable graphs, and the update of a whole executable graph.

Source       CUDA Driver API, cuGraphExecUpdate, cuGraphExecKernelNodeSetParams and similar functions
Read next    nodes.py
"""

from __future__ import annotations

import ctypes
from ctypes import byref

from ...errors import CudaError, InvalidUse, a_kind
from ...headers import cuda_h
from ...headers.status import GRAPH_EXEC_UPDATE_FAILURE
from ..core.calls import reworded
from ..core.context import attempt
from . import node_parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...driver import Driver
    from ...gpu.graphs.executable import Executable
    from ...gpu.graphs.graph import Graph
    from .node_parameters import Given
    from .nodes import Node

__all__ = ["set_executable_node", "set_node", "update"]

# CUgraphExecUpdateResult
_REASONS = {
    1: "it cannot be updated",
    2: "it has other edges, or the graphs have different numbers of nodes",
    3: "it is of another kind",
    4: "its kernel is another one",
    5: "its parameters differ in what cannot change, such as the shape of a copy, or the kind or the device of memory",
    6: "this kind of node cannot be updated",
    7: "its kernel cannot be replaced by this one",
    8: "its attributes differ",
}
_TAKES_MORE = 0x4  # CO_VARARGS
_READERS: dict[str, Callable[..., Given]] = {
    "copy": node_parameters.copy,
    "fill": node_parameters.fill,
    "callback": node_parameters.callback,
    "record": node_parameters.record,
    "wait": node_parameters.wait,
    "graph": node_parameters.embed,
}


def _read(node: Node, given: Given | None, args: tuple[object, ...], named: dict[str, Any]) -> Given:
    """Read new parameters for a node; its kind cannot change.

    given  what it does now, or None if that is not known
    """
    graph = node.graph
    if node.kind == "kernel":
        first = args[0] if args else None
        if not hasattr(type(first), "pack_for_graph") and not hasattr(type(first), "configure"):
            if given is None or given.launch is None:
                raise TypeError(
                    f"{node!r} was captured or embedded, or is a copy or a fill that a kernel makes because of its "
                    "layout, or the whole executable graph was updated: give update() a Launch and the arguments, or "
                    "add another node"
                )
            launch = given.launch
            args = (launch.kernel if named else launch, *args)
            if named:
                named = launch._configuration_with(named)
        return node_parameters.kernel(graph, *args, **named)
    read = _READERS.get(node.kind)
    if read is None:
        raise TypeError(f"{node!r} cannot be changed: destroy it, and add another node")
    _check_given(node, read, args, named)
    made = read(graph, *args, **named)
    if made.kind != node.kind:
        raise ValueError(f"{node!r} would become a {made.kind} node, because of the layout: add another node instead")
    return made


def _check_given(node: Node, read: Callable[..., Given], args: tuple[object, ...], named: dict[str, object]) -> None:
    """Check number and names of the arguments of update(), which are those of a function of node_parameters.py."""
    code = read.__code__
    wanted = code.co_varnames[1 : code.co_argcount]
    many = bool(code.co_flags & _TAKES_MORE)
    unknown = [name for name in named if name not in wanted[len(args) :]]
    if unknown or len(args) + len(named) < len(wanted) or len(args) > len(wanted) and not many:
        got = f"the number of arguments is {len(args) + len(named)}"
        if unknown:
            got = f"{unknown[0]}= {'was given twice' if unknown[0] in wanted else 'cannot be given'}"
        raise TypeError(
            f"update() of {node!r} takes the arguments {', '.join(wanted)}{' and more' if many else ''}: {got}"
        )


def set_node(node: Node, args: tuple[object, ...], named: dict[str, object]) -> None:
    """Change what a node of a graph does."""
    graph = node.graph
    first, second = graph._locks((*args, *named.values()))
    while True:  # until no other thread has changed the node while the arguments were read
        node.handle  # raises Closed
        graph._refuse_recording()
        earlier = node._given
        with graph._primary.current():
            given = _read(node, earlier, args, named)
        with first, second, graph._primary.current():
            if node._given is earlier:
                _change(node, given, earlier)
                return


def _change(node: Node, given: Given, earlier: Given | None) -> None:
    graph, handle = node.graph, cuda_h.CUgraphNode(node.handle)
    graph._refuse_recording()
    given.check(graph)
    if not given.symbols[1]:
        raise TypeError(f"{node!r} cannot be changed in its graph: change the nodes of the graph `node.child`")
    given.check_options(graph, handle, None if earlier is None else earlier.options, False)
    driver, has_changed = graph._primary.driver, False
    options = given.ask_options(driver, handle)
    before = graph._root._kept.get(node.handle)
    # Before the call, so that the objects are alive even after an interrupt.
    graph._keep(node.handle, (*given.kept, *(before or ())))
    graph._root._given.pop(node.handle, None)  # and then it is not known what the node does
    node._label = None
    try:
        given.change(driver, handle)
        has_changed = True
        given.set_options(driver, handle)
    except CudaError as error:
        if has_changed and (earlier is None or not attempt(_change_back, driver, handle, earlier, options)):
            message = f"{error}\n{node!r} has been changed, but not its options: update it again"
            raise reworded(error, message, type(error)) from None
        graph._keep(node.handle, before)
        if earlier is not None:
            graph._root._given[node.handle] = earlier
        raise
    except BaseException:  # an interrupt: a kernel must not run with the options of another launch
        if given.options and attempt(_change_to, driver, handle, given):
            _note(node, given)
        raise
    _note(node, given)


def _change_to(driver: Driver, node: object, given: Given) -> None:
    given.change(driver, node)
    given.set_options(driver, node)


def _note(node: Node, given: Given) -> None:
    """Note what a node does now, and keep what it uses."""
    node.graph._keep(node.handle, given.kept)
    node.graph._root._given[node.handle] = given


def _change_back(driver: Driver, node: object, earlier: Given, options: list[tuple[int, Any]]) -> None:
    earlier.change(driver, node)
    for number, value in options:
        driver.cuGraphKernelNodeSetAttribute(node, number, byref(value))


def set_executable_node(
    executable: Executable,
    node: Node,
    args: tuple[object, ...],
    named: dict[str, object],
    inside: Callable[[Node], list[Node]],
) -> None:
    """Change what a node of an executable graph does in later launches.

    inside  returns the nodes of the graphs in a node
    """
    graph = node.graph
    first, second = graph._locks((*args, *named.values()))
    while True:  # as in set_node()
        executable.handle  # raises Closed
        graph._refuse_recording()
        earlier = executable._given.get(node.handle)
        with graph._primary.current():
            given = _read(node, earlier, args, named)
        with first, second, graph._primary.current(), executable._lock:
            held = executable._held()
            if executable._given.get(node.handle) is earlier:
                graph._refuse_recording()
                given.check(graph)
                _set(executable, node, given, inside)
                return
        del held  # (after the locks: see Executable._held)


def _set(executable: Executable, node: Node, given: Given, inside: Callable[[Node], list[Node]]) -> None:
    handles = cuda_h.CUgraphExec(executable.handle), cuda_h.CUgraphNode(node.handle)
    earlier = executable._given.get(node.handle)
    known = None if earlier is None else earlier.options
    if known is None and node._given is not None and given.options:
        known = {}  # the node was changed after the executable graph was made
    if node.kind == "kernel" and known is None and executable._has_options:
        raise ValueError(
            f"{executable!r} was updated from another graph, whose kernels have options, such as a cluster, or may "
            "have some, so it is not known which ones this node has: update it in the graph, and instantiate that again"
        )
    given.check_options(node.graph, handles[1], known, True)
    changed = [node.handle, *[inner.handle for inner in inside(node)]]
    known_before: dict[object, Given] = {
        handle: executable._given.pop(handle) for handle in changed if handle in executable._given
    }
    before = executable._kept.get(node.handle) or ()
    executable._kept[node.handle] = (*given.kept, *before)
    executable._changed()
    try:
        given.change_executable(node.graph, *handles)
    except CudaError:
        executable._kept[node.handle] = before
        executable._given.update(known_before)
        executable._changed()
        raise
    executable._kept[node.handle] = given.kept
    executable._given[node.handle] = given
    executable._changed()


def update(executable: Executable, graph: Graph, node_at: Callable[[Graph, int], Node]) -> None:
    """Give an executable graph the parameters of a graph.

    node_at  returns the Node of a graph for a handle
    raises  InvalidUse  the graphs differ; the message names the node
    """
    if not hasattr(type(graph), "instantiate"):
        raise TypeError(f"update() needs a Graph, not {a_kind(graph)}")
    node_parameters._check_device(executable, graph._primary, repr(graph))
    with graph._changing(), executable._lock, graph._primary.current():
        graph._refuse_recording()
        held = executable._held()
        _update(executable, graph, node_at)
    del held  # (after the locks: see Executable._held)


def _update(executable: Executable, graph: Graph, node_at: Callable[[Graph, int], Node]) -> None:
    node_parameters.check_open(graph)
    driver, handle = executable._primary.driver, cuda_h.CUgraphExec(executable.handle)
    before, given, had_options = dict(executable._kept), executable._given, executable._has_options
    executable._kept = {**{(key,): things for key, things in before.items()}, **graph._root._kept}
    executable._given, executable._has_options = {}, _may_have_options(graph)
    executable._changed()
    found = cuda_h.CUgraphExecUpdateResultInfo()
    node, result = cuda_h.CUgraphNode(), ctypes.c_uint()
    try:
        if driver.has("cuGraphExecUpdate_v2"):
            driver.cuGraphExecUpdate_v2(handle, cuda_h.CUgraph(graph.handle), byref(found))
        else:
            driver.cuGraphExecUpdate(handle, cuda_h.CUgraph(graph.handle), byref(node), byref(result))
    except CudaError as error:
        executable._kept, executable._given, executable._has_options = before, given, had_options
        executable._changed()
        if error.code != GRAPH_EXEC_UPDATE_FAILURE:
            raise
        wrong = getattr(found.errorNode, "value", found.errorNode) or node.value
        raise _refusal(
            error,
            graph,
            f"at {node_at(graph, wrong)!r}" if wrong else _differing(executable, graph),
            found.result or result.value,
        ) from None
    executable._kept = dict(graph._root._kept)
    if graph is executable._graph():  # (with another graph, the driver finds out which nodes belong together)
        executable._given, executable._has_options = dict(graph._given), False
    executable._changed()


def _may_have_options(graph: Graph) -> bool:
    """Tell whether kernels of a graph have options, such as a cluster; it is not known of those that were captured."""
    given = [node._given for node in graph.nodes if node.kind == "kernel"] if graph._given else [None]
    return any(each is None or each.options for each in given)


def _differing(executable: Executable, graph: Graph) -> str:
    """Say how the nodes of an executable graph and of a graph differ, if the driver does not name one."""
    there, here = executable._nodes, {node.handle: node for node in graph.nodes}
    if len(there) == len(here):
        return ""
    said = f"which has {len(here)} nodes and not {len(there)}"
    if here.keys() & set(there):  # it is the graph that was instantiated
        new = [repr(node) for handle, node in here.items() if handle not in there]
        said += f" (new: {', '.join(new[:3])}{', ...' if len(new) > 3 else ''})" if new else ""
    return said


def _refusal(error: CudaError, graph: object, where: str, result: int) -> CudaError:
    reason = _REASONS.get(int(result), "it differs")
    if where.startswith("which"):
        reason = "update() does not change nodes and edges"
    message = (
        f"{error.call}: this executable graph cannot be updated from {graph!r}, {where}{': ' * bool(where)}{reason}. "
        "Instantiate the graph instead."
    )
    return reworded(error, message, InvalidUse)
