"""What a node of a graph does: one class for each type of node.

How          an operation does not change: a node whose parameters are set gets another operation. `check` refuses what
             can never run. `work` returns the function that one launch runs. It is called when the graph is launched,
             because memory may not exist yet when the node is made.
What not     structures of C, which parameter_entries.py reads and writes.
Source       CUDA Driver API, "Graph Management"; cuda.h, CUgraphNodeType
Read next    definitions.py
"""

from __future__ import annotations

from types import SimpleNamespace

from ...machine.codes import Refused
from ...machine.host_thread import host_function
from ...machine.queues import CONTROL, HOST, INSTANT, KERNEL, nothing
from ...machine.space import Fault
from ..memories.copy_entries import copy_work, fill_work, sides_of
from ..memories.memory_entries import access_of, holding_at
from ..tasks.attribute_entries import check_attributes
from ..tasks.launch_entries import kernel_work
from .reservations import Reservation, covers, reserved_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    from ...machine.machine import Context, Holding, Machine
    from ...machine.queues import Event
    from ..code.modules import Function
    from .condition_entries import Condition
    from .definitions import Graph

    Size = tuple[int, int, int]
    Run = Callable[[], None]
    Place = tuple[str, Optional[Context]]

__all__ = [
    "Allocate",
    "Child",
    "Conditional",
    "Copy",
    "Empty",
    "Fill",
    "Free",
    "Host",
    "Launch",
    "Operation",
    "Other",
    "Record",
    "Wait",
]

_HOST, _ARRAY = 1, 3  # CUmemorytype
_COPIED_IN_BODIES = "the body of a conditional node copies only device memory and pinned memory"
# CUgraphExecUpdateResult
TYPE_CHANGED, FUNCTION_CHANGED, PARAMETERS_CHANGED, ATTRIBUTES_CHANGED = 3, 7, 5, 8


class Operation:
    """What a node does; `type` is its CUgraphNodeType, `kind` says how the queues run it.

    context   the context in which it runs, or None if it needs none
    priority  the priority that a launch asks for
    """

    __slots__ = ()
    context: Context | None = None
    priority = 0
    type = 5
    kind = INSTANT
    name = "an empty node"

    def check(self, machine: Machine) -> None:
        """Refuse parameters that can never work."""

    def check_in_body(self, machine: Machine, context: Context) -> None:
        """Refuse what the body of a conditional node of a context may not do: work in another context."""
        if self.context is not None and self.context is not context:
            raise Refused(
                801, f"{self.name} in the body of a conditional node belongs to another context than the node"
            )

    def work(self, machine: Machine) -> Run:
        """Return the function that a launch runs."""
        return nothing

    def places(self, machine: Machine) -> list[Place]:
        """Return where each operand of a copy or a fill is now."""
        return []

    def prevents(self, other: Operation) -> int:
        """Return 0 if an executable node can change to another operation, or else a CUgraphExecUpdateResult."""
        if type(self) is type(other):
            return 0
        return TYPE_CHANGED


class Empty(Operation):
    """A node without an effect, which joins the nodes that it waits for."""

    __slots__ = ()


class Launch(Operation):
    """The launch of a kernel; `attributes` are those of CUlaunchAttribute, as their 64 bytes."""

    __slots__ = ("function", "grid", "block", "shared", "arguments", "attributes", "context")
    type, kind = 0, KERNEL

    def __init__(
        self, function: Function, grid: Size, block: Size, shared: int, arguments: bytes, attributes: dict[int, bytes]
    ) -> None:
        self.function, self.grid, self.block, self.shared = function, grid, block, shared
        self.arguments, self.attributes = arguments, attributes
        self.context = function.module.context

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the kernel's name."""
        return self.function.entry.name

    @property
    def priority(self) -> int:  # type: ignore[override]
        """Return the attribute CU_LAUNCH_ATTRIBUTE_PRIORITY."""
        return int.from_bytes(self.attributes.get(8, b"")[:4], "little", signed=True)

    def check(self, machine: Machine) -> None:
        """Refuse a configuration or attributes that the kernel or the device does not support."""
        place: Any = SimpleNamespace(context=self.context, capture=self)
        check_attributes(machine, place, self.attributes)
        self.work(machine)

    def work(self, machine: Machine) -> Run:
        """Return the function that runs the kernel."""
        if self.function.handle not in machine.handles:
            raise Refused(400, f"the module of kernel {self.name!r}, which a node launches, was unloaded")
        return kernel_work(machine, self.function, self.grid, self.block, self.shared, self.arguments, self.attributes)

    def prevents(self, other: Operation) -> int:
        """Refuse a function of another context, and a change of the cooperative attribute."""
        if not isinstance(other, Launch):
            return TYPE_CHANGED
        if self.context is not other.context:
            return FUNCTION_CHANGED
        cooperates = [any(each.attributes.get(2, b"")[:4]) for each in (self, other)]
        if cooperates[0] != cooperates[1]:
            return ATTRIBUTES_CHANGED
        return 0


