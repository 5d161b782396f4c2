"""The parameters of nodes: one function for each kind of node reads what the user gives.

What it is   `Given`, the parameters of a node as C structures, with the calls that add a node of its kind, change it,
             and change it in an executable graph; and the functions that return a Given.
How          a kernel's arguments are packed by its Launch, as for a launch. A copy or a fill that one call of the
             driver cannot do becomes the launch of a kernel that can. The functions read before a lock of the graph is
             taken, since code of exporters may wait for another lock; then `Given.check` looks at what the lock guards.
Keeping      `kept` contains everything that a node uses: leases of our own memory, which keep its bytes after close();
             views of other libraries' arrays; modules, events and functions; the contexts of other devices that work.
Source       CUDA Driver API, "Graph Management"
Read next    updates.py
"""

from __future__ import annotations

import ctypes
import struct
from _weakref import ref
from ctypes import byref

from ...arguments import as_int
from ...arrays import copying
from ...arrays.host_copy import LARGEST_PITCH, box_of
from ...errors import Closed, CudaError, InvalidUse, a_kind, worded
from ...headers import cuda_h
from ...headers.status import INVALID_VALUE
from ...ownership import Owned
from ...protocols.description import Bytes, Description, Unaddressed
from ...protocols.device_memory import gpu
from ..core.calls import reworded
from ..core.context import Life, attempt, check_reach
from ..core.host_functions import for_graph
from ..core.leases import Lease
from ..core.stream_arguments import InContext
from .conditions import Condition, refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ctypes import _SimpleCData
    from typing import Any, Callable

    from ...arrays.host_copy import Walk
    from ...driver import Driver
    from ...gpu.core.context import PrimaryContext
    from ...gpu.graphs.executable import Executable
    from ...gpu.graphs.graph import Graph
    from ...gpu.graphs.nodes import AllocationNode
    from ...gpu.kernels.launch import Launch, Packed

__all__ = [
    "Choice",
    "Given",
    "allocate",
    "check_open",
    "callback",
    "conditional",
    "copy",
    "embed",
    "empty",
    "fill",
    "free",
    "keep",
    "kernel",
    "record",
    "wait",
]

_HOST, _DEVICE = 1, 2  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE
_DECISIVE = 2, 4  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION: what a kernel computes may depend on them
_UNSET = bytes(64), struct.pack("<3I52x", 1, 1, 1)  # their values for a kernel without them


