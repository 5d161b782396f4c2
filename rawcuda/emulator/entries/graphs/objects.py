"""User objects: memory of the caller that graphs hold, and a function that is called when nothing holds it any more.

Source       CUDA Driver API, cuUserObjectCreate; Programming Guide, "CUDA User Objects"
Read next    definitions.py
"""

from __future__ import annotations

from ...interface.thunks import entry, out, put_word
from ...machine.codes import Refused
from ...machine.host_thread import host_function
from ...machine.machine import Machine
from ...machine.queues import HOST, Stream, Work
from .definitions import graph_at

__all__ = ["UserObject"]

_NO_DESTRUCTOR_SYNC = 1
_MOVE = 1
_MOST = 2**31 - 1


class UserObject:
    """A reference-counted object; its function is called once, in the thread of host functions."""

    __slots__ = ("handle", "count", "destroy", "data")

    def __init__(self, data: int, destroy: int, count: int) -> None:
        self.handle = 0
        self.data, self.destroy, self.count = data, destroy, count

    def release(self, machine: Machine, count: int) -> None:
        """Release references; the last one destroys the object, once, even if more are released than there were."""
        before, self.count = self.count, self.count - count
        if self.count <= 0 < before:
            machine.handles.pop(self.handle, None)
            nowhere = Stream(machine.devices[0].primary, 0)
            machine.host_thread.give(
                Work(host_function(self.destroy, self.data), "the end of a user object", HOST, nowhere)
            )


def _counted(count: int) -> None:
    if not 0 < count <= _MOST:
        raise Refused(1, f"{count} references: the number must be 1 to {_MOST}")


@entry(
    "cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount, "
    "unsigned int flags)",
    since=11030,
)
def create(machine: Machine, address: int, data: int, destroy: int, count: int, flags: int) -> None:
    """Create a user object; the caller owns the first references."""
    out(address, destroy)
    _counted(count)
    if flags != _NO_DESTRUCTOR_SYNC:
        raise Refused(1, f"flags {flags:#x}: must be CU_USER_OBJECT_NO_DESTRUCTOR_SYNC (1)")
    put_word(address, machine.add(UserObject(data, destroy, count)).handle)


@entry("cuUserObjectRetain(CUuserObject object, unsigned int count)", since=11030)
def retain(machine: Machine, handle: int, count: int) -> None:
    """Add references of the caller."""
    held = machine.get(UserObject, handle)
    _counted(count)
    held.count += count


@entry("cuUserObjectRelease(CUuserObject object, unsigned int count)", since=11030)
def release(machine: Machine, handle: int, count: int) -> None:
    """Release references of the caller."""
    held = machine.get(UserObject, handle)
    _counted(count)
    if count > held.count:
        raise Refused(1, f"{count} references cannot be released: the user object has {held.count}")
    held.release(machine, count)


@entry(
    "cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)", since=11030
)
def graph_retain(machine: Machine, graph_handle: int, handle: int, count: int, flags: int) -> None:
    """Add references of a graph, or move them from the caller to it."""
    graph, held = graph_at(machine, graph_handle), machine.get(UserObject, handle)
    _counted(count)
    if flags & ~_MOVE:
        raise Refused(1)
    graph.objects[held] = graph.objects.get(held, 0) + count
    held.count += 0 if flags & _MOVE else count


@entry("cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)", since=11030)
def graph_release(machine: Machine, graph_handle: int, handle: int, count: int) -> None:
    """Release references of a graph."""
    graph, held = graph_at(machine, graph_handle), machine.get(UserObject, handle)
    _counted(count)
    has = graph.objects.get(held, 0)
    if count > has:
        raise Refused(1, f"{count} references cannot be released: the graph has {has} to this user object")
    graph.objects[held] = has - count
    if has == count:
        del graph.objects[held]
    held.release(machine, count)