class Copy(Operation):
    """A copy.

    words  the members of a CUDA_MEMCPY3D, in order
    known  the memory that it was made with, as allocations with addresses in them; not pageable or registered memory
    """

    __slots__ = ("words", "context", "known")
    type, name = 1, "a copy"
    context: Context

    def __init__(self, words: tuple[int, ...], context: Context) -> None:
        self.words, self.context = words, context
        find = context.machine.space.find
        self.known = [
            (found, address)
            for kind, address in self.ends
            if kind != _ARRAY
            and (found := find(address)) is not None
            and getattr(found.context, "flavour", "") != "registered"
        ]

    @property
    def kinds(self) -> tuple[int, int]:
        """Return the CUmemorytype of source and target."""
        return self.words[4], self.words[15]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Return the CUmemorytype of source and target, each with the address, or the handle of the array."""
        found = []
        for kind, host, device, array in (self.words[4:8], self.words[15:19]):
            found.append((kind, {_HOST: host, _ARRAY: array}.get(kind, device)))
        return found

    @property
    def is_flat(self) -> bool:
        """Tell whether this copies one row."""
        return self.words[23] == self.words[24] == 1

    def check(self, machine: Machine) -> None:
        """Refuse an empty copy, and addresses that are neither memory nor reserved for a graph."""
        if 0 in self.words[22:25]:
            raise Refused(1, "a copy node of zero bytes: width, height and depth must be at least 1")
        sides_of(self.words)
        if not any(covers(machine, address) for address in (self.words[6], self.words[17])):
            self._copy(machine)

    def check_in_body(self, machine: Machine, context: Context) -> None:
        """Refuse what the body of a conditional node may not copy: pageable memory, arrays, what it cannot access."""
        super().check_in_body(machine, context)
        for kind, address in self.ends:
            if kind == _ARRAY or machine.space.find(address) is None and not covers(machine, address):
                raise Refused(801, _COPIED_IN_BODIES)
            _check_access(machine, address, context)

    def work(self, machine: Machine) -> Run:
        """Return the function that copies."""
        return _late(self.context, lambda: self._copy(machine))

    def _copy(self, machine: Machine) -> Run:
        """Refuse page-locked memory that was freed, which would be taken for pageable memory; return what copies."""
        for found, address in self.known:
            if not found.alive and machine.space.find(address) is None:
                raise Refused(1, machine.space.explain(address, 1))
        return copy_work(machine, self.words)

    def places(self, machine: Machine) -> list[Place]:
        """Return where source and target are now."""
        return [_place_of(machine, address, is_array=kind == _ARRAY) for kind, address in self.ends]

    def prevents(self, other: Operation) -> int:
        """Refuse other types of memory and another context."""
        if not isinstance(other, Copy):
            return TYPE_CHANGED
        if self.kinds != other.kinds or self.context is not other.context:
            return PARAMETERS_CHANGED
        return 0


class Fill(Operation):
    """A fill of rows of elements."""

    __slots__ = ("address", "pitch", "value", "width", "count", "height", "context")
    type, name = 2, "a fill"
    context: Context

    def __init__(
        self, address: int, pitch: int, value: int, width: int, count: int, height: int, context: Context
    ) -> None:
        self.address, self.pitch, self.value, self.width = address, pitch, value, width
        self.count, self.height, self.context = count, height, context

    def _arguments(self) -> tuple[int, ...]:
        return self.address, self.pitch, self.value, self.width, self.count, self.height

    def check(self, machine: Machine) -> None:
        """Refuse an empty fill, elements of another size, and addresses without memory."""
        if self.width not in (1, 2, 4):
            raise Refused(1, f"elements of {self.width} bytes cannot be filled: elementSize must be 1, 2 or 4")
        if not self.count or not self.height:
            raise Refused(1, "a fill node of zero elements: width and height must be at least 1")
        if self.value >> 8 * self.width:
            raise Refused(1, f"the value {self.value:#x} does not fit into an element of {self.width} bytes")
        if not covers(machine, self.address):
            fill_work(machine, *self._arguments())

    def check_in_body(self, machine: Machine, context: Context) -> None:
        """Refuse what the body of a conditional node may not fill: memory that it cannot access."""
        super().check_in_body(machine, context)
        _check_access(machine, self.address, context)

    def work(self, machine: Machine) -> Run:
        """Return the function that fills."""
        return _late(self.context, lambda: fill_work(machine, *self._arguments()))

    def places(self, machine: Machine) -> list[Place]:
        """Return where the memory is now."""
        return [_place_of(machine, self.address)]

    def prevents(self, other: Operation) -> int:
        """Refuse another context, another number of rows and, for several rows, another shape or size of elements."""
        if not isinstance(other, Fill):
            return TYPE_CHANGED
        shapes = [(each.height, each.height > 1 and (each.pitch, each.width, each.count)) for each in (self, other)]
        if shapes[0] != shapes[1] or self.context is not other.context:
            return PARAMETERS_CHANGED
        return 0


def _check_access(machine: Machine, address: int, context: Context) -> None:
    """Refuse memory that the context of a conditional node cannot access."""
    reserved = reserved_at(machine, address)
    if reserved is None:
        access = access_of(holding_at(machine, address), context)
    else:
        access = reserved.access_from(context.device)
    if not access:
        raise Refused(
            801,
            f"{machine.space.explain(address, 1)}, in the body of a conditional node of device "
            f"{context.device.ordinal}, which cannot access it: enable the access before you instantiate the graph",
        )


def _place_of(machine: Machine, address: int, *, is_array: bool = False) -> Place:
    """Return the kind of memory or of an array at an address, and the context of the allocation.

    Memory of pools and graphs belongs to no context, and counts as memory of the primary context of its device.
    """
    if is_array:
        array = machine.handles.get(address)
        return "array", getattr(array, "context", None)
    reserved = reserved_at(machine, address)
    if reserved is not None:
        return "device", reserved.device.primary
    allocation = machine.space.find(address)
    if allocation is None or allocation.context is None:
        return "pageable", None
    holding: Holding = allocation.context
    if allocation.kind in ("variable", "virtual"):
        kind = "device"
    else:
        kind = allocation.kind
    if holding.pool is None:
        return kind, holding.context
    return kind, machine.devices[holding.ordinal].primary


def _late(context: Context, make: Callable[[], Run]) -> Run:
    """Return a function that looks its memory up when it runs, in the context of the node."""

    def run() -> None:
        stack = context.machine.thread().stack  # the thread that waits for the work may have no current context
        stack.append(context)
        try:
            made = make()
        except Refused as refused:
            raise Fault(700, f"a node of a graph: {refused.report}") from None
        finally:
            stack.pop()
        made()

    return run


class Host(Operation):
    """A call of a host function."""

    __slots__ = ("function", "data")
    type, kind, name = 3, HOST, "a host function"

    def __init__(self, function: int, data: int) -> None:
        self.function, self.data = function, data

    def check(self, machine: Machine) -> None:
        """Refuse a null function."""
        if not self.function:
            raise Refused(1, "the host function is NULL")

    def work(self, machine: Machine) -> Run:
        """Return the function that calls it."""
        run: Run = host_function(self.function, self.data)
        return run


class Child(Operation):
    """Another graph, whose nodes run in the place of this one."""

    __slots__ = ("graph", "ownership")
    type, name = 4, "a child graph"

    def __init__(self, graph: Graph, ownership: int = 0) -> None:
        self.graph, self.ownership = graph, ownership


class _OfEvent(Operation):
    """An operation on an event, which must still exist when the graph is launched."""

    __slots__ = ("event",)

    def __init__(self, event: Event) -> None:
        self.event = event

    def work(self, machine: Machine) -> Run:
        """Refuse an event that was destroyed; the launch itself does the rest."""
        if self.event.handle not in machine.handles:
            raise Refused(400, "the event of a node was destroyed: keep it until the last launch")
        return nothing


class Wait(_OfEvent):
    """A wait for the last record of an event before the graph is launched."""

    __slots__ = ()
    type, name = 6, "a wait for an event"


class Record(_OfEvent):
    """A record of an event."""

    __slots__ = ()
    type, name = 7, "an event's mark"


class Allocate(Operation):
    """An allocation, at an address that stays the same in each launch."""

    __slots__ = ("memory",)
    type, name = 10, "an allocation"

    def __init__(self, memory: Reservation) -> None:
        self.memory = memory

    def work(self, machine: Machine) -> Run:
        """Return the function that allocates the memory."""
        return self.memory.begin

    def prevents(self, other: Operation) -> int:
        """Refuse any other allocation."""
        if not isinstance(other, Allocate):
            return TYPE_CHANGED
        if self.memory is other.memory:
            return 0
        return PARAMETERS_CHANGED


class Free(Operation):
    """The end of an allocation of this or another graph."""

    __slots__ = ("memory",)
    type, name = 11, "a free"

    def __init__(self, memory: Reservation) -> None:
        self.memory = memory

    def work(self, machine: Machine) -> Run:
        """Return the function that frees the memory."""
        return self.memory.end

    def prevents(self, other: Operation) -> int:
        """Refuse a free of another allocation."""
        if not isinstance(other, Free):
            return TYPE_CHANGED
        if self.memory is other.memory:
            return 0
        return PARAMETERS_CHANGED


class Other(Operation):
    """Any other work that a stream has captured, such as a wait for a value."""

    __slots__ = ("run", "name", "kind", "type")

    def __init__(self, run: Run, name: str, kind: int = INSTANT, type: int = 12) -> None:
        self.run, self.name, self.kind, self.type = run, name, kind, type

    def check_in_body(self, machine: Machine, context: Context) -> None:
        """Refuse a copy, which is one of arrays: every other copy is described by a structure."""
        if self.type == Copy.type:
            raise Refused(801, _COPIED_IN_BODIES)

    def work(self, machine: Machine) -> Run:
        """Return the captured function."""
        return self.run

    def prevents(self, other: Operation) -> int:
        """Refuse any other work."""
        if self is other:
            return 0
        if isinstance(other, Other):
            return PARAMETERS_CHANGED
        return TYPE_CHANGED


class Conditional(Operation):
    """A choice among bodies, by the value of a condition: if (0), while (1) or switch (2)."""

    __slots__ = ("condition", "form", "bodies", "array", "context")
    type, kind, name = 13, CONTROL, "a conditional node"

    def __init__(self, condition: Condition, form: int, bodies: tuple[Graph, ...], array: object = None) -> None:
        self.condition, self.form, self.bodies = condition, form, bodies
        self.context = condition.context
        self.array = array  # the C array of the bodies' handles, which lives as long as the node

    def chosen(self) -> Graph | None:
        """Return the body to run now."""
        value = self.condition.value
        if self.form == 2:
            if value < len(self.bodies):
                return self.bodies[value]
            return None
        if value:
            return self.bodies[0]
        if self.form == 0 and len(self.bodies) > 1:
            return self.bodies[1]
        return None

    def prevents(self, other: Operation) -> int:
        """Refuse another form, another number of bodies and another context."""
        if not isinstance(other, Conditional):
            return TYPE_CHANGED
        if (self.form, len(self.bodies), self.context) == (other.form, len(other.bodies), other.context):
            return 0
        return PARAMETERS_CHANGED