class Given:
    """The action of a node: its parameters, and the calls that add and change it.

    kind, label  its name and its description
    kept         the objects that it uses
    arguments    the arguments of the calls, after those that name the node
    symbols      the calls that add such a node, change it in a graph, and change it in an executable graph; "": none
    in_graph     how many of the arguments the second call takes
    once         what no other node of the graph may do, or None
    options      the attributes of a kernel node, by number
    """

    __slots__ = ("kind", "label", "kept", "arguments", "symbols", "in_graph", "once", "launch", "packed", "options")

    def __init__(
        self,
        kind: str,
        label: str,
        kept: tuple[object, ...],
        arguments: tuple[Any, ...],
        symbols: tuple[str, str, str],
        in_graph: int | None = None,
    ) -> None:
        self.kind, self.label, self.kept, self.arguments, self.symbols = kind, label, kept, arguments, symbols
        self.in_graph = len(arguments) if in_graph is None else in_graph
        self.once: tuple[object, ...] | None = None
        self.launch: Launch | None = None  # of a kernel node: its Launch, and the packed arguments
        self.packed: Packed | None = None
        self.options: dict[int, bytes] = {}

    def check(self, graph: Graph) -> None:
        """Check, while the lock of the graph is held, what may have changed since the parameters were read."""
        for owner in owners_in(things_in(self.kept)):
            if isinstance(owner, Owned):
                owner.handle  # raises Closed

    def add(self, graph: Graph, node: _SimpleCData[int], others: object, count: int) -> None:
        """Add the node to a graph; `node` gets its handle."""
        driver = graph._primary.driver
        try:
            getattr(driver, self.symbols[0])(byref(node), cuda_h.CUgraph(graph.handle), others, count, *self.arguments)
            self.set_options(driver, node)
        except BaseException as error:  # also an interrupt: a kernel must not run without its options
            if not (node.value and self.options) or attempt(driver.cuGraphDestroyNode, node):
                raise
            graph._keep(node.value, self.kept)  # a graph with allocations cannot lose a node
            if not isinstance(error, CudaError):
                attempt(self.set_options, driver, node)
                raise
            message = f"{error}\nThe graph has this node now, without its options: build another graph"
            raise reworded(error, message, type(error)) from None

    def _options_of(self, driver: Driver, node: object) -> dict[int, bytes]:
        """Ask for the options of a kernel node that was captured, embedded, or added by other software.

        Of the others, drivers have different defaults.

        calls   cuGraphKernelNodeGetAttribute
        """
        found: dict[int, bytes] = {}
        if self.packed is None or driver.version < 11080:
            return found
        for number in {*self.options, *_DECISIVE}:
            value = cuda_h.CUlaunchAttributeValue()
            driver.cuGraphKernelNodeGetAttribute(node, number, byref(value))
            if number in self.options or bytes(value) not in _UNSET:
                found[number] = bytes(value)
        return found

    def check_options(self, graph: Graph, node: object, known: dict[int, bytes] | None, executable: bool) -> None:
        """Refuse options that a node cannot get; `known` are those that it has, or None."""
        options = self._options_of(graph._primary.driver, node) if known is None else known
        if executable and options != self.options:
            raise ValueError(
                "options of a kernel node, such as a cluster, cannot be changed in an executable graph: update the "
                "node of the graph, and instantiate the graph again"
            )
        if not options.keys() <= self.options.keys():
            raise ValueError("options of a kernel node, such as a cluster, cannot be removed: add another node")

    def change(self, driver: Driver, node: object) -> None:
        """Change a node of a graph to this, but not its options."""
        getattr(driver, self.symbols[1])(node, *self.arguments[: self.in_graph])

    def change_executable(self, graph: Graph, executable: object, node: object) -> None:
        """Change a node of an executable graph to this; the attributes of a kernel stay as they are."""
        try:
            getattr(graph._primary.driver, self.symbols[2])(executable, node, *self.arguments)
        except InvalidUse as error:
            if error.code != INVALID_VALUE or self.kind not in ("copy", "fill"):
                raise
            message = (
                f"{error}\nA {self.kind} of an executable graph keeps its shape and the kind of its memory: update the "
                "node of the graph, and instantiate the graph again"
            )
            raise reworded(error, message, InvalidUse) from None

    def set_options(self, driver: Driver, node: object) -> None:
        """Give a kernel node of a graph the options of this."""
        for attribute in self.packed.attributes if self.packed is not None else ():
            driver.cuGraphKernelNodeSetAttribute(node, attribute.id, byref(attribute.value))

    def ask_options(self, driver: Driver, node: object) -> list[tuple[int, Any]]:
        """Return what a kernel node of a graph has instead of the options of this."""
        found = [(number, cuda_h.CUlaunchAttributeValue()) for number in self.options]
        for number, value in found:
            driver.cuGraphKernelNodeGetAttribute(node, number, byref(value))
        return found


# -- what is kept


def keep(graph: Graph, thing: Any) -> tuple[object, ...]:
    """Return the objects that keep the memory of an array alive; none for memory that the graph allocates."""
    inner = thing
    for _ in range(10):  # (In(In(x)) is refused when it is packed)
        if not hasattr(type(inner), "exporter"):
            break
        inner = inner.exporter
    if isinstance(inner, Bytes):
        owner: object = inner
    else:
        owner = getattr(inner, "_owner", None)
    if isinstance(owner, Bytes):
        return () if owner._keeps is graph._root else (inner, owner._lease_for_work())  # type: ignore[attr-defined]
    if isinstance(inner, Description):
        return (inner,)
    parts = [getattr(inner, name, None) for name in ("resource", "view")]  # of a texture, a surface, a tensor map
    return tuple([kept for part in parts if isinstance(part, (Bytes, Description)) for kept in keep(graph, part)])


def things_in(things: Iterable[object]) -> Iterator[object]:
    """Yield the objects that nodes use; a captured launch of a graph has a tuple of its own."""
    for thing in things:
        if type(thing) is tuple or type(thing) is list:  # (an array of another library may be a subclass)
            yield from things_in(thing)
        else:
            yield thing


def owners_in(things: Iterable[object]) -> Iterator[Owned | Life]:
    """Yield what must be open among what nodes use."""
    for thing in things:
        if type(thing) is Life:
            yield thing
        elif type(thing) is Lease:  # it keeps the bytes, except from reset()
            memory: Any = thing.memory
            life = memory._primary.life  # (before the test: reset() ends the memory first)
            yield memory if hasattr(memory._lender()._release, "why") else life
        elif isinstance(thing, Owned) and not isinstance(thing, Bytes):  # (a lease keeps the bytes of a Memory)
            yield thing
            yield from owners_in([getattr(thing, "parent", None)])  # what a level of a mipmapped array belongs to


def must_be_open(things: Iterable[object], primary: PrimaryContext) -> tuple[Owned | Life, ...]:
    """Return what must be open among what nodes use; with the context of its own device, a graph is closed itself."""
    return tuple({id(owner): owner for owner in owners_in(things) if owner is not primary.life}.values())


def refuse_closed(owners: Iterable[Owned | Life]) -> None:
    """Raise Closed if a node uses an object that is closed: the driver must not see its handle."""
    for owner in owners:
        if owner._handle is None:
            raise Closed(
                f"a node of this graph uses {owner!r}, which is closed: update that node, or build the graph again if "
                "the node was captured or embedded"
            )


def check_open(graph: Graph) -> None:
    """Raise Closed if a node of a graph uses a module, an event, a texture or a CUDA array that is closed.

    The same goes for memory and work on another device that was reset.
    """
    root = graph._root
    owners = root._owners
    if owners is None:
        is_growing = root._recording() is not None  # (asked first: it may end now)
        owners = must_be_open(things_in(root._kept.values()), root._primary)
        root._owners = None if is_growing else owners
    refuse_closed(owners)


def _check_device(graph: Graph | Executable, primary: Any, what: str) -> None:
    if primary is not graph._primary:
        raise ValueError(
            f"{what} is on device {primary.ordinal}, the graph on device {graph._primary.ordinal}: both must be on one"
        )


# -- kernels

_KERNEL = "cuGraphAddKernelNode", "cuGraphKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"
_KERNEL_V2 = "cuGraphAddKernelNode_v2", "cuGraphKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams_v2"


def kernel(graph: Graph, launch: Any, *arguments: object, **configuration: object) -> Given:
    """Read the launch of a kernel: a Launch, or a Kernel and its configuration, and the arguments."""
    configure, pack = getattr(launch, "configure", None), getattr(type(launch), "pack_for_graph", None)
    if configure is not None and hasattr(launch, "parameters"):
        if "stream" in configuration:
            raise TypeError("a node has no stream: leave it out, and give the stream to Graph.launch()")
        missing = [name for name in ("grid", "block") if name not in configuration]
        if missing:
            raise TypeError(f"{' and '.join(missing)}: a node of {launch!r} needs them, or give a Launch")
        launch = configure(**configuration)
    elif pack is None:
        raise TypeError(f"a kernel node needs a Launch or a Kernel, not {a_kind(launch)}")
    elif configuration:
        raise TypeError(
            f"{next(iter(configuration))}: a Launch is already configured: leave this out, or give the Kernel instead"
        )
    _check_device(graph, launch._prepared.primary, f"kernel {launch.kernel.name}")
    kept = [thing for argument in arguments for thing in keep(graph, argument)]
    packed = launch.pack_for_graph(arguments)
    for used in packed.views:  # (and leases)
        if isinstance(used, Description):
            gpu.finish(used)  # a graph cannot wait for work outside of it
    parameters = cuda_h.CUDA_KERNEL_NODE_PARAMS()
    parameters.func = cuda_h.CUfunction(launch.kernel.handle)
    parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = launch.grid
    parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = launch.block
    parameters.sharedMemBytes = launch.shared_bytes
    parameters.kernelParams = ctypes.cast(packed.pointers, type(parameters.kernelParams))
    newest = graph._primary.driver.has("cuGraphAddKernelNode_v2")
    symbols = _KERNEL_V2 if newest else _KERNEL
    pointer: object = byref(parameters)
    if not newest:
        pointer = ctypes.cast(ctypes.pointer(parameters), ctypes.POINTER(cuda_h.CUDA_KERNEL_NODE_PARAMS_v1))
    kept += [*packed.views, *packed.uses, launch.kernel.module, launch]
    made = Given("kernel", launch.kernel.name, tuple(kept), (pointer,), symbols)
    made.launch, made.packed = launch, packed
    made.options = {int(attribute.id): bytes(attribute.value) for attribute in packed.attributes}
    return made


# -- copies and fills


def copy(graph: Graph, dst: object, src: object) -> Given:
    """Read a copy between two exporters; of an object with only `__array__`, the node keeps the present elements."""
    for side in (dst, src):
        _check_addressed(side)
    checked = copying.CheckedCopy(dst, src)
    dst, to, src, of, walk = checked.dst, checked.to, checked.src, checked.of, checked.walk
    label = f"{to.form.nbytes} bytes"
    if walk.is_empty():
        raise ValueError(f"there is nothing to copy into {dst!r}, which has no elements: leave this node out")
    if walk.overlaps() and not _are_beside(walk):
        raise ValueError("the two sides of a copy node must not share bytes: copy through other memory")
    kept = (*keep(graph, dst), *keep(graph, src))
    for array in (dst, src):
        gpu.finish(array)  # a graph cannot wait for work outside of it
    box = box_of(walk) if walk.shape else ((walk.nbytes, 1), (walk.nbytes, 1), 1, 1)
    if box is None:
        if "host" in (to.kind, of.kind):
            raise _impossible(dst, src)
        check_reach(graph, "graph", dst, to)
        check_reach(graph, "graph", src, of, 1)
        return _by_kernel(graph, walk, "copy", label, kept)
    parameters = cuda_h.CUDA_MEMCPY3D()
    parameters.WidthInBytes, parameters.Height, parameters.Depth = walk.nbytes, *box[2:]
    for side, kind, address, (pitch, count) in (
        ("dst", to.kind, walk.target, box[0]),
        ("src", of.kind, walk.source, box[1]),
    ):
        is_host = kind in ("host", "pinned")
        setattr(parameters, f"{side}MemoryType", _HOST if is_host else _DEVICE)
        setattr(parameters, f"{side}Host" if is_host else f"{side}Device", address)
        setattr(parameters, f"{side}Pitch", pitch)
        setattr(parameters, f"{side}Height", count)
    context = cuda_h.CUcontext(graph._primary.handle)
    symbols = "cuGraphAddMemcpyNode", "cuGraphMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams"
    return Given("copy", label, kept, (byref(parameters), context), symbols, 1)


def _impossible(dst: object, src: object) -> ValueError:
    """Return the error for a copy of pageable host memory whose layouts no node can copy."""
    shapes = [getattr(side, "shape", None) for side in (dst, src)]
    if None not in shapes and shapes[0] != shapes[1]:
        return ValueError(
            f"a copy node cannot broadcast from or to pageable host memory: give a source of shape {shapes[0]} instead "
            f"of {shapes[1]}, or use pinned memory"
        )
    strides = [getattr(side, "strides", (1,)) for side in (dst, src)]
    return ValueError(
        "a copy node cannot copy between pageable host memory and memory of another layout (the strides are "
        f"{strides[0]} and {strides[1]} bytes): make both sides contiguous, or use pinned memory"
    )


def _are_beside(walk: Walk) -> bool:
    """Tell whether both sides are different columns of the same rows."""
    if not walk.shape or walk.target_strides != walk.source_strides:
        return False
    pitch = min(map(abs, walk.target_strides))
    if not pitch or any(stride % pitch for stride in walk.target_strides):
        return False
    return bool(walk.nbytes <= (walk.target - walk.source) % pitch <= pitch - walk.nbytes)


def _by_kernel(graph: Graph, walk: Walk, kind: str, label: str, kept: tuple[object, ...]) -> Given:
    """Return the launch of the kernel that copies between any two layouts."""
    launch, arguments = gpu.copies.strided_launch(walk, graph._primary)
    made = kernel(graph, launch, *arguments)
    made.kept, made.label = (*kept, *made.kept), f"{kind}, {label}"
    made.launch = None  # so that its kernel cannot be given other arguments
    return made


def _check_addressed(side: object) -> None:
    if isinstance(side, Unaddressed):
        raise TypeError(
            f"no node takes {a_kind(side)}, which has no addresses: record its copies with stream.capture(into=graph)"
        )


def fill(graph: Graph, target: object, value: object) -> Given:
    """Read a fill of a view, or of a Memory."""
    _check_addressed(target)
    target, to, pattern, word = copying.plan_fill(target, value)
    form, label = to.form, f"{to.form.nbytes} bytes"
    if not form.nbytes:
        raise ValueError(f"there is nothing to fill in {target!r}, which has no elements: leave this node out")
    if to.kind == "host":
        raise ValueError("a fill node cannot write to pageable host memory: use callback(), or pinned memory")
    check_reach(graph, "graph", target, to)
    kept = keep(graph, target)
    gpu.finish(target)
    first, width = to.address + form.offset, len(word)
    if form.size is not None:
        row, pitch, rows = (form.nbytes, 0, 1)
    else:
        row, pitch, rows = form.rows or (1, 0, 0)
    if not width or first % width or pitch % width or rows != 1 and not row <= pitch <= LARGEST_PITCH:
        walk, constant = gpu.copies.constant_walk(form, to.address, pattern, graph._primary)
        return _by_kernel(graph, walk, "fill", label, (*kept, *keep(graph, constant)))
    parameters = cuda_h.CUDA_MEMSET_NODE_PARAMS()
    parameters.dst, parameters.pitch, parameters.elementSize = first, pitch, width
    parameters.value = int.from_bytes(word, "little")
    parameters.width, parameters.height = row // width, rows
    context = cuda_h.CUcontext(graph._primary.handle)
    symbols = "cuGraphAddMemsetNode", "cuGraphMemsetNodeSetParams", "cuGraphExecMemsetNodeSetParams"
    return Given("fill", label, kept, (byref(parameters), context), symbols, 1)


# -- functions, events, graphs


def callback(graph: Graph, function: Callable[..., object], *arguments: object) -> Given:
    """Read a call of a Python function."""
    address, number, kept = for_graph(function, arguments)
    parameters = cuda_h.CUDA_HOST_NODE_PARAMS()
    parameters.fn, parameters.userData = ctypes.cast(address, type(parameters.fn)), number
    symbols = "cuGraphAddHostNode", "cuGraphHostNodeSetParams", "cuGraphExecHostNodeSetParams"
    label = getattr(function, "__qualname__", None) or repr(function)
    return Given("callback", label, (kept,), (byref(parameters),), symbols)


def _event(graph: object, event: object, what: str) -> InContext:
    if not isinstance(event, InContext) or not hasattr(type(event), "elapsed_ms"):
        raise TypeError(f"{what}() needs an Event, not {a_kind(event)}")
    event.handle  # raises Closed
    return event


def record(graph: Graph, event: object) -> Given:
    """Read the record of an event."""
    event = _event(graph, event, "record")
    _check_device(graph, event._primary, repr(event))
    symbols = "cuGraphAddEventRecordNode", "cuGraphEventRecordNodeSetEvent", "cuGraphExecEventRecordNodeSetEvent"
    return Given("record", repr(event), (event,), (cuda_h.CUevent(event.handle),), symbols)


def wait(graph: object, event: object) -> Given:
    """Read a wait for an event, which may be of another device."""
    event = _event(graph, event, "wait")
    symbols = "cuGraphAddEventWaitNode", "cuGraphEventWaitNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"
    return Given("wait", repr(event), (event,), (cuda_h.CUevent(event.handle),), symbols)


class Embedded(Given):
    """The action of a child graph node; what the child graph does, and uses, is read by check()."""

    __slots__ = ("child",)

    child: ref[Graph]  # the node must not keep it

    def check(self, graph: Graph) -> None:
        """Read the child graph, whose lock is held, too."""
        child = self.child()
        assert child is not None  # the caller has it
        recording = child._recording()
        if recording is not None:
            raise ValueError(f"{recording!r} is in progress: embed the graph after its with block")
        check_open(child)
        self.kept = tuple([thing for things in list(child._root._kept.values()) for thing in things])
        self.label = f"{len(child.nodes)} nodes"  # raises Closed


def embed(graph: Graph, child: object) -> Given:
    """Read a child graph."""
    if not isinstance(child, type(graph)):
        raise TypeError(f"embed() needs a Graph, not {a_kind(child)}")
    _check_device(graph, child._primary, repr(child))
    if child._root is graph._root:
        raise ValueError(f"{graph!r} cannot contain itself: embed a clone()")
    symbols = "cuGraphAddChildGraphNode", "", "cuGraphExecChildGraphNodeSetParams"
    made = Embedded("graph", "", (), (cuda_h.CUgraph(child.handle),), symbols)
    made.child = ref(child)
    return made


def empty(graph: object) -> Given:
    """Return the parameters of an empty node, which does nothing."""
    return Given("empty", "", (), (), ("cuGraphAddEmptyNode", "", ""))


# -- memory


def allocate(graph: Graph, nbytes: object) -> Given:
    """Read an allocation of device memory."""
    number = as_int("nbytes", nbytes)
    if not 0 < number < 2**63:
        raise ValueError(f"nbytes={worded(number)}: an allocation node needs 1 to 2**63-1 bytes")
    parameters = cuda_h.CUDA_MEM_ALLOC_NODE_PARAMS()
    parameters.poolProps.allocType = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
    parameters.poolProps.location.type = 1  # CU_MEM_LOCATION_TYPE_DEVICE
    parameters.poolProps.location.id = graph._primary.ordinal
    parameters.bytesize = number
    return Given("allocation", f"{number} bytes", (), (byref(parameters),), ("cuGraphAddMemAllocNode", "", ""))


class Freed(Given):
    """The action of a node that frees an allocation."""

    __slots__ = ("allocation",)

    allocation: ref[AllocationNode]  # the node must not keep it, nor its graph

    def check(self, graph: Graph) -> None:
        """Check that neither graph, whose locks are held, frees the allocation already."""
        allocation = self.allocation()
        assert allocation is not None  # the caller has it
        allocation.handle  # raises Closed
        for owner in (allocation.graph, graph):
            if self.once in owner._root._given:
                raise ValueError(f"{allocation!r} is freed by another node of {owner!r} already: leave this node out")


def free(graph: Graph, allocation: AllocationNode) -> Given:
    """Read a node that frees the allocation of a node in this or another graph."""
    if getattr(allocation, "kind", "") != "allocation":
        raise TypeError(f"free() needs the node of an allocation, not {a_kind(allocation)}")
    address, symbols = allocation.ptr, ("cuGraphAddMemFreeNode", "", "")
    made = Freed("free", allocation.label, (), (cuda_h.CUdeviceptr(address),), symbols)
    # A later allocation may get the same address, and one of another graph, after this one was closed, the same handle.
    made.allocation, made.once = ref(allocation), ("free", allocation.handle, ref(allocation.graph._root))
    return made


# -- conditional nodes

_CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
_FORMS = {"if": 0, "while": 1, "switch": 2}  # CU_GRAPH_COND_TYPE_...


class Choice(Given):
    """The action of a conditional node; the call that adds it takes the data of edges, too.

    form       "if", "while" or "switch"
    bodies     the handles of its graphs, after it was added
    condition  the handle of its condition, and the default value
    """

    __slots__ = ("form", "bodies", "condition")

    def __init__(self, form: str, condition: tuple[int, int | None], parameters: object) -> None:
        super().__init__("conditional", form, (), (parameters,), ("cuGraphAddNode_v2", "", ""))
        self.form, self.condition, self.once = form, condition, ("condition", condition[0])
        self.bodies: tuple[int, ...] = ()

    def check(self, graph: Graph) -> None:
        """Check that no other node uses the condition."""
        if self.once in graph._root._given:
            condition = Condition._of(graph._root, *self.condition)
            raise ValueError(f"{condition!r} belongs to another conditional node already: create another condition")

    def add(self, graph: Graph, node: _SimpleCData[int], others: object, count: int) -> None:
        """Add the node to a graph."""
        (parameters,), handle = self.arguments, cuda_h.CUgraph(graph.handle)
        graph._primary.driver.cuGraphAddNode_v2(byref(node), handle, others, None, count, byref(parameters))
        chosen = parameters.conditional
        address = ctypes.cast(chosen.phGraph_out, ctypes.c_void_p).value or 0
        self.bodies = tuple((ctypes.c_size_t * chosen.size).from_address(address))


def conditional(graph: Graph, condition: object, form: str, count: object) -> Given:
    """Read a conditional node with a number of graphs."""
    if not isinstance(condition, Condition):
        raise TypeError(f"a conditional node needs a Condition, from create_condition(), not {a_kind(condition)}")
    if condition.graph._root is not graph._root:
        raise ValueError(
            f"{condition!r} belongs to another graph, {condition.graph!r}, and this is {graph!r}: create one here"
        )
    handle = condition.handle
    number = as_int("count", count)
    if not 0 < number < 2**16:
        raise ValueError(f"count={worded(number)}: give the number of branches, 1 to 65535")
    driver = graph._primary.driver
    if (form == "switch" or number > 1) and driver.version < 12080:
        raise refused(driver, "switch nodes, and if nodes with an else branch,", "12.8")
    parameters = cuda_h.CUgraphNodeParams()
    parameters.type = _CONDITIONAL
    chosen = parameters.conditional
    chosen.handle, chosen.type, chosen.size = handle, _FORMS[form], number
    chosen.ctx = cuda_h.CUcontext(graph._primary.handle)
    return Choice(form, (handle, condition.default), parameters)
